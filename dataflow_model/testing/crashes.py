"""`CrashPoint`: kill a process of a streaming run at a named point, to test that the run resumes."""

from __future__ import annotations

import pathlib
import tempfile
import uuid
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument
from dataflow_model.runners.sharded.tasks import faults

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class CrashPoint:
    """Kills one process of a streaming run, once, at a named point.

    It applies to runs that start inside the `with` block. On Spark the run then fails (on a cluster, Spark may restart
    the task and the run continues). With `LocalRunner(checkpoint=…)` the process that started the run is killed, so
    start the run in a process of its own. When you start the run again with the same checkpoint, inside the block or
    after it, the run passes the point. Its committed output must then equal that of an uninterrupted run.

    The points, in the order in which a micro-batch reaches them, are `"before_state"` and `"after_state"` (around a
    shard writing its state), `"after_writing"` (a task's output is pending), `"before_commit"` and `"after_commit"`
    (in process only, around the transaction that commits the micro-batch), `"before_publishing"`,
    `"while_publishing"` (one of several sinks is published), `"after_publishing"`, and `"after_progress"` (everything
    is published, but the host has not recorded it yet).

    Args:
        point: one of `CrashPoint.POINTS`.
        micro_batch: the number of the micro-batch, from 0; `None` for the first one that reaches the point.

    Raises:
        InvalidArgument: for an unknown point or a negative micro-batch number.

    Example:
        >>> with CrashPoint("after_state", micro_batch=2) as crash:
        ...     pass  # result = pipeline.run(); result.wait_until_finish() raises
        >>> crash.was_reached
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
    def was_reached(self) -> bool:
        """Whether a process has been killed at the point."""
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
