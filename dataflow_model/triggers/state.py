"""The state of a trigger tree for one window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from dataflow_model.time import Instant
    from dataflow_model.triggers.contexts import TimeDomain

__all__ = ["TreeState"]


@attrs.define(eq=True)
class TreeState:
    """The state of a trigger tree for one window; empty for a new window.

    Attributes:
        store: the values that callbacks have stored, by (place, tag).
        timers: the (domain, percentile of the watermark, time) of each timer, by (place, tag).
        finished: the finished places, one bit each.
        quiet: whether elements change nothing until a timer runs, a signal arrives or windows merge.
    """

    store: dict[tuple[int, str], Any] = attrs.field(factory=dict)
    timers: dict[tuple[int, str], tuple[TimeDomain, float, Instant]] = attrs.field(factory=dict)
    finished: int = 0
    quiet: bool = attrs.field(default=False, eq=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeState, (self.store, self.timers, self.finished, self.quiet)

    def is_finished(self) -> bool:
        """Return whether the root has finished."""
        return bool(self.finished & 1)

    def next_due(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> int | None:
        """Return when the earliest timer of a domain, in event time of a percentile, is due; `None` without timers."""
        due = [int(time) for of, share, time in self.timers.values() if of is domain and share == percentile]
        return min(due) if due else None
