"""The outputs of memoised functions in a micro-batch, which are durable before any of them is published.

The state determines what will be retracted, and the sinks contain what was published. If a micro-batch was published,
even in part, and is run again before Spark has recorded its commit, it must produce the same output. So each shard
keeps the outputs of its functions in the checkpoint, in `draws/<stage>-<shard>/<commit>.<start>`, and a repeated
attempt uses them instead of calling the functions.
"""

from __future__ import annotations

import pathlib
import shutil
import uuid
from typing import TYPE_CHECKING, Final, Self

import attrs

from dataflow_model.errors import SupersededRun
from dataflow_model.runners.engine.functions.draws import Draws
from dataflow_model.runners.engine.machines.memoising import MemoMachine
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, make_folder, write_file, writing
from dataflow_model.runners.sharded.checkpoint.parts import as_part, read_part
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id
from dataflow_model.runners.sharded.outputs.publication import DRAWS, Publication

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.runners.sharded.tasks.task import Task

_FILE: Final = "draws.pickle"


@attrs.define
class KeptDraws:
    """The outputs of one shard's memoised functions in one micro-batch."""

    _directory: str
    _name: str
    _machines: list[MemoMachine]
    _is_there: bool

    @classmethod
    def open(cls, task: Task, depth: int, shard: int, machines: Iterable[KeyedMachine]) -> Self | None:
        """Give the shard's functions their kept outputs, and delete those of earlier, committed micro-batches.

        Outputs of an older start of the run are used only if they may have been published. Otherwise a user who fixes a
        function whose outputs broke a later one would get the old outputs again.

        Args:
            task: the task.
            depth: the stage, from 1.
            shard: the id of the shard.
            machines: the machines of the shard.

        Returns:
            the outputs to keep; `None` if there is nothing to keep.

        Raises:
            StateCorruption: if the kept outputs are damaged.
        """
        memoising = [machine for machine in machines if isinstance(machine, MemoMachine)]
        program, micro_batch = task.program, task.micro_batch
        if not memoising or not program.directory:
            return None
        folder, commit = pathlib.Path(program.directory, DRAWS, f"{depth}-{shard}"), commit_id(program, micro_batch)
        paths = sorted(folder.iterdir()) if folder.exists() else []
        for path in paths:
            if path.name.removeprefix(".") < commit:
                shutil.rmtree(path, ignore_errors=True)
        own = folder / f"{commit}.{program.sequencer:020d}"
        usable = [path for path in paths if path.name.startswith(commit) and path <= own]
        published = Publication.read(program.directory) or Publication()
        if not program.weak and published.batch < micro_batch:
            usable = [path for path in usable if path == own]
        if not usable and published.batch == micro_batch and folder.name in published.draws:
            raise corrupt(repr(str(folder)), f"the kept outputs of micro-batch {micro_batch} are missing")
        before = read_part(program.directory, _name(usable[-1])) if usable else {}
        if before is None:
            raise corrupt(repr(str(usable[-1] / _FILE)), "it is missing")
        for machine in memoising:
            machine.draws = Draws(before.get(machine.label, {}))
        return cls(program.directory, _name(own), memoising, own in usable)

    def keep(self) -> None:
        """Make the outputs of the functions durable, if any function was called.

        Raises:
            SupersededRun: if another attempt at the same micro-batch has already done so; only one may continue.
            SinkError: if the checkpoint cannot be written.
        """
        draws_of: dict[str, Draws] = {}
        for machine in self._machines:
            if machine.draws is not None:
                draws_of[machine.label], machine.draws = machine.draws, None
        if self._is_there or not any(draws.asked for draws in draws_of.values()):
            return  # the repeated elements are the same as before
        record = as_part(self._name, {label: draws.now for label, draws in draws_of.items()})
        path = pathlib.Path(self._directory, self._name).parent
        fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            make_folder(fresh)
            write_file(fresh / _FILE, record)
            fresh.rename(path)  # fails if the folder exists and is not empty, so the first attempt wins
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if path.exists():
                raise SupersededRun(
                    f"another attempt of this micro-batch has kept different outputs in {str(path)!r}",
                    hint="nothing is lost: a retry or a restart uses those outputs; do not enable Spark's "
                    "speculative execution",
                ) from error
            with writing(path):
                raise


def _name(path: pathlib.Path) -> str:
    """Return the name of the file of outputs in the folder of one attempt."""
    return "/".join((*path.parts[-3:], _FILE))
