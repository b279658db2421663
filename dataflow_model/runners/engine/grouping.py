"""GroupByKeyAndWindow for one shard: a machine over elements, watermarks and clock values, in that total order.

This is the general path: it sees each element, runs any trigger tree and any window function. The events of one
instant come in as calls; panes go out in `output`. State is kept by encoded key, and `touched` names the keys whose
state has changed, so that a runner can make just those durable.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from dataflow_model.plan.strategy import ClosingBehavior, LateData, OnTimeBehavior, TimestampCombiner
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.cells import Cell, KeyState, expiry_of
from dataflow_model.runners.engine.merging import merge_windows
from dataflow_model.runners.engine.queues import DeadlineQueue
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain, TriggerMachine
from dataflow_model.values import PaneInfo, PaneTiming, encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.plan.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.bundle import Order
    from dataflow_model.values import Window

    _Due: TypeAlias = tuple[int, Window, KeyState, bytes]
    _Place: TypeAlias = tuple[bytes, Window | None]
    """A key and a window of it; a settled key has one place without a window."""

__all__ = ["GroupingEngine", "StoredKey"]

_EVENT: Final = TimeDomain.EVENT_TIME
_CLOCK: Final = TimeDomain.PROCESSING_TIME
BEFORE, ELEMENT, WATERMARK, AT = range(4)
"""The phases of an instant; see `bundle.Order`."""


@attrs.frozen
class StoredKey:
    """What a runner keeps of one key: the state as `freeze` made it, and when it next has to be looked at."""

    state: bytes
    event_due: int | None
    clock_due: int | None
    hold: int | None


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
        self.touched: set[bytes] = set()
        self.keys: dict[bytes, KeyState] = {}
        self._stored: dict[bytes, StoredKey] = {}
        self._thaw = thaw
        self._stale: set[_Place] = set()
        self._event_queue: DeadlineQueue[_Place] = DeadlineQueue()
        self._clock_queue: DeadlineQueue[_Place] = DeadlineQueue()
        self._holds: DeadlineQueue[_Place] = DeadlineQueue()
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
        event_due, clock_due = self._event_queue.first(), self._clock_queue.first()
        if (
            self._stale
            or (event_due is not None and event_due <= watermark)
            or (clock_due is not None and clock_due <= processing_time)
        ):
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
        state = self._state(encoded, key)
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
                self.touched.add(encoded)  # neither the trigger nor the queues take notice
                continue
            self.machine.clocks(watermark=self.watermark, processing_time=self.clock)
            if self.machine.element(cell.tree, target, value):
                self._fire(state, target, cell, passing=False, forced=False)
            self._mark(encoded, target)
            if self.watermark >= target.end or merges:
                self._catch_up(state, encoded)
        if not state.cells and not state.reopened:
            self.keys.pop(encoded, None)  # all of it dropped

    def advance_watermark(self, watermark: int) -> None:
        """Let a watermark take effect: event-time timers at or before it run, windows pass and expire."""
        if watermark <= self.watermark:
            return
        previous, self.watermark = self.watermark, watermark
        fired: set[tuple[bytes, Window]] = set()
        due: list[_Due] = []
        for _, window, state, encoded in self._take_due(_EVENT, watermark):
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
            self._mark(encoded, window)

    # What a runner reads off ---------------------------------------------------------------------------------------

    def output_watermark(self) -> int:
        """Return the watermark of the output: the input's, held by panes that are still to come; never goes back."""
        self._refresh()
        hold = self._holds.first()
        held = self.watermark if hold is None else min(self.watermark, hold)
        self._output_watermark = max(self._output_watermark, held)
        return self._output_watermark

    def next_due(self, domain: TimeDomain) -> int | None:
        """Return when a timer, or an expiry, is next due in a domain."""
        self._refresh()
        return self._queue(domain).first()

    def take_output(self) -> Bundle:
        """Return the panes emitted since the last call, in order of emission."""
        output, self.output = self.output, Bundle()
        return output

    # State ---------------------------------------------------------------------------------------------------------

    def load(self, stored: dict[bytes, StoredKey], *, watermark: int, clock: int, output_watermark: int) -> None:
        """Take up where an earlier run of this shard stopped."""
        self.apply(stored)
        self.stand_at(watermark=watermark, clock=clock, output_watermark=output_watermark)

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        for encoded, entry in changes.items():
            self._forget(encoded)
            if entry is not None:
                self._store(encoded, entry)

    def stand_at(self, *, watermark: int, clock: int, output_watermark: int) -> None:
        """Set the clocks of the shard, as `position` gave them."""
        self.watermark, self.clock, self._output_watermark = watermark, clock, output_watermark

    def position(self) -> dict[str, int]:
        """Return the clocks of the shard, for `stand_at`."""
        return {"watermark": self.watermark, "clock": self.clock, "output_watermark": self._output_watermark}

    def settle(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on: it is decoded again when touched."""
        changes = self.take_touched(freeze)
        for encoded in list(self.keys):
            entry = changes.get(encoded) or self._stored_key(self.keys[encoded], freeze)
            self._forget(encoded)
            self._store(encoded, entry)
        return changes

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self._stored.get(encoded)

    def stored_keys(self) -> int:
        """Return how many keys have settled state."""
        return len(self._stored)

    def take_touched(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        self._refresh()
        changed: dict[bytes, StoredKey | None] = {}
        for encoded in self.touched:
            state = self.keys.get(encoded)
            changed[encoded] = None if state is None else self._stored_key(state, freeze)
        self.touched.clear()
        return changed

    def live_windows(self) -> int:
        """Return how many windows have state in memory."""
        return sum(len(state.cells) for state in self.keys.values())

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
        due: list[_Due] = []
        for _, window, state, encoded in self._take_due(_CLOCK, until):
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
            self._mark(encoded, changed)
        return target

    def _catch_up(self, state: KeyState, encoded: bytes) -> None:
        """Run event-time timers that an element has set at or behind the watermark, and expire what it rebounded."""
        for window in sorted(state.cells, key=_by_end):
            cell = state.cells[window]
            due = cell.tree.next_due(_EVENT)
            if self.watermark >= expiry_of(window, self.lateness) or (due is not None and due <= self.watermark):
                fired = self._run_event_timers(cell, window) is not None
                self._watermark_reaches(state, window, self.watermark, fired=fired)
                self._mark(encoded, window)

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
            cell = state.reopened[window] = Cell(self.combine.create_accumulator(), reopened=True)
        cell.accumulator = self.combine.add_input(cell.accumulator, value)
        cell.incorporate(event_time, on_time=False)
        if self.watermark == MAX_TIMESTAMP:  # no further watermark will come
            self._reopened(state, window)
        self._mark(encoded, window)

    def _reopened(self, state: KeyState, window: Window) -> None:
        cell = state.reopened.pop(window)
        info = PaneInfo(0, 0, is_first=True, is_last=True, timing=PaneTiming.LATE, trigger=None)
        self._emit(state.key, window, cell, info, self.clock)

    # Keys and queues -----------------------------------------------------------------------------------------------

    def _state(self, encoded: bytes, key: Any = None) -> KeyState:
        """Return a key's state, decoded if it was settled."""
        state = self.keys.get(encoded)
        if state is None:
            stored = self._stored.pop(encoded, None)
            if stored is None or self._thaw is None:
                state = KeyState(key)
            else:
                state = self._thaw(stored.state)
                self._enqueue((encoded, None), None, None, None)
                self._stale.update((encoded, window) for window in (*state.cells, *state.reopened))
            self.keys[encoded] = state
        return state

    def _store(self, encoded: bytes, entry: StoredKey) -> None:
        self._stored[encoded] = entry
        self._enqueue((encoded, None), entry.event_due, entry.clock_due, entry.hold)

    def _forget(self, encoded: bytes) -> None:
        """Take a key out of memory and of the queues."""
        state = self.keys.pop(encoded, None)
        windows = () if state is None else (*state.cells, *state.reopened)
        self._stored.pop(encoded, None)
        for window in (None, *windows):
            self._enqueue((encoded, window), None, None, None)

    def _stored_key(self, state: KeyState, freeze: Callable[[KeyState], bytes]) -> StoredKey:
        return StoredKey(
            freeze(state),
            state.next_due(_EVENT, self.lateness),
            state.next_due(_CLOCK, self.lateness),
            state.hold(self.strategy),
        )

    def _mark(self, encoded: bytes, window: Window) -> None:
        self._stale.add((encoded, window))
        self.touched.add(encoded)

    def _refresh(self) -> None:
        """Bring the queues up to date with the windows that have changed."""
        if not self._stale:
            return
        for encoded, window in self._stale:
            assert window is not None  # noqa: S101 - only settled keys have places without one
            event_due = clock_due = hold = None
            state = self.keys.get(encoded)
            if state is None:
                self._enqueue((encoded, window), None, None, None)
                continue
            cell = state.cells.get(window)
            if cell is not None:
                event_due, clock_due = cell.next_due(window, self.lateness)
                hold = cell.output_time(window, self.strategy.timestamp_combiner) if cell.pending else None
            if window in state.reopened:
                event_due = int(MIN_TIMESTAMP)  # whatever the next watermark is
            self._enqueue((encoded, window), event_due, clock_due, hold)
            if not state.cells and not state.reopened:
                del self.keys[encoded]
        self._stale.clear()

    def _enqueue(self, place: _Place, event_due: int | None, clock_due: int | None, hold: int | None) -> None:
        self._event_queue.set(place, event_due)
        self._clock_queue.set(place, clock_due)
        self._holds.set(place, hold)

    def _queue(self, domain: TimeDomain) -> DeadlineQueue[_Place]:
        return self._event_queue if domain is _EVENT else self._clock_queue

    def _take_due(self, domain: TimeDomain, until: int) -> list[_Due]:
        """Return what has a timer or an expiry at `until` or before; when it fires, the triggers have yet to say."""
        found: list[_Due] = []
        queue = self._queue(domain)
        while True:
            self._refresh()
            first = queue.first()
            if first is None or first > until:
                break
            places = queue.take(until)
            for encoded, window in places:
                state = self._state(encoded)  # a settled key's windows come up in the next round
                if window is not None:
                    found.append((until, window, state, encoded))
        for _, window, _, encoded in found:
            self._mark(encoded, window)
        return found


def _by_end(window: Window) -> tuple[int, int]:
    return int(window.end), int(window.start)


def _by_deadline(entry: _Due) -> tuple[int, int, int, bytes]:
    deadline, window, _, encoded = entry
    return deadline, int(window.end), int(window.start), encoded
