"""Whether a run is healthy: it is alive, it commits, and its watermark moves."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from dataflow_model.time import MAX_TIMESTAMP, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.time import Duration, EventTime

_MICROS: Final = 1_000_000
_ENDED: Final = ("failed", "stopped")
"""The states of a run that does not go on, although its input has not ended."""


class Watched(Protocol):
    """The part of a run's result that is watched."""

    def report(self) -> RunReport:
        """Return a report of the run so far."""
        ...


@attrs.frozen(kw_only=True)
class Health:
    """The health of a run at one moment.

    Attributes:
        state: the state of the run, such as `"running"`.
        is_alive: whether the run has neither failed nor been stopped.
        is_committing: whether no micro-batch has been uncommitted for longer than the limit; an idle stream, and a
            bounded run, which commits at its end, are committing.
        is_watermark_moving: whether the lowest watermark has moved within the limit, or is at +∞.
        system_lag_seconds: the age of the oldest work that is not committed yet.
        commits: the number of commits.
        watermark: the lowest watermark of all transforms; `None` if none is known.
        watermark_still_seconds: for how long the lowest watermark has not moved, as far as the checks have seen.
    """

    state: str
    is_alive: bool
    is_committing: bool
    is_watermark_moving: bool
    system_lag_seconds: float
    commits: int
    watermark: EventTime | None
    watermark_still_seconds: float

    @property
    def is_healthy(self) -> bool:
        """Whether the run is alive and committing; if not, a restart may help."""
        return self.is_alive and self.is_committing

    def facts(self) -> dict[str, Any]:
        """Return what the endpoint answers."""
        at = None if self.watermark is None else format_instant(int(self.watermark))
        return {"healthy": self.is_healthy, **attrs.asdict(self), "watermark": at}


class HealthCheck:
    """Checks a run again and again; for the watermark it compares what it sees with what it has seen.

    Args:
        result: the run.
        stalled_after: how long a micro-batch may take, and the watermark may stand still.
        clock: the clock that measures how long the watermark stands still, in seconds.
    """

    def __init__(self, result: Watched, stalled_after: Duration, clock: Callable[[], float] = time.monotonic) -> None:
        self._result = result
        self._limit = int(stalled_after) / _MICROS
        self._clock = clock
        self._lock = threading.Lock()
        self._last: EventTime | None = None
        self._moved_at = clock()

    def check(self) -> Health:
        """Return the health of the run now."""
        report = self._result.report()
        known = [transform.watermark for transform in report.transforms.values() if transform.watermark is not None]
        lowest = min(known, default=None)
        still = 0.0 if lowest == MAX_TIMESTAMP else self._still(lowest)
        state = str(getattr(getattr(self._result, "state", None), "value", "running"))
        lag = int(report.system_lag) / _MICROS
        return Health(
            state=state,
            is_alive=state not in _ENDED,
            is_committing=not getattr(self._result, "is_stream", False) or lag <= self._limit,
            is_watermark_moving=still <= self._limit,
            system_lag_seconds=lag,
            commits=report.commits,
            watermark=lowest,
            watermark_still_seconds=still,
        )

    def _still(self, lowest: EventTime | None) -> float:
        with self._lock:
            now = self._clock()
            if lowest != self._last:
                self._last, self._moved_at = lowest, now
            return now - self._moved_at
