"""`CrashPoint`: let a process of a streaming run die at a named point, to test that it resumes."""

from __future__ import annotations

import pathlib
import tempfile
import uuid
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument
from dataflow_model.runners.sharded import faults

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["CrashPoint"]


class CrashPoint:
    """Lets one process of a streaming run be killed at a named point, once.

    Runs that start inside the `with` block carry it. On Spark the run fails then (on a cluster Spark may start the task
    again, and it goes on). With `LocalRunner(checkpoint=…)` the process that is killed is the one that has started the
    run, so start it in a process of its own. Started again with the same checkpoint, inside the block or behind it, the
    run passes the point. What it has committed in the end must equal what an uninterrupted run commits.

    The points, in the order in which a micro-batch passes them: `"before_state"`, `"after_state"` (a shard writes its
    state), `"after_writing"` (a task's output is pending), `"before_commit"`, `"after_commit"` (in process only: the
    transaction that commits the micro-batch), `"before_publishing"`, `"while_publishing"` (one sink of several is
    published), `"after_publishing"`, `"after_progress"` (all is published, and the host has not noted it).

    Args:
        point: one of `CrashPoint.POINTS`.
        micro_batch: in which micro-batch, from 0; `None` for the first that comes to the point.

    Raises:
        InvalidArgument: for an unknown point or a negative number.

    Example:
        >>> with CrashPoint("after_state", micro_batch=2) as crash:
        ...     pass  # result = pipeline.run(); result.wait_until_finish() raises
        >>> crash.has_struck
        False
    """

    POINTS: Final = faults.POINTS

    def __init__(self, point: str, micro_batch: int | None = None) -> None:
        if point not in faults.POINTS:
            raise InvalidArgument(f"unknown crash point {point!r}", hint=f"the points are {', '.join(faults.POINTS)}")
        if micro_batch is not None and micro_batch < 0:
            raise InvalidArgument(
                f"`micro_batch` must not be negative, got {micro_batch!r}",
                hint="leave it out to crash in the first micro-batch that reaches the point",
            )
        self.point = point
        self.micro_batch = micro_batch
        self._mark = pathlib.Path(tempfile.gettempdir(), f"dataflow_model-crash-{uuid.uuid4().hex}")

    @property
    def has_struck(self) -> bool:
        """Whether a process has died at the point."""
        return self._mark.exists()

    def __enter__(self) -> Self:
        faults.arm(faults.Crash(self.point, self.micro_batch, str(self._mark)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        faults.disarm()

    def __repr__(self) -> str:
        return f"CrashPoint({self.point!r}, micro_batch={self.micro_batch!r})"
