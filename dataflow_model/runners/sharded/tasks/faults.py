"""The points of a streaming run at which a test can inject a fault; without a test they do nothing.

A fault is armed in the process that starts the run (`dataflow_model.testing.CrashPoint` arms a `Crash`) and is sent
with the program. A crash strikes once: the first process that reaches its point leaves a mark and is killed, so that
the resumed run passes the point.
"""

from __future__ import annotations

import os
import pathlib
import signal
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.rows import Row

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
"""The points, in the order in which a micro-batch passes them.

`before_state` and `after_state`: before and after a shard that has run its events writes its delta, which is not
committed yet. `after_writing`: a task has written its rows for the sinks, which are pending. `before_commit` and
`after_commit`: in process only, around the transaction that commits the micro-batch before it is published.
`before_publishing`, `while_publishing` (after the first of several sinks) and `after_publishing`: around the sinks'
publishing. `after_progress`: everything is published, but the host has not recorded that.
"""
SPARK_POINTS: Final = tuple(point for point in POINTS if not point.endswith("_commit"))
"""The points that a micro-batch on Spark passes, where Spark logs the commit after publishing."""


@attrs.frozen
class Fault:
    """The points of a run at which faults can be injected. This class injects none; subclasses do."""

    def reach(self, point: str, micro_batch: int) -> None:
        """Pass a named point, one of `POINTS`; a fault may kill the process here."""

    def receive(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Return the rows that a shard receives from the shuffle for one micro-batch."""
        return rows

    def keep(self, store: StateStore) -> StateStore:
        """Return the store of a shard's state."""
        return store

    def read_clock(self, wall: int) -> int:
        """Return the time that the source reads when the wall clock is at `wall`."""
        return wall


NO_FAULT: Final = Fault()
_armed: list[Fault] = []


@attrs.frozen
class Crash(Fault):
    """Kills one process at a point.

    Attributes:
        point: one of `POINTS`.
        micro_batch: the number of the micro-batch; `None` for any.
        mark: the file that the killed process leaves.
    """

    point: str
    micro_batch: int | None
    mark: str

    def reach(self, point: str, micro_batch: int) -> None:
        """Kill the process if this is the point and no process has been killed at it before."""
        if point != self.point or self.micro_batch not in {None, micro_batch}:
            return
        try:
            pathlib.Path(self.mark).open("x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def arm(fault: Fault) -> None:
    """Inject a fault into runs that start from now on."""
    _armed[:] = [fault]


def disarm() -> None:
    """Inject no fault into runs that start from now on."""
    _armed.clear()


def armed() -> Fault:
    """Return the fault for a run that starts now."""
    return _armed[0] if _armed else NO_FAULT
