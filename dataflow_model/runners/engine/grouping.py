"""GroupByKeyAndWindow for one shard: a machine over elements, watermarks and clock values, in that total order.

This is the general path: it sees each element, runs any trigger tree and any window function. The events of one
instant come in as calls; panes go out in `output`. State lives in a `KeyStore`, by encoded key, so that a runner can
make just the keys durable that have changed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.strategy import ClosingBehavior, LateData, OnTimeBehavior, TimestampCombiner
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.cells import Cell, KeyState, expiry_of
from dataflow_model.runners.engine.key_store import Due, KeyStore, StoredKey
from dataflow_model.runners.engine.merging import merge_windows
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain, TriggerMachine
from dataflow_model.values import PaneInfo, PaneTiming, encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.plan.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.bundle import Order
    from dataflow_model.values import Window

__all__ = ["GroupingEngine", "StoredKey"]

_EVENT: Final = TimeDomain.EVENT_TIME
_CLOCK: Final = TimeDomain.PROCESSING_TIME
BEFORE, ELEMENT, WATERMARK, AT = range(4)
"""The phases of an instant; see `bundle.Order`."""


class GroupingEngine:
    """One grouping on one shard.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        thaw: turns a stored key's bytes into its state, for state that was loaded.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData = LateData.DROP,
        thaw: Callable[[bytes], KeyState] | None = None,
    ) -> None:
        self.label = node.label
        self.strategy = node.strategy
        self.combine = node.combine
        self.late_data = node.strategy.late_data or late_data
        self.lateness = int(node.strategy.allowed_lateness)
        self.machine = TriggerMachine(node.strategy.trigger)
        self._fixed_holds = node.strategy.timestamp_combiner is TimestampCombiner.END_OF_WINDOW
        self.watermark = int(MIN_TIMESTAMP)
        self.clock = 0
        self.output = Bundle()
        self.counters: Counter[str] = Counter()
        self.state = KeyStore(node.strategy, thaw)
        self._output_watermark = int(MIN_TIMESTAMP)
        self._numbers = itertools.count()
        self._phase, self._cause = ELEMENT, ()

    # The events of one instant -------------------------------------------------------------------------------------

    def advance_clock(self, processing_time: int) -> None:
        """Take the processing clock forward: the timers before `processing_time` run, then it is that time."""
        if processing_time <= self.clock:
            return
        self._run_clock(processing_time - 1, processing_time, BEFORE)
        self.clock = processing_time

    def pass_by(self, processing_time: int, watermark: int) -> bool:
        """Take both clocks forward if nothing is due on the way and nothing has changed; return whether that was so."""
        if self.state.is_due(watermark, processing_time):
            return False
        self.clock = max(self.clock, processing_time)
        self.watermark = max(self.watermark, watermark)
        return True

    def leave_instant(self) -> None:
        """Run the timers at the clock's own time: nothing more happens at this instant."""
        self._run_clock(self.clock, self.clock, AT)

    def element(self, key: Any, value: Any, event_time: int, windows: Iterable[Window], order: Order) -> None:
        """Incorporate an element."""
        self._begin(ELEMENT, order)
        encoded = encode_key(key)
        state = self.state.open(encoded, key)
        merges = self.strategy.merges
        self.counters["elements_in"] += 1
        for window in windows:
            if self.watermark >= expiry_of(window, self.lateness):
                self._expired(state, encoded, window, value, event_time)
                continue
            target = self._merge(state, encoded, window) if merges else window
            cell = state.cells.get(target)
            if cell is None:
                cell = state.cells[target] = Cell(self.combine.create_accumulator())
            if cell.tree.is_finished():
                self.counters["dropped_because_closed"] += 1
                continue
            cell.accumulator = self.combine.add_input(cell.accumulator, value)
            cell.incorporate(event_time, on_time=self.watermark < target.end)
            if cell.tree.quiet and cell.pending > 1 and self._fixed_holds:
                self.state.touched.add(encoded)  # neither the trigger nor the queues take notice
                continue
            self.machine.clocks(watermark=self.watermark, processing_time=self.clock)
            if self.machine.element(cell.tree, target, value):
                self._fire(state, target, cell, passing=False, forced=False)
            self.state.mark(encoded, target)
            if self.watermark >= target.end or merges:
                self._catch_up(state, encoded)
        if not state.cells and not state.reopened:
            self.state.keys.pop(encoded, None)  # all of it dropped

    def advance_watermark(self, watermark: int) -> None:
        """Let a watermark take effect: event-time timers at or before it run, windows pass and expire."""
        if watermark <= self.watermark:
            return
        previous, self.watermark = self.watermark, watermark
        fired: set[tuple[bytes, Window]] = set()
        due: list[Due] = []
        for _, window, state, encoded in self.state.take_due(_EVENT, watermark):
            if window in state.reopened:
                due.append((int(MIN_TIMESTAMP), window, state, encoded))
            if window in state.cells:
                fired_at = self._run_event_timers(state.cells[window], window)
                due.append((expiry_of(window, self.lateness) if fired_at is None else fired_at, window, state, encoded))
                if fired_at is not None:
                    fired.add((encoded, window))
        for deadline, window, state, encoded in sorted(due, key=_by_deadline):
            self._begin(WATERMARK, (deadline, int(window.end), int(window.start), encoded))
            if window in state.reopened:
                self._reopened(state, window)
            else:
                self._watermark_reaches(state, window, previous, fired=(encoded, window) in fired)
            self.state.mark(encoded, window)

    # What a runner reads off ---------------------------------------------------------------------------------------

    def output_watermark(self) -> int:
        """Return the watermark of the output: the input's, held by panes that are still to come; never goes back."""
        hold = self.state.hold()
        held = self.watermark if hold is None else min(self.watermark, hold)
        self._output_watermark = max(self._output_watermark, held)
        return self._output_watermark

    def next_due(self, domain: TimeDomain) -> int | None:
        """Return when a timer, or an expiry, is next due in a domain."""
        return self.state.next_due(domain)

    def take_output(self) -> Bundle:
        """Return the panes emitted since the last call, in order of emission."""
        output, self.output = self.output, Bundle()
        return output

    # State ---------------------------------------------------------------------------------------------------------

    def load(self, stored: Mapping[bytes, StoredKey], *, watermark: int, clock: int, output_watermark: int) -> None:
        """Take up where an earlier run of this shard stopped."""
        self.state.apply(stored)
        self.stand_at(watermark=watermark, clock=clock, output_watermark=output_watermark)

    def stand_at(self, *, watermark: int, clock: int, output_watermark: int) -> None:
        """Set the clocks of the shard, as `position` gave them."""
        self.watermark, self.clock, self._output_watermark = watermark, clock, output_watermark

    def position(self) -> dict[str, int]:
        """Return the clocks of the shard, for `stand_at`."""
        return {"watermark": self.watermark, "clock": self.clock, "output_watermark": self._output_watermark}

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        self.state.apply(changes)

    def settle(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on: it is decoded again when touched."""
        return self.state.settle(freeze)

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self.state.stored(encoded)

    def take_touched(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        return self.state.take_touched(freeze)

    def live_windows(self) -> int:
        """Return how many windows have state in memory."""
        return sum(len(state.cells) for state in self.state.keys.values())

    # Firing --------------------------------------------------------------------------------------------------------

    def _run_event_timers(self, cell: Cell, window: Window) -> int | None:
        """Run a window's event-time timers up to the watermark; return the deadline that fired its tree, if any."""
        self.machine.clocks(watermark=self.watermark, processing_time=self.clock)
        return self.machine.due(cell.tree, window, _EVENT, self.watermark)

    def _watermark_reaches(self, state: KeyState, window: Window, previous: int, *, fired: bool) -> None:
        """Do what a new watermark brings for one window: its firing, its passing, its expiry, as one event."""
        cell = state.cells[window]
        passing = previous < window.end <= self.watermark
        expiring = self.watermark >= expiry_of(window, self.lateness)
        forced = fired and passing and self.strategy.on_time is OnTimeBehavior.FIRE_ALWAYS
        if expiring:
            closed = cell.tree.is_finished() and not fired
            if not closed:
                forced = forced or self.strategy.closing is ClosingBehavior.FIRE_ALWAYS
                self._fire(state, window, cell, passing=passing, forced=forced, fired=fired, last=True)
            del state.cells[window]
        elif fired:
            self._fire(state, window, cell, passing=passing, forced=forced)

    def _run_clock(self, until: int, now: int, phase: int) -> None:
        due: list[Due] = []
        for _, window, state, encoded in self.state.take_due(_CLOCK, until):
            cell = state.cells.get(window)
            if cell is not None:
                self.machine.clocks(watermark=self.watermark, processing_time=now)
                fired_at = self.machine.due(cell.tree, window, _CLOCK, until)
                if fired_at is not None:
                    due.append((fired_at, window, state, encoded))
        for fired_at, window, state, encoded in sorted(due, key=_by_deadline):
            self._begin(phase, (fired_at, int(window.end), int(window.start), encoded))
            self._fire(state, window, state.cells[window], passing=False, forced=False, at=fired_at)

    def _merge(self, state: KeyState, encoded: bytes, window: Window) -> Window:
        """Merge an arriving window into the key's; return the window that the element is in now."""
        before = set(state.cells)
        target = merge_windows(self, state, window)
        for changed in before.symmetric_difference(state.cells):
            self.state.mark(encoded, changed)
        return target

    def _catch_up(self, state: KeyState, encoded: bytes) -> None:
        """Run event-time timers that an element has set at or behind the watermark, and expire what it rebounded."""
        for window in sorted(state.cells, key=_by_end):
            cell = state.cells[window]
            due = cell.tree.next_due(_EVENT)
            if self.watermark >= expiry_of(window, self.lateness) or (due is not None and due <= self.watermark):
                fired = self._run_event_timers(cell, window) is not None
                self._watermark_reaches(state, window, self.watermark, fired=fired)
                self.state.mark(encoded, window)

    def _fire(
        self,
        state: KeyState,
        window: Window,
        cell: Cell,
        *,
        passing: bool,
        forced: bool,
        fired: bool = True,
        last: bool = False,
        at: int | None = None,
    ) -> None:
        """Emit a pane if there is anything new or it is forced; then clear what the mode clears."""
        last = last or cell.tree.is_finished()
        if cell.pending or forced:
            timing = cell.timing(window, watermark=self.watermark, passing=passing)
            if timing is not PaneTiming.EARLY:
                cell.on_time_index += 1
            cell.had_on_time = cell.had_on_time or timing is PaneTiming.ON_TIME
            info = PaneInfo(
                cell.index, cell.on_time_index, cell.index == 0, last, timing, self.machine.name if fired else None
            )
            cell.index += 1
            self._emit(state.key, window, cell, info, self.clock if at is None else at)
        if not self.strategy.accumulates:
            cell.accumulator = self.combine.create_accumulator()
            cell.earliest = cell.latest = None
        cell.pending, cell.pending_on_time = 0, False

    def _emit(self, key: Any, window: Window, cell: Cell, info: PaneInfo, produced: int) -> None:
        order = (
            (self._phase, *self._cause, next(self._numbers))
            if self._phase == ELEMENT
            else (self._phase, self._cause, next(self._numbers))
        )
        self.output.append(
            (key, self.combine.extract_output(cell.accumulator)),
            cell.output_time(window, self.strategy.timestamp_combiner),
            (window,),
            info,
            order,
            produced,
        )
        self.counters[f"panes_{info.timing.name.lower()}"] += 1

    def _begin(self, phase: int, cause: Order) -> None:
        self._phase, self._cause, self._numbers = phase, cause, itertools.count()

    # Expired windows -----------------------------------------------------------------------------------------------

    def _expired(self, state: KeyState, encoded: bytes, window: Window, value: Any, event_time: int) -> None:
        """Drop and count a late element, or reopen its window for one more pane."""
        if self.late_data is LateData.DROP:
            self.counters["dropped_because_late"] += 1
            return
        cell = state.reopened.get(window)
        if cell is None:
            cell = state.reopened[window] = Cell(self.combine.create_accumulator())
        cell.accumulator = self.combine.add_input(cell.accumulator, value)
        cell.incorporate(event_time, on_time=False)
        if self.watermark == MAX_TIMESTAMP:  # no further watermark will come
            self._reopened(state, window)
        self.state.mark(encoded, window)

    def _reopened(self, state: KeyState, window: Window) -> None:
        cell = state.reopened.pop(window)
        info = PaneInfo(0, 0, is_first=True, is_last=True, timing=PaneTiming.LATE, trigger=None)
        self._emit(state.key, window, cell, info, self.clock)


def _by_end(window: Window) -> tuple[int, int]:
    return int(window.end), int(window.start)


def _by_deadline(entry: Due) -> tuple[int, int, int, bytes]:
    deadline, window, _, encoded = entry
    return deadline, int(window.end), int(window.start), encoded
