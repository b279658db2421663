"""Where a test may let something go wrong in a streaming run; nothing happens there otherwise.

A fault is armed in the process that starts the run (`dataflow_model.testing.CrashPoint` arms a `Crash`) and travels
with the program. A crash strikes once: the process that reaches its point first leaves a mark and is killed, so the
resumed run passes.
"""

from __future__ import annotations

import os
import pathlib
import signal
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.sharded.rows import Row
    from dataflow_model.runners.sharded.state.log import StateStore

__all__ = ["NO_FAULT", "POINTS", "SPARK_POINTS", "Crash", "Fault", "arm", "armed", "disarm"]

POINTS: Final = (
    "before_state",
    "after_state",
    "after_writing",
    "before_commit",
    "after_commit",
    "before_publishing",
    "while_publishing",
    "after_publishing",
    "after_progress",
)
"""In the order in which a micro-batch passes them.

`before_state`, `after_state`: a shard has run its events and writes its delta, or has written it, which is not
committed yet. `after_writing`: a task has written its rows for the sinks, which are pending. `before_commit`,
`after_commit`: in process only, where a transaction commits the micro-batch before it is published.
`before_publishing`, `while_publishing` (after the first of the sinks), `after_publishing`: the sinks publish.
`after_progress`: all is published, and the host has not noted that.
"""
SPARK_POINTS: Final = tuple(point for point in POINTS if not point.endswith("_commit"))
"""Those that a micro-batch on Spark passes: Spark logs the commit of one that is published."""


@attrs.frozen
class Fault:
    """What a run passes through where something may go wrong. This one lets nothing happen; others override a part."""

    def reach(self, point: str, micro_batch: int) -> None:
        """Pass a named point, one of `POINTS`, or do not come back."""

    def receive(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Return what a shard is sent for one micro-batch as it comes out of the shuffle."""
        return rows

    def keep(self, store: StateStore) -> StateStore:
        """Return the store that a shard's state is kept in."""
        return store

    def read_clock(self, wall: int) -> int:
        """Return what the source reads off the wall clock, which stands at `wall`."""
        return wall


NO_FAULT: Final = Fault()
_armed: list[Fault] = []


@attrs.frozen
class Crash(Fault):
    """A point at which one process is to die.

    Attributes:
        point: one of `POINTS`.
        micro_batch: the number of the micro-batch; `None` for any.
        mark: the file that the dying process leaves.
    """

    point: str
    micro_batch: int | None
    mark: str

    def reach(self, point: str, micro_batch: int) -> None:
        """Die here, if this is the point and no process has died at it before."""
        if point != self.point or self.micro_batch not in {None, micro_batch}:
            return
        try:
            pathlib.Path(self.mark).open("x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def arm(fault: Fault) -> None:
    """Let the runs that start from here on carry a fault."""
    _armed[:] = [fault]


def disarm() -> None:
    """Let the runs that start from here on carry none."""
    _armed.clear()


def armed() -> Fault:
    """Return the fault that a run carries which starts now."""
    return _armed[0] if _armed else NO_FAULT
