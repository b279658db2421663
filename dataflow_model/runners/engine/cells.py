"""Cells: what a grouping keeps of one key and window."""

from __future__ import annotations

from typing import Any

import attrs

from dataflow_model.plan.strategy import TimestampCombiner, WindowingStrategy
from dataflow_model.triggers import TimeDomain, TreeState
from dataflow_model.values import PaneTiming, Window

__all__ = ["Cell", "KeyState", "expiry_of"]


@attrs.define
class Cell:
    """The state of one key and window.

    Attributes:
        accumulator: what the combiner has so far.
        pending: elements since the last pane.
        pending_on_time: whether one of them was on time for the window.
        index, on_time_index: of the next pane, of the last pane that was not early (−1: none yet).
        had_on_time: whether this window, or one it was merged from, has had its ON_TIME pane.
        earliest, latest: of the elements in the accumulator that were on time for the window.
        tree: the trigger's state.
    """

    accumulator: Any
    tree: TreeState = attrs.field(factory=TreeState)
    pending: int = 0
    pending_on_time: bool = False
    index: int = 0
    on_time_index: int = -1
    had_on_time: bool = False
    earliest: int | None = None
    latest: int | None = None

    def next_due(self, window: Window, allowed_lateness: int) -> tuple[int, int | None]:
        """Return when the watermark, and when the clock, is next of interest: a timer, or the window's expiry."""
        event_due, clock_due = expiry_of(window, allowed_lateness), None
        for domain, time in self.tree.timers.values():
            if domain is TimeDomain.EVENT_TIME:
                event_due = min(event_due, int(time))
            else:
                clock_due = int(time) if clock_due is None else min(clock_due, int(time))
        return event_due, clock_due

    def incorporate(self, event_time: int, *, on_time: bool) -> None:
        """Note one more element that the accumulator has taken in."""
        self.pending += 1
        if on_time:
            self.pending_on_time = True
            self.earliest = event_time if self.earliest is None else min(self.earliest, event_time)
            self.latest = event_time if self.latest is None else max(self.latest, event_time)

    def output_time(self, window: Window, combiner: TimestampCombiner) -> int:
        """Return the event time of the next pane; it does not depend on when the pane fires."""
        chosen = None
        if combiner is TimestampCombiner.EARLIEST:
            chosen = self.earliest
        elif combiner is TimestampCombiner.LATEST:
            chosen = self.latest
        return int(window.max_timestamp) if chosen is None else min(chosen, int(window.max_timestamp))

    def timing(self, window: Window, *, watermark: int, passing: bool) -> PaneTiming:
        """Return where the next pane stands to the watermark."""
        if watermark < window.end:
            return PaneTiming.EARLY
        first = self.on_time_index < 0 and not self.had_on_time
        return PaneTiming.ON_TIME if first and (passing or self.pending_on_time) else PaneTiming.LATE


@attrs.define
class KeyState:
    """All that a grouping keeps of one key."""

    key: Any
    cells: dict[Window, Cell] = attrs.field(factory=dict)
    reopened: dict[Window, Cell] = attrs.field(factory=dict)

    def next_due(self, domain: TimeDomain, allowed_lateness: int) -> int | None:
        """Return when the first timer, or in event time the first expiry, is due."""
        due = [when for cell in self.cells.values() if (when := cell.tree.next_due(domain)) is not None]
        if domain is TimeDomain.EVENT_TIME:
            due += [expiry_of(window, allowed_lateness) for window in self.cells]
            due += [-(2**63)] * len(self.reopened)  # whatever the next watermark is
        return min(due, default=None)

    def hold(self, strategy: WindowingStrategy) -> int | None:
        """Return the earliest event time of a pane that is still to come."""
        holds = [
            cell.output_time(window, strategy.timestamp_combiner) for window, cell in self.cells.items() if cell.pending
        ]
        return min(holds, default=None)


def expiry_of(window: Window, allowed_lateness: int) -> int:
    """Return the watermark at which a window expires; at +∞ every window does."""
    return min(int(window.end) + allowed_lateness, 2**63 - 1)
