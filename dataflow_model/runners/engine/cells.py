"""Cells: what a grouping keeps of one key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.plan.strategy import TimestampCombiner, WindowingStrategy
from dataflow_model.runners.engine.key_store import KeyStore
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain, TreeState
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.values import PaneInfo, PaneTiming, Window
from dataflow_model.values.keys import shown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dataflow_model.runners.engine.queues import Dues

__all__ = ["WHATEVER_COMES", "Cell", "CellsByKey", "KeyState", "Standing", "expiry_of"]

WHATEVER_COMES: Final = int(MIN_TIMESTAMP)
"""A deadline for the next watermark, whatever it is."""


@attrs.frozen
class Standing:
    """A value that has gone out and has not been taken back, with all that its retraction repeats."""

    window: Window
    value: Any
    time: int
    info: PaneInfo


@attrs.define
class Cell:
    """The state of one key and window.

    Attributes:
        accumulator: what the combiner has so far.
        held: how many elements that is, those taken back not counted.
        pending: elements, and elements taken back, since the last pane.
        pending_on_time: whether one of them was on time for the window.
        index, on_time_index: of the next pane, of the last pane that was not early (−1: none yet).
        had_on_time: whether this window, or one it was merged from, has had its ON_TIME pane.
        earliest, latest: of the pending elements that were not late when they came: these time the next pane.
        has_closed: whether a pane was its last one.
        tree: the trigger's state.
        standing: under a retracting strategy, what the next pane takes back; several after a merge.
        history: the panes so far, where the trigger looks at them.
    """

    accumulator: Any
    tree: TreeState = attrs.field(factory=TreeState)
    pending: int = 0
    pending_on_time: bool = False
    index: int = 0
    on_time_index: int = -1
    had_on_time: bool = False
    has_closed: bool = False
    earliest: int | None = None
    latest: int | None = None
    held: int = 0
    standing: tuple[Standing, ...] = ()
    history: tuple[PaneInfo, ...] = ()

    def dues(self, window: Window, allowed_lateness: int, percentiles: tuple[float, ...]) -> Dues:
        """Return when each clock is next of interest: for a timer or, in the watermark's case, the window's expiry."""
        event_due, clock_due = expiry_of(window, allowed_lateness), None
        for domain, percentile, time in self.tree.timers.values():
            if domain is TimeDomain.PROCESSING_TIME:
                clock_due = int(time) if clock_due is None else min(clock_due, int(time))
            elif percentile == LOW_WATERMARK:
                event_due = min(event_due, int(time))
        if not percentiles:
            return event_due, clock_due
        return event_due, clock_due, *(self.tree.next_due(TimeDomain.EVENT_TIME, one) for one in percentiles)

    def incorporate(self, event_time: int, *, watermark: int, on_time: bool) -> None:
        """Note one more element that the accumulator has taken in.

        Args:
            event_time: the element's.
            watermark: the input's, as the element comes; behind it the element is late.
            on_time: whether it comes before the watermark passes the end of the window.
        """
        self.held += 1
        self.pending += 1
        self.pending_on_time = self.pending_on_time or on_time
        if event_time >= watermark:
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

    def take_back(self, *, on_time: bool) -> None:
        """Note an element that the accumulator has given back; event times stay as they were fixed."""
        self.held -= 1
        self.pending += 1
        self.pending_on_time = self.pending_on_time or on_time

    def hold(self, window: Window, combiner: TimestampCombiner) -> int | None:
        """Return the earliest event time of what is still to come: the next pane, or what it takes back."""
        if not self.pending:
            return None
        return min([self.output_time(window, combiner), *(standing.time for standing in self.standing)])

    def clear(self, nothing: Any) -> None:
        """Begin again with nothing in the accumulator; what has been emitted still stands."""
        self.accumulator = nothing
        self.held = 0

    def settle(self) -> None:
        """Note that nothing is pending any more."""
        self.pending, self.pending_on_time = 0, False
        self.earliest = self.latest = None

    def timing(self, window: Window, *, watermark: int, passing: bool) -> PaneTiming:
        """Return where the next pane stands to the watermark."""
        if watermark < int(window.end):
            return PaneTiming.EARLY
        first = self.on_time_index < 0 and not self.had_on_time
        return PaneTiming.ON_TIME if first and (passing or self.pending_on_time) else PaneTiming.LATE


@attrs.define
class KeyState:
    """All that a grouping keeps of one key."""

    key: Any
    cells: dict[Window, Cell] = attrs.field(factory=dict)
    reopened: dict[Window, Cell] = attrs.field(factory=dict)

    def dues(self, window: Window, strategy: WindowingStrategy, percentiles: tuple[float, ...]) -> Dues | None:
        """Return when a window is next to be looked at on each line, then where it holds the watermark.

        `None` if nothing is kept for the window.
        """
        cell = self.cells.get(window)
        if cell is None:
            return (WHATEVER_COMES, *[None] * (2 + len(percentiles))) if window in self.reopened else None
        dues = cell.dues(window, int(strategy.allowed_lateness), percentiles)
        first = WHATEVER_COMES if window in self.reopened else dues[0]
        return first, *dues[1:], cell.hold(window, strategy.timestamp_combiner)

    def windows(self) -> Collection[Window]:
        """Return all windows of the key."""
        return {**self.cells, **self.reopened} if self.reopened else self.cells


class CellsByKey(KeyStore[KeyState]):
    """The keys of a grouping; besides low watermark and clock, each awaited percentile is a line of its own.

    Args:
        strategy: the grouping's.
        thaw: turns a settled key's bytes into its state.
        percentiles: those below 100 that the trigger waits for.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        thaw: Callable[[bytes], KeyState] | None = None,
        percentiles: tuple[float, ...] = (),
    ) -> None:
        super().__init__(2 + len(percentiles), thaw)
        self._strategy = strategy
        self._percentiles = percentiles

    def open(self, encoded: bytes, key: Any = None) -> KeyState:
        """Return a key's state, which shows the key as it first came; without windows, a state is as good as new."""
        state = super().open(encoded, key)
        if key is not None and not state.cells and not state.reopened:
            state.key = shown_key(key)
        return state

    def _new(self, key: Any) -> KeyState:
        return KeyState(key)

    def _windows(self, state: KeyState) -> Collection[Window]:
        return state.windows()

    def _dues(self, state: KeyState, window: Window) -> Dues | None:
        return state.dues(window, self._strategy, self._percentiles)


def expiry_of(window: Window, allowed_lateness: int) -> int:
    """Return the watermark at which a window expires; at +∞ every window does."""
    return min(int(window.end) + allowed_lateness, 2**63 - 1)
