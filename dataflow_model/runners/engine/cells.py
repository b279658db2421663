"""Cells: the state of a grouping for one key and window."""

from __future__ import annotations

import operator
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
"""A deadline that any next watermark reaches."""


@attrs.frozen
class Standing:
    """A value that was emitted and not retracted, with everything that its retraction repeats."""

    window: Window
    value: Any
    time: int
    info: PaneInfo

    def __reduce__(self) -> tuple[Any, ...]:
        return Standing, (self.window, self.value, self.time, self.info)


@attrs.define
class Cell:
    """The state of one key and window.

    Attributes:
        accumulator: the combiner's accumulator.
        held: the number of elements in it, without retracted ones.
        pending: the number of elements and retractions since the last pane.
        pending_on_time: whether one of them was on time for the window.
        index, on_time_index: the index of the next pane, and that of the last pane that was not early (−1 if none was).
        had_on_time: whether this window, or one that merged into it, has had its ON_TIME pane.
        earliest, latest: the event times of the pending elements that were not late on arrival, which can determine
            that of the next pane.
        has_closed: whether the window has had its last pane.
        tree: the trigger's state.
        standing: with a retracting strategy, the values that the next pane retracts; several after a merge.
        history: the panes so far, if the trigger reads them.
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

    def __reduce__(self) -> tuple[Any, ...]:
        return Cell, _fields_of_cell(self)

    def dues(self, window: Window, allowed_lateness: int, percentiles: tuple[float, ...]) -> Dues:
        """Return the next deadline on each clock: a timer or, for the watermark, the window's expiry."""
        event_due, clock_due = expiry_of(window, allowed_lateness), None
        for domain, percentile, time in self.tree.timers.values():
            if domain is TimeDomain.PROCESSING_TIME:
                clock_due = int(time) if clock_due is None else min(clock_due, int(time))
            elif percentile == LOW_WATERMARK:
                event_due = min(event_due, int(time))
        if not percentiles:
            return event_due, clock_due
        return event_due, clock_due, *(self.tree.next_due(TimeDomain.EVENT_TIME, awaited) for awaited in percentiles)

    def incorporate(self, event_time: int, *, watermark: int, on_time: bool) -> None:
        """Record an element that was added to the accumulator.

        Args:
            event_time: the event time of the element.
            watermark: the input's watermark when the element arrives; behind it the element is late.
            on_time: whether it arrives before the watermark passes the end of the window.
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
        """Record an element that was subtracted from the accumulator; the pane's event time does not change."""
        self.held -= 1
        self.pending += 1
        self.pending_on_time = self.pending_on_time or on_time

    def hold(self, window: Window, combiner: TimestampCombiner) -> int | None:
        """Return the earliest event time of pending output: of the next pane, or of its retractions."""
        if not self.pending:
            return None
        return min([self.output_time(window, combiner), *(standing.time for standing in self.standing)])

    def clear(self, empty: Any) -> None:
        """Reset the accumulator to that of no elements; emitted values are still current."""
        self.accumulator = empty
        self.held = 0

    def settle(self) -> None:
        """Record that nothing is pending."""
        self.pending, self.pending_on_time = 0, False
        self.earliest = self.latest = None

    def timing(self, window: Window, *, watermark: int, passing: bool) -> PaneTiming:
        """Return the timing of the next pane."""
        if watermark < int(window.end):
            return PaneTiming.EARLY
        first = self.on_time_index < 0 and not self.had_on_time
        return PaneTiming.ON_TIME if first and (passing or self.pending_on_time) else PaneTiming.LATE


_fields_of_cell = operator.attrgetter(*(field.name for field in attrs.fields(Cell)))


@attrs.define
class KeyState:
    """The state of a grouping for one key."""

    key: Any
    cells: dict[Window, Cell] = attrs.field(factory=dict)
    reopened: dict[Window, Cell] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyState, (self.key, self.cells, self.reopened)

    def dues(self, window: Window, strategy: WindowingStrategy, percentiles: tuple[float, ...]) -> Dues | None:
        """Return a window's next deadline on each line, followed by its hold of the watermark.

        `None` if the window has no state.
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
        strategy: the windowing strategy of the grouping.
        thaw: decodes a settled key's state.
        percentiles: the percentiles below 100 that the trigger waits for.
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
        """Return a key's state, with the key as it first arrived; a state without windows is treated as new."""
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
