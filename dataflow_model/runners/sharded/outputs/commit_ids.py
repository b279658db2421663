"""The ids of a run's commits, by which sinks distinguish a repeated commit from a new one.

An id consists of the run, the start of the run that planned the micro-batch, and the number of the micro-batch. A
commit that is repeated, or finished by a later start, keeps its id. If a checkpoint is restored from a copy, the run
continues with numbers that it has used before, for other rows; the start distinguishes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from dataflow_model.runners.sharded.tasks.program import Program

_AFTER_RUN: Final = re.compile(r"(?:-(?P<start>[0-9a-f]{12,}))?-(?P<number>\d{8,})\Z")
"""The end of an id, after the run: the start (not in ids of bounded runs), and the number."""


class CommitId(NamedTuple):
    """The parts of an id.

    Attributes:
        run: the run, as it was after its last upgrade.
        start: the sequencer of the start that planned the micro-batch; 0 if it is not known.
        number: the number of the micro-batch. Those of one start are published in this order.
    """

    run: str
    start: int
    number: int

    @classmethod
    def of(cls, commit: str) -> Self | None:
        """Return the parts of an id; `None` for the id of something else.

        Example:
            >>> CommitId.of("7c1f-1a2b3c4d-0005f5e10000-00000003")
            CommitId(run='7c1f-1a2b3c4d', start=25600000000, number=3)
            >>> CommitId.of("nightly")
        """
        match = _AFTER_RUN.search(commit)
        return None if match is None else cls(commit[: match.start()], _start(match), int(match["number"]))


def commit_id(program: Program, batch: int) -> str:
    """Return the id of a commit."""
    planned = program.planned
    sequencer = planned[1] if planned is not None and planned[0] == batch else program.sequencer
    start = f"-{sequencer:012x}" if sequencer else ""
    return f"{program.run_id}{program.edition}{start}-{batch:08d}"


def planned_in(program: Program, commit: str) -> tuple[int, int] | None:
    """Return the number of a commit's micro-batch and the sequencer of the start that planned it, 0 if it is not known.

    Args:
        program: the program of the run.
        commit: the id of the commit.

    Returns:
        the two; `None` for the id of another run, or of this run before its last upgrade.
    """
    run = program.run_id + program.edition
    match = _AFTER_RUN.fullmatch(commit, len(run)) if commit.startswith(run) else None
    return None if match is None else (int(match["number"]), _start(match))


def _start(match: re.Match[str]) -> int:
    return int(match["start"] or "0", 16)
