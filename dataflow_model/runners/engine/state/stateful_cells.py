"""The state of a stateful DoFn on one shard: state and timers by key and window, and their deadlines."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from dataflow_model.runners.engine.state.key_store import KeyStore, StoredKey
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import GLOBAL_WINDOW

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dataflow_model.runners.engine.state.queues import Dues
    from dataflow_model.values import PaneInfo, Window

_INFINITY: Final = int(MAX_TIMESTAMP)
_MINUS_INFINITY: Final = int(MIN_TIMESTAMP)

_FEW: Final = 8
"""Up to this number of timers, all of them are looked at for the earliest hold."""
_Name: TypeAlias = tuple[str, str]
"""A timer's spec and tag."""


@attrs.frozen
class Arrived:
    """An element as it arrived, in one window.

    Attributes:
        value: the pair.
        time: its event time.
        pane, produced: see `Bundle`.
        is_retraction: whether it retracts an earlier element.
    """

    value: Any
    time: int
    pane: PaneInfo
    produced: int
    is_retraction: bool = False


@attrs.define  # not frozen, which would triple the cost of making one
class PendingTimer:
    """A timer that is set.

    Attributes:
        time: when to fire.
        output_time: the event time of its outputs.
        number: increases as timers are set; among equal times the first one set fires first.
        hold: the instant at which it holds the watermark; `None` if that had passed when it was set.
    """

    time: int
    output_time: int
    number: int
    hold: int | None = None


@attrs.frozen
class Hold:
    """A hold set by the user.

    Attributes:
        time: the requested event time.
        hold: the instant at which it holds the watermark; `None` if that had passed when it was set.
    """

    time: int
    hold: int | None


class TimerSet:
    """The timers of one key, window and domain, with fast access to the earliest.

    Attributes:
        pending: the timers that are set.
        heap: their times, numbers and names, and those of timers that are no longer set.
        holds: a heap of their holds, numbers and names, and those of timers that are no longer set; `None` as long as
            there are few timers.

    Example:
        >>> timers = TimerSet()
        >>> timers.set(("flush", ""), PendingTimer(9, 9, 1)); timers.set(("flush", ""), PendingTimer(5, 5, 2))
        >>> timers.first(), timers.pop()
        (5, (('flush', ''), PendingTimer(time=5, output_time=5, number=2, hold=None)))
        >>> print(timers.first())
        None
    """

    __slots__ = ("heap", "holds", "pending")

    def __init__(self, pending: dict[_Name, PendingTimer] | None = None) -> None:
        self.pending = {} if pending is None else pending
        self.heap: list[tuple[int, int, _Name]] = []
        self.holds: list[tuple[int, int, _Name]] | None = None
        if self.pending:
            self.heap += ((timer.time, timer.number, name) for name, timer in self.pending.items())
            heapq.heapify(self.heap)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimerSet, (dict(self.pending),)

    def set(self, name: _Name, timer: PendingTimer) -> None:
        """Set or reset a timer."""
        self.pending[name] = timer
        heapq.heappush(self.heap, (timer.time, timer.number, name))
        if self.holds is not None and timer.hold is not None:
            heapq.heappush(self.holds, (timer.hold, timer.number, name))

    def clear(self, name: _Name) -> PendingTimer | None:
        """Clear a timer, and return it if it was set."""
        return self.pending.pop(name, None)

    def reset(self, name: _Name, before: PendingTimer | None) -> None:
        """Undo a change of a timer.

        Args:
            name: its name.
            before: how it was set; `None` if it was not.
        """
        if before is None:
            self.clear(name)
        else:
            self.set(name, before)

    def first(self) -> int | None:
        """Return when the earliest timer fires, or `None`."""
        return self._least(self.heap)

    def hold(self) -> int | None:
        """Return the earliest instant at which a timer holds the watermark, or `None`."""
        if len(self.pending) <= _FEW:
            self.holds = None
            return min([timer.hold for timer in self.pending.values() if timer.hold is not None], default=None)
        if self.holds is None:
            timers = self.pending.items()
            self.holds = [(timer.hold, timer.number, name) for name, timer in timers if timer.hold is not None]
            heapq.heapify(self.holds)
        return self._least(self.holds)

    def _least(self, heap: list[tuple[int, int, _Name]]) -> int | None:
        """Return the least entry of a heap whose timer is still set."""
        while heap:
            least, number, name = heap[0]
            timer = self.pending.get(name)
            if timer is not None and timer.number == number:
                return least
            heapq.heappop(heap)
        return None

    def pop(self) -> tuple[_Name, PendingTimer]:
        """Remove and return the earliest timer; there must be one."""
        self.first()
        _, _, name = heapq.heappop(self.heap)
        return name, self.pending.pop(name)


@attrs.define
class StateCell:
    """The state and timers of one key and window.

    Attributes:
        values: the non-empty pieces of state, by name.
        event_timers, clock_timers: the timers of each domain.
        waiting: a heap of the elements buffered for event-time order, as (time, number, element).
        count: the counter that numbers timers and buffered elements. It never goes back, not even for an element that
            fails, since the heaps of timers recognize a timer by its number.
        holds: the user's holds of the watermark, by name.
        is_open: whether the cell is the state of its key and window; false once it has been removed.
        is_marked: whether the store has recorded that the cell may have changed.

    The last two are not stored. A cell is stored as part of its key (see `KeyCells`).
    """

    values: dict[str, Any] = attrs.field(factory=dict)
    event_timers: TimerSet = attrs.field(factory=TimerSet)
    clock_timers: TimerSet = attrs.field(factory=TimerSet)
    waiting: list[tuple[int, int, Arrived]] = attrs.field(factory=list)
    count: int = 0
    holds: dict[str, Hold] = attrs.field(factory=dict)
    is_open: bool = attrs.field(default=True, init=False, eq=False, repr=False)
    is_marked: bool = attrs.field(default=False, init=False, eq=False, repr=False)

    def contents(self) -> tuple[Any, ...]:
        """Return what is stored, as the arguments of `_filled_cell`; those at the end that are empty are left out."""
        waiting, count, holds = self.waiting, self.count, self.holds
        event, clock = self.event_timers.pending, self.clock_timers.pending
        if event or clock or waiting or count or holds:
            return self.values, event, clock, waiting, count, holds
        return (self.values,)

    def timers(self, domain: TimeDomain) -> TimerSet:
        """Return the timers of a domain."""
        return self.event_timers if domain is TimeDomain.EVENT_TIME else self.clock_timers

    def wait(self, time: int, element: Arrived) -> None:
        """Buffer an element until its turn."""
        self.count += 1
        heapq.heappush(self.waiting, (time, self.count, element))

    def is_empty(self) -> bool:
        """Return whether the cell is empty."""
        pending = self.event_timers.pending or self.clock_timers.pending
        return not (self.values or self.waiting or pending or self.holds)

    def hold(self) -> int | None:
        """Return the earliest event time of pending output of timers, buffered elements and holds."""
        holds = [timers.hold() for timers in (self.event_timers, self.clock_timers) if timers.pending]
        if self.holds:
            holds += [hold.hold for hold in self.holds.values()]
        if self.waiting:
            turn, _, first = self.waiting[0]
            # The turn of an element whose event time is after the window's end comes before that time.
            holds.append(turn if first.time == turn else min(element.time for _, _, element in self.waiting))
        return min([hold for hold in holds if hold is not None], default=None)


def _filled_cell(
    values: dict[str, Any],
    event_timers: dict[_Name, PendingTimer] | None = None,
    clock_timers: dict[_Name, PendingTimer] | None = None,
    waiting: list[tuple[int, int, Arrived]] | None = None,
    count: int = 0,
    holds: dict[str, Hold] | None = None,
) -> StateCell:
    """Return a cell with these contents; pickles refer to this function, so its arguments must not change."""
    return StateCell(values, TimerSet(event_timers), TimerSet(clock_timers), waiting or [], count, holds or {})


@attrs.define
class KeyCells:
    """The windows of one key.

    A key is pickled whenever it changes, and what pickle refers to by name is what takes the time. So a key is pickled
    as tuples of its windows' contents (see `_filled_key`), in which `None` stands for the global window.
    """

    key: Any
    cells: dict[Window, StateCell] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        windows = self.cells.items()
        return _filled_key, (
            self.key,
            [(None if window == GLOBAL_WINDOW else window, *cell.contents()) for window, cell in windows],
        )


def _filled_key(key: Any, windows: Iterable[tuple[Any, ...]]) -> KeyCells:
    """Return a key with these windows; pickles refer to this function, so its arguments must not change.

    Args:
        key: the key.
        windows: of each window the window, `None` for the global one, followed by the arguments of `_filled_cell`.
    """
    return KeyCells(
        key, {GLOBAL_WINDOW if window is None else window: _filled_cell(*contents) for window, *contents in windows}
    )


@attrs.define(eq=False)
class OpenWindow:
    """What is known of a window, and its cells that have been looked up.

    Attributes:
        window: the window.
        end: its last instant.
        expiry: the watermark at which its state is cleared.
        bounds: see `by_window`.
        cells: by key, the cells; a cell may have been removed since, see `StateCell.is_open`.
    """

    window: Window
    end: int
    expiry: int
    bounds: tuple[int, int, bytes]
    cells: dict[Any, OpenCell] = attrs.field(factory=dict)


@attrs.define(eq=False)
class OpenCell:
    """A cell that is in memory, and where it belongs.

    Attributes:
        window: the window.
        encoded, keyed: the key, encoded, and its windows.
        state: the state of the key in the window.
        set_before: the number of timers that have been set before the current event.
        repeated, repeated_at: how many of those that were set in it have fired without progress, and the last one's
            time.
    """

    window: OpenWindow
    encoded: bytes
    keyed: KeyCells
    state: StateCell
    set_before: int = 0
    repeated: int = 0
    repeated_at: int = 0

    def begin_event(self) -> None:
        """Begin an event in which timers fire."""
        self.set_before, self.repeated = self.state.count, 0

    def remove(self) -> None:
        """Remove the window from those of the key."""
        self.state.is_open = False
        del self.keyed.cells[self.window.window]


def expiry_of(window: Window, allowed_lateness: int) -> int:
    """Return the watermark at which a window expires; at +∞ every window does."""
    return min(int(window.end) + allowed_lateness, _INFINITY)


class CellStore(KeyStore[KeyCells]):
    """The keys of a stateful DoFn.

    Args:
        lateness: how long after the end of a window its state is cleared.
        holds_to_end: whether windows hold the watermark, so that their outputs at expiry are on time.

    Attributes:
        closed: windows that end at this time or before have expired, under a shorter lateness.
    """

    def __init__(self, lateness: int, *, holds_to_end: bool) -> None:
        super().__init__(2)
        self.closed = _MINUS_INFINITY
        self._lateness = lateness
        self._holds_to_end = holds_to_end

    def expiry(self, window: Window) -> int:
        """Return the watermark at which the state of a window is cleared."""
        return _MINUS_INFINITY if int(window.end) <= self.closed else expiry_of(window, self._lateness)

    def dated_anew(self, entry: bytes) -> bytes:
        """Return a stored key with the deadlines that its windows have under this lateness."""
        state = StoredKey.unpacked(entry).state
        keyed = self._loaded(state)
        dues = [self._dues(keyed, window) for window in keyed.cells]
        return StoredKey.of(state, [due for due in dues if due is not None]).packed()

    def mark_cell(self, cell: OpenCell) -> None:
        """Record that a cell may have changed or been removed; it is cheap to repeat."""
        if not cell.state.is_marked:
            cell.state.is_marked = True
            self.mark(cell.encoded, cell.window.window)

    @staticmethod
    def event_due(expiry: int, state: StateCell) -> int:
        """Return the watermark of a window's next event: a buffered element, a timer, or the expiry."""
        due, first = expiry, state.event_timers.first()
        if first is not None and first < due:
            due = first
        if state.waiting and state.waiting[0][0] < due:
            due = state.waiting[0][0]
        return due

    def _new(self, key: Any) -> KeyCells:
        return KeyCells(key)

    def _windows(self, state: KeyCells) -> Collection[Window]:
        return state.cells

    def _dues(self, state: KeyCells, window: Window) -> Dues | None:
        cell = state.cells.get(window)
        if cell is None:
            return None
        cell.is_marked = False
        return self.event_due(self.expiry(window), cell), cell.clock_timers.first(), self._hold_of(window, cell)

    def _hold_of(self, window: Window, cell: StateCell) -> int | None:
        hold = cell.hold()
        if not self._holds_to_end:
            return hold
        end = int(window.max_timestamp)
        return end if hold is None else min(hold, end)
