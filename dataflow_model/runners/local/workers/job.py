"""A bounded run over several processes, prepared for its workers in the process that starts it."""

from __future__ import annotations

import os
import pathlib
import sys
import uuid
from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.micros import wall_clock
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.runners.engine.bounded.execution import run_ahead_in_process
from dataflow_model.runners.engine.bounded.files import list_sources
from dataflow_model.runners.engine.bounded.inputs import inputs_of
from dataflow_model.runners.engine.sources.rows_held import with_rows_held
from dataflow_model.runners.local.workers.exchange import writing_in
from dataflow_model.runners.local.workers.messages import PROGRAM_FILE, Assignment
from dataflow_model.runners.runs.run_folder import RunFolder
from dataflow_model.runners.sharded.feed.slices import Slice
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.unpicklable import check_functions
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.engine.bounded.files import ListedSource
    from dataflow_model.runners.reporting import CountedAhead


@attrs.frozen
class Job:
    """What the workers of a run do.

    Attributes:
        program: the program.
        counted: what was counted while its static side inputs were computed.
        folder: the folder of the run.
        assignments: what each worker does.
    """

    program: Program
    counted: CountedAhead
    folder: RunFolder
    assignments: tuple[Assignment, ...]

    @classmethod
    def of(cls, plan: Plan, workers: int, clock: int | None) -> Job:
        """Prepare a run.

        Args:
            plan: a checked plan.
            workers: how many workers there are.
            clock: the fixed value of the wall clock; `None` reads the wall clock.

        Raises:
            PlanError: for a plan that cannot be sent to workers.
            SinkError: if the folder of the run cannot be written, or its disk is full.
            UnsupportedOnRunner: if the working directory no longer exists.
        """
        directory = _directory()
        check_functions(plan)
        cut = cut_into_stages(plan, changing_sides(plan))
        ahead = run_ahead_in_process(cut, clock)
        wall = wall_clock() if clock is None else clock
        staged = with_rows_held(bound_plan(ahead.filled(cut)), wall)
        inputs = inputs_of(staged)
        program = Program(
            staged,
            ahead.sides,
            tuple(range(workers)),
            uuid.uuid4().hex[:12],
            lifts=lifts(staged, streaming=True, by_instant=True),
            wall=wall,
        )
        packed = program.pack()
        listed = tuple(list_sources(inputs.rows, program.awaited))
        folder = RunFolder("workers")
        with writing_in(folder.path):
            (folder.path / PROGRAM_FILE).write_bytes(dump(packed))
        assignments = tuple(
            Assignment(
                number=number,
                workers=workers,
                folder=str(folder.path),
                listed=listed,
                parts=parts,
                path=tuple(sys.path),
                directory=directory,
                environment=dict(os.environ),
            )
            for number, parts in enumerate(divided(listed, workers))
        )
        return cls(program, ahead.counted, folder, assignments)


def _directory() -> str:
    """Return the working directory, in which workers run too."""
    try:
        return str(pathlib.Path.cwd())
    except FileNotFoundError as error:
        raise UnsupportedOnRunner(
            "LocalRunner(workers=…) runs its workers in the working directory, which no longer exists",
            hint="change to another directory with os.chdir(…), or use dm.LocalRunner() without workers",
        ) from error


def divided(listed: Sequence[ListedSource], workers: int) -> list[tuple[Slice, ...]]:
    """Divide the rows of sources among workers: each reads one range of all rows.

    Example:
        >>> from dataflow_model.plan.endpoints.origins import Origin
        >>> from dataflow_model.runners.engine.bounded.files import ListedSource
        >>> rows = ListedSource("rows", (Origin("a", 6), Origin("b", 4)), 2)
        >>> for parts in divided([rows], 2):
        ...     print([(part.origin, part.start, part.stop) for part in parts])
        [('a', 0, 5)]
        [('a', 5, 6), ('b', 0, 4)]
    """
    shares: list[list[Slice]] = [[] for _ in range(workers)]
    origins = [(source.label, origin) for source in listed for origin in source.origins[: source.read]]
    total = sum(origin.row_count for _, origin in origins)
    before = 0
    for label, origin in origins:
        for number, share in enumerate(shares):
            first, last = (total * bound // workers - before for bound in (number, number + 1))
            start, stop = max(first, 0), min(last, origin.row_count)
            if start < stop:
                share.append(Slice(label, origin.name, start, stop, origin.first, origin.version))
        before += origin.row_count
    return [tuple(share) for share in shares]
