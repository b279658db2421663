"""The state of a trigger tree for one window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from dataflow_model.time import Instant
    from dataflow_model.triggers.contexts import TimeDomain


@attrs.define(init=False)
class TreeState:
    """The state of a trigger tree for one window; empty for a new window.

    Attributes:
        store: the values that callbacks have stored, by (place, tag).
        timers: the (domain, percentile of the watermark, time) of each timer, by (place, tag).
        finished: the finished places, one bit each.
    """

    store: dict[tuple[int, str], Any]
    timers: dict[tuple[int, str], tuple[TimeDomain, float, Instant]]
    finished: int

    def __init__(
        self,
        store: dict[tuple[int, str], Any] | None = None,
        timers: dict[tuple[int, str], tuple[TimeDomain, float, Instant]] | None = None,
        finished: int = 0,
    ) -> None:
        self.store = {} if store is None else store
        self.timers = {} if timers is None else timers
        self.finished = finished

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeState, (self.store, self.timers, self.finished)

    def is_finished(self) -> bool:
        """Return whether the root has finished."""
        return bool(self.finished & 1)

    def next_due(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> int | None:
        """Return when the earliest timer of a domain, in event time of a percentile, is due; `None` without timers."""
        due = [
            int(time)
            for timer_domain, timer_percentile, time in self.timers.values()
            if timer_domain is domain and timer_percentile == percentile
        ]
        return min(due, default=None)
