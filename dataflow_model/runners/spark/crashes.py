"""Named points of a streaming run at which a test may let a process die; nothing happens there otherwise.

A point is armed on the driver (`dataflow_model.testing.CrashPoint`), travels with the program, and strikes once: the
process that reaches it first leaves a mark and is killed, so that the resumed run passes.
"""

from __future__ import annotations

import os
import pathlib
import signal
from typing import Final

import attrs

from dataflow_model.runners.spark.tasks import micro_batch_of_task

__all__ = ["POINTS", "Crash", "arm", "armed", "disarm"]

POINTS: Final = (
    "before_state",
    "after_state",
    "after_staging",
    "before_publishing",
    "while_publishing",
    "after_publishing",
    "after_progress",
)
"""In the order in which a micro-batch passes them.

`before_state`, `after_state`: a shard has run its events and writes its delta, or has written it, which Spark has not
committed yet. `after_staging`: a task has staged its rows for the sinks. `before_publishing`, `while_publishing`
(after the first of the sinks), `after_publishing`: the commit of the micro-batch. `after_progress`: all is published,
and Spark has not logged the commit.
"""
_armed: list[Crash] = []


@attrs.frozen
class Crash:
    """A point at which one process is to die.

    Attributes:
        point: one of `POINTS`.
        micro_batch: the number of the micro-batch; `None` for any.
        mark: the file that the dying process leaves.
    """

    point: str
    micro_batch: int | None
    mark: str

    def reach(self, point: str, micro_batch: int | None = None) -> None:
        """Die here, if this is the point and no process has died at it before."""
        if point != self.point:
            return
        number = micro_batch_of_task() if micro_batch is None else micro_batch
        if self.micro_batch not in {None, number}:
            return
        try:
            pathlib.Path(self.mark).open("x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def arm(crash: Crash) -> None:
    """Let the runs that start from here on carry a crash."""
    _armed[:] = [crash]


def disarm() -> None:
    """Let the runs that start from here on carry none."""
    _armed.clear()


def armed() -> Crash | None:
    """Return the crash that a run carries which starts now."""
    return _armed[0] if _armed else None
