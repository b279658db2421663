"""What a stateful DoFn keeps on one shard: by key and window its state and timers, and when each is next due."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.runners.engine.key_store import StoredKey
from dataflow_model.runners.engine.queues import DeadlineQueue
from dataflow_model.runners.engine.settled import SettledKeys
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import PaneInfo, Window
from dataflow_model.values.keys import shown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Arrived", "CellStore", "Hold", "KeyCells", "PendingTimer", "StateCell", "TimerSet"]

_Name: TypeAlias = tuple[str, str]
"""A timer's spec and tag."""
_Place: TypeAlias = tuple[bytes, Window | None]
"""A key and a window of it; a settled key has one place without a window."""


@attrs.frozen
class Arrived:
    """An element as it came, in one window of its own.

    Attributes:
        value: the pair.
        time: its event time.
        pane, produced: see `Bundle`.
        is_retraction: whether it takes an earlier one back.
    """

    value: Any
    time: int
    pane: PaneInfo
    produced: int
    is_retraction: bool = False


@attrs.frozen
class PendingTimer:
    """A timer that is set.

    Attributes:
        time: when it is to fire.
        output_time: the event time of what it gives.
        number: rises as timers are set; among equal times the first one set fires first.
        hold: where it holds the watermark; `None` where that had passed when it was set.
    """

    time: int
    output_time: int
    number: int
    hold: int | None = None


@attrs.frozen
class Hold:
    """A hold of the user's.

    Attributes:
        time: the event time that is meant.
        hold: where it holds the watermark; `None` where that had passed when it was set.
    """

    time: int
    hold: int | None


class TimerSet:
    """The timers of one key, window and domain, the earliest found fast.

    Example:
        >>> timers = TimerSet()
        >>> timers.set(("flush", ""), PendingTimer(9, 9, 1)); timers.set(("flush", ""), PendingTimer(5, 5, 2))
        >>> timers.first(), timers.pop()
        (5, (('flush', ''), PendingTimer(time=5, output_time=5, number=2, hold=None)))
        >>> print(timers.first())
        None
    """

    __slots__ = ("_heap", "pending")

    def __init__(self, pending: dict[_Name, PendingTimer] | None = None) -> None:
        self.pending = {} if pending is None else pending
        self._heap: list[tuple[int, int, _Name]] = []
        if self.pending:
            self._heap += ((timer.time, timer.number, name) for name, timer in self.pending.items())
            heapq.heapify(self._heap)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimerSet, (dict(self.pending),)

    def set(self, name: _Name, timer: PendingTimer) -> None:
        """Set or reset a timer."""
        self.pending[name] = timer
        heapq.heappush(self._heap, (timer.time, timer.number, name))

    def clear(self, name: _Name) -> PendingTimer | None:
        """Clear a timer, and return it if it was set."""
        return self.pending.pop(name, None)

    def first(self) -> int | None:
        """Return when the earliest is to fire."""
        heap = self._heap
        while heap:
            time, number, name = heap[0]
            timer = self.pending.get(name)
            if timer is not None and timer.number == number:
                return time
            heapq.heappop(heap)
        return None

    def pop(self) -> tuple[_Name, PendingTimer]:
        """Take the earliest out; `first` has told that there is one."""
        self.first()
        _, _, name = heapq.heappop(self._heap)
        return name, self.pending.pop(name)


@attrs.define
class StateCell:
    """The state and timers of one key and window.

    Attributes:
        values: by name, what state is not empty.
        event_timers, clock_timers: the timers by domain.
        waiting: a heap of the elements that wait for their turn in event-time order: place, number, element.
        count: numbers timers and waiting elements.
        holds: by name, where the user holds the watermark.

    As a pickle it is its contents in this order (see `_filled_cell`), since what every key keeps has to be read and
    written fast; earlier versions pickled it by attribute, and such a pickle is still read.
    """

    values: dict[str, Any] = attrs.field(factory=dict)
    event_timers: TimerSet = attrs.field(factory=TimerSet)
    clock_timers: TimerSet = attrs.field(factory=TimerSet)
    waiting: list[tuple[int, int, Arrived]] = attrs.field(factory=list)
    count: int = 0
    holds: dict[str, Hold] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        event, clock = self.event_timers.pending, self.clock_timers.pending
        return _filled_cell, (self.values, event, clock, self.waiting, self.count, self.holds)

    def timers(self, domain: TimeDomain) -> TimerSet:
        """Return the timers of a domain."""
        return self.event_timers if domain is TimeDomain.EVENT_TIME else self.clock_timers

    def wait(self, time: int, element: Arrived) -> None:
        """Keep an element until its turn."""
        self.count += 1
        heapq.heappush(self.waiting, (time, self.count, element))

    def is_empty(self) -> bool:
        """Tell whether nothing is in it."""
        pending = self.event_timers.pending or self.clock_timers.pending
        return not (self.values or self.waiting or pending or self.holds)

    def hold(self) -> int | None:
        """Return the earliest event time of what timers, waiting elements and holds are still to give."""
        if not (self.waiting or self.event_timers.pending or self.clock_timers.pending or self.holds):
            return None
        holds = [timer.hold for timer in self.event_timers.pending.values()]
        holds += [timer.hold for timer in self.clock_timers.pending.values()]
        holds += [hold.hold for hold in self.holds.values()]
        holds += [element.time for _, _, element in self.waiting]
        return min((hold for hold in holds if hold is not None), default=None)

    def earliest(self) -> int | None:
        """Return the earliest event time at which the user holds the watermark."""
        return min((hold.time for hold in self.holds.values()), default=None)


def _filled_cell(
    values: dict[str, Any],
    event_timers: dict[_Name, PendingTimer],
    clock_timers: dict[_Name, PendingTimer],
    waiting: list[tuple[int, int, Arrived]],
    count: int,
    holds: dict[str, Hold],
) -> StateCell:
    """Return a cell with these contents; pickles name this function, so its arguments stay as they are."""
    return StateCell(values, TimerSet(event_timers), TimerSet(clock_timers), waiting, count, holds)


@attrs.define
class KeyCells:
    """The windows of one key."""

    key: Any
    cells: dict[Window, StateCell] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyCells, (self.key, self.cells)


class CellStore:
    """Keys in memory, settled keys as bytes, and queues over both; as `KeyStore` is for groupings.

    Args:
        expiry: at which watermark a window's state is gone.
        holds_to_end: whether what a window gives at its expiry is to be on time, so that it holds the watermark.
        thaw: turns a settled key's bytes into its windows.
    """

    def __init__(
        self,
        expiry: Callable[[Window], int],
        *,
        holds_to_end: bool,
        thaw: Callable[[bytes], Any] | None = None,
    ) -> None:
        self.keys: dict[bytes, KeyCells] = {}
        self._expiry = expiry
        self._holds_to_end = holds_to_end
        self._thaw = thaw
        self._touched: set[bytes] = set()
        self._settled: SettledKeys[StoredKey] = SettledKeys()
        self._stale: set[tuple[bytes, Window]] = set()
        self._event: DeadlineQueue[_Place] = DeadlineQueue()
        self._clock: DeadlineQueue[_Place] = DeadlineQueue()
        self._holds: DeadlineQueue[_Place] = DeadlineQueue()

    def open(self, encoded: bytes, key: Any = None) -> KeyCells:
        """Return a key's windows, decoded if it was settled, new if there is none."""
        keyed = self.keys.get(encoded)
        if keyed is None:
            settled = self._settled.pop(encoded, None)
            if settled is None or self._thaw is None:
                keyed = KeyCells(shown_key(key))
            else:
                keyed = self._thaw(settled.state)
                self._enqueue((encoded, None), None, None, None)
                self._stale.update((encoded, window) for window in keyed.cells)
            self.keys[encoded] = keyed
        return keyed

    def mark(self, encoded: bytes, window: Window) -> None:
        """Note that a window's cell may have changed, or is gone."""
        self._stale.add((encoded, window))
        self._touched.add(encoded)

    def event_due(self, window: Window, cell: StateCell) -> int:
        """Return the watermark at which something happens in a window: an element's turn, a timer, the expiry."""
        due = self._expiry(window)
        first = cell.event_timers.first()
        if first is not None and first < due:
            due = first
        if cell.waiting and cell.waiting[0][0] < due:
            due = cell.waiting[0][0]
        return due

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return when something is next due in event time and on the processing clock."""
        self._refresh()
        return self._event.first(), self._clock.first()

    def is_due(self, event_time: int, clock: int) -> bool:
        """Tell whether anything is due, or has changed since the queues were last asked."""
        event, timer = self._event.first(), self._clock.first()
        return (
            bool(self._stale) or (event is not None and event <= event_time) or (timer is not None and timer <= clock)
        )

    def take_due(self, domain: TimeDomain, until: int) -> list[tuple[bytes, Window, KeyCells]]:
        """Return the windows in which something happens at `until` or before."""
        queue = self._event if domain is TimeDomain.EVENT_TIME else self._clock
        found: dict[tuple[bytes, Window], KeyCells] = {}
        while True:
            self._refresh()
            places = queue.take(until)
            if not places:
                break
            for encoded, window in places:
                keyed = self.open(encoded)  # a settled key's windows come up in the next round
                if window is not None:
                    found[encoded, window] = keyed
        for encoded, window in found:
            self.mark(encoded, window)
        return [(encoded, window, keyed) for (encoded, window), keyed in found.items()]

    def hold(self) -> int | None:
        """Return the earliest event time of what is still to come of what is kept."""
        self._refresh()
        return self._holds.first()

    # Durable state -------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        for encoded, entry in changes.items():
            self._forget(encoded)
            if entry is not None:
                self._store(encoded, entry)

    def take_touched(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        self._refresh()
        changed = {encoded: self._frozen(encoded, freeze) for encoded in self._touched}
        self._touched.clear()
        return changed

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on."""
        changes = self.take_touched(freeze)
        for encoded in list(self.keys):
            entry = changes.get(encoded) or self._frozen(encoded, freeze)
            self._forget(encoded)
            if entry is not None:
                self._store(encoded, entry)
        return changes

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self._settled.get(encoded)

    def size(self) -> tuple[int, int]:
        """Return how many keys there are, and how many bytes the settled ones have."""
        return len(self.keys) + len(self._settled), self._settled.bytes

    def _frozen(self, encoded: bytes, freeze: Callable[[Any], bytes]) -> StoredKey | None:
        keyed = self.keys.get(encoded)
        if keyed is None or not keyed.cells:
            return None
        cells = keyed.cells.items()
        event = min(self.event_due(window, cell) for window, cell in cells)
        clock = min((due for _, cell in cells if (due := cell.clock_timers.first()) is not None), default=None)
        holds = (self._hold_of(window, cell) for window, cell in cells)
        return StoredKey(freeze(keyed), (event, clock), min((hold for hold in holds if hold is not None), default=None))

    def _store(self, encoded: bytes, entry: StoredKey) -> None:
        self._settled[encoded] = entry
        event, clock = entry.dues
        self._enqueue((encoded, None), event, clock, entry.hold)

    def _forget(self, encoded: bytes) -> None:
        """Take a key out of memory and of the queues."""
        keyed = self.keys.pop(encoded, None)
        if keyed is not None:
            for window in keyed.cells:
                self._enqueue((encoded, window), None, None, None)
        elif self._settled.pop(encoded, None) is not None:
            self._enqueue((encoded, None), None, None, None)

    # Queues --------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Bring the queues up to date with the windows that may have changed."""
        for encoded, window in self._stale:
            keyed = self.keys.get(encoded)
            cell = None if keyed is None else keyed.cells.get(window)
            if cell is None:
                self._enqueue((encoded, window), None, None, None)
            else:
                due = self.event_due(window, cell)
                self._enqueue((encoded, window), due, cell.clock_timers.first(), self._hold_of(window, cell))
            if keyed is not None and not keyed.cells:
                del self.keys[encoded]
        self._stale.clear()

    def _hold_of(self, window: Window, cell: StateCell) -> int | None:
        held = cell.hold()
        if not self._holds_to_end:
            return held
        end = int(window.max_timestamp)
        return end if held is None else min(held, end)

    def _enqueue(self, place: _Place, event: int | None, clock: int | None, hold: int | None) -> None:
        self._event.set(place, event)
        self._clock.set(place, clock)
        self._holds.set(place, hold)
