"""What the reference engine does with cells, and its store of them by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.logical.strategy import ClosingBehavior, TimestampCombiner, WindowingStrategy
from dataflow_model.runners.engine.state.key_store import KeyStore
from dataflow_model.runners.engine.state.stateful_cells import expiry_of
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.values import PaneTiming, Window
from dataflow_model.values.keys import shown_key
from tests.support.reference.key_states import Cell, KeyState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dataflow_model.runners.engine.state.queues import Dues


_WHATEVER_COMES: Final = int(MIN_TIMESTAMP)
"""A deadline that any next watermark reaches."""


def incorporate(cell: Cell, event_time: int, *, watermark: int, on_time: bool) -> None:
    """Record an element that was added to the accumulator.

    Args:
        cell: the cell.
        event_time: the event time of the element.
        watermark: the input's watermark when the element arrives; behind it the element is late.
        on_time: whether it arrives before the watermark passes the end of the window.
    """
    cell.held += 1
    cell.pending += 1
    cell.pending_on_time = cell.pending_on_time or on_time
    if event_time >= watermark:
        cell.earliest = event_time if cell.earliest is None else min(cell.earliest, event_time)
        cell.latest = event_time if cell.latest is None else max(cell.latest, event_time)


def take_back(cell: Cell, *, on_time: bool) -> None:
    """Record an element that was subtracted from the accumulator; the pane's event time does not change."""
    cell.held -= 1
    cell.pending += 1
    cell.pending_on_time = cell.pending_on_time or on_time


def clear(cell: Cell, empty: Any) -> None:
    """Reset the accumulator to that of no elements; emitted values are still current."""
    cell.accumulator = empty
    cell.held = 0


def settle(cell: Cell) -> None:
    """Record that nothing is pending."""
    cell.pending, cell.pending_on_time = 0, False
    cell.earliest = cell.latest = None


def owes(cell: Cell, window: Window) -> bool:
    """Return whether values of windows with other bounds stand, which the cell's next pane retracts."""
    return any(standing.window != window for standing in cell.standing)


def timing_of(cell: Cell, window: Window, *, watermark: int, passing: bool) -> PaneTiming:
    """Return the timing of the next pane."""
    if watermark < int(window.end):
        return PaneTiming.EARLY
    first = cell.on_time_index < 0 and not cell.had_on_time
    return PaneTiming.ON_TIME if first and (passing or cell.pending_on_time) else PaneTiming.LATE


def output_time(cell: Cell, window: Window, combiner: TimestampCombiner) -> int:
    """Return the event time of the next pane; it does not depend on when the pane fires."""
    chosen = None
    if combiner is TimestampCombiner.EARLIEST:
        chosen = cell.earliest
    elif combiner is TimestampCombiner.LATEST:
        chosen = cell.latest
    return int(window.max_timestamp) if chosen is None else min(chosen, int(window.max_timestamp))


class CellsByKey(KeyStore[KeyState]):
    """The keys of a grouping; besides low watermark and clock, each awaited percentile is a line of its own.

    Args:
        strategy: the windowing strategy of the grouping.
        read: returns a settled key's state from its bytes.
        percentiles: the percentiles below 100 that the trigger waits for.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        read: Callable[[bytes], KeyState],
        percentiles: tuple[float, ...] = (),
    ) -> None:
        super().__init__(2 + len(percentiles))
        self._strategy = strategy
        self._read = read
        self._percentiles = percentiles

    def open(self, encoded: bytes, key: Any = None) -> KeyState:
        """Return a key's state, with the key as it first arrived; a state without windows is treated as new."""
        state = super().open(encoded, key)
        if key is not None and not state.cells and not state.reopened:
            state.key = shown_key(key)
        return state

    def _loaded(self, state: bytes) -> KeyState:
        return self._read(state)

    def every_window(self) -> list[tuple[bytes, Window, KeyState]]:
        """Return all windows, including those of settled keys."""
        for encoded in list(self._settled):
            self.open(encoded)
        return [(encoded, window, state) for encoded, state in self.keys.items() for window in self._windows(state)]

    def _new(self, key: Any) -> KeyState:
        return KeyState(key)

    def _windows(self, state: KeyState) -> Collection[Window]:
        return {**state.cells, **state.reopened} if state.reopened else state.cells

    def _dues(self, state: KeyState, window: Window) -> Dues | None:
        """Return a window's next deadline on each line, followed by its hold of the watermark."""
        cell = state.cells.get(window)
        if cell is None:
            return (_WHATEVER_COMES, *[None] * (2 + len(self._percentiles))) if window in state.reopened else None
        dues = self._dues_of_cell(cell, window)
        first = _WHATEVER_COMES if window in state.reopened else dues[0]
        return first, *dues[1:], self._hold(cell, window)

    def _dues_of_cell(self, cell: Cell, window: Window) -> Dues:
        """Return the next deadline on each clock: a timer or, for the watermark, the window's expiry."""
        event_due, clock_due = expiry_of(window, int(self._strategy.allowed_lateness)), None
        for domain, percentile, time in cell.tree.timers.values():
            if domain is TimeDomain.PROCESSING_TIME:
                clock_due = int(time) if clock_due is None else min(clock_due, int(time))
            elif percentile == LOW_WATERMARK:
                event_due = min(event_due, int(time))
        if not self._percentiles:
            return event_due, clock_due
        awaited = [cell.tree.next_due(TimeDomain.EVENT_TIME, percentile) for percentile in self._percentiles]
        return event_due, clock_due, *awaited

    def _hold(self, cell: Cell, window: Window) -> int | None:
        """Return the earliest event time of pending output: of the next pane, or of its retractions.

        Values of windows with other bounds are pending as long as they stand and a pane can come.
        """
        can_fire = self._strategy.closing is ClosingBehavior.FIRE_ALWAYS or not cell.tree.is_finished()
        if not cell.pending and not (can_fire and owes(cell, window)):
            return None
        next_pane = output_time(cell, window, self._strategy.timestamp_combiner)
        return min([next_pane, *(standing.time for standing in cell.standing)])
