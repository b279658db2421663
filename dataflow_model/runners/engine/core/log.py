"""The log of a grouping: operations in order, from which values are folded, and the panes that they produced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array

_FIRST_CAPACITY: Final = 8


class OperationLog:
    """Operations on cells, in order: the kind (see `operations`), the slot, and an argument.

    Attributes:
        count: the number of operations; the columns may be longer.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kind: array[int] = column(_FIRST_CAPACITY)
        self.slot: array[int] = column(_FIRST_CAPACITY)
        self.argument: array[int] = column(_FIRST_CAPACITY)

    def add(self, kind: int, slot: int, argument: int) -> None:
        """Add one operation."""
        index = self.count
        if index == len(self.kind):
            self.kind = lengthened(self.kind, 2 * index)
            self.slot = lengthened(self.slot, 2 * index)
            self.argument = lengthened(self.argument, 2 * index)
        self.kind[index] = kind
        self.slot[index] = slot
        self.argument[index] = argument
        self.count = index + 1


class PaneLog:
    """Panes and retractions of earlier panes, in order of emission within one cause.

    Attributes:
        count: the number of panes; the columns may be longer.
        cause: the index of the cause in the `CauseLog`.
        number: the number of the emission within its cause.
        emission: for a retraction and the pane that replaces the retracted value, the number that identifies the
            firing; −1 otherwise.
        key, start, end, kind: the key and the window.
        index, on_time_index, flags: the pane's info.
        time: the event time.
        produced: the processing time.
    """

    def __init__(self) -> None:
        self.count = 0
        size = _FIRST_CAPACITY
        self.cause: array[int] = column(size)
        self.number: array[int] = column(size)
        self.emission: array[int] = column(size)
        self.key: array[int] = column(size)
        self.start: array[int] = column(size)
        self.end: array[int] = column(size)
        self.kind: array[int] = column(size)
        self.index: array[int] = column(size)
        self.on_time_index: array[int] = column(size)
        self.flags: array[int] = column(size)
        self.time: array[int] = column(size)
        self.produced: array[int] = column(size)

    def open(self) -> int:
        """Return the index of a new pane, which the caller fills in."""
        index = self.count
        if index == len(self.cause):
            size = 2 * index
            self.cause = lengthened(self.cause, size)
            self.number = lengthened(self.number, size)
            self.emission = lengthened(self.emission, size)
            self.key = lengthened(self.key, size)
            self.start = lengthened(self.start, size)
            self.end = lengthened(self.end, size)
            self.kind = lengthened(self.kind, size)
            self.index = lengthened(self.index, size)
            self.on_time_index = lengthened(self.on_time_index, size)
            self.flags = lengthened(self.flags, size)
            self.time = lengthened(self.time, size)
            self.produced = lengthened(self.produced, size)
        self.count = index + 1
        return index

    def copy(self, index: int, other: PaneLog, source: int) -> None:
        """Copy key, window, info and event time from a pane of another log."""
        self.key[index] = other.key[source]
        self.start[index] = other.start[source]
        self.end[index] = other.end[source]
        self.kind[index] = other.kind[source]
        self.index[index] = other.index[source]
        self.on_time_index[index] = other.on_time_index[source]
        self.flags[index] = other.flags[source]
        self.time[index] = other.time[source]


class CauseLog:
    """The causes of panes: an element, or a timer of one cell.

    Attributes:
        count: the number of causes; the columns may be longer.
        event: the number of the event; the causes within one event are sorted afterwards.
        instant: the index of the event's instant in the chunk.
        watermark: the watermark of the input at the event.
        phase: the phase of the instant, as in `order.Order`.
        at: the row of the element, or the deadline of the timer.
        key, start, end, kind: the key and the window of the timer.
    """

    def __init__(self) -> None:
        self.count = 0
        self.event: array[int] = column(_FIRST_CAPACITY)
        self.instant: array[int] = column(_FIRST_CAPACITY)
        self.watermark: array[int] = column(_FIRST_CAPACITY)
        self.phase: array[int] = column(_FIRST_CAPACITY)
        self.at: array[int] = column(_FIRST_CAPACITY)
        self.key: array[int] = column(_FIRST_CAPACITY)
        self.start: array[int] = column(_FIRST_CAPACITY)
        self.end: array[int] = column(_FIRST_CAPACITY)
        self.kind: array[int] = column(_FIRST_CAPACITY)

    def open(self) -> int:
        """Return the index of a new cause, which the caller fills in."""
        index = self.count
        if index == len(self.event):
            size = 2 * index
            self.event = lengthened(self.event, size)
            self.instant = lengthened(self.instant, size)
            self.watermark = lengthened(self.watermark, size)
            self.phase = lengthened(self.phase, size)
            self.at = lengthened(self.at, size)
            self.key = lengthened(self.key, size)
            self.start = lengthened(self.start, size)
            self.end = lengthened(self.end, size)
            self.kind = lengthened(self.kind, size)
        self.count = index + 1
        return index


class StandingTable:
    """Values that have been emitted and not retracted, as one linked list per cell: several entries after a merge.

    Entries that were retracted are reused only after `recycle`, like the slots of cells.

    Attributes:
        panes: the key, window, info and event time of each entry; the other columns are unused.
        following: the next entry of the same cell; −1 at the end.
    """

    def __init__(self) -> None:
        self.panes = PaneLog()
        self.following: array[int] = column(_FIRST_CAPACITY)
        self.free: array[int] = column(_FIRST_CAPACITY)
        self.free_count = 0
        self.freed: array[int] = column(_FIRST_CAPACITY)
        self.freed_count = 0

    def open(self) -> int:
        """Return a new entry, which the caller fills in."""
        if self.free_count > 0:
            self.free_count -= 1
            return self.free[self.free_count]
        entry = self.panes.open()
        if entry == len(self.following):
            self.following = lengthened(self.following, 2 * entry)
            self.free = lengthened(self.free, 2 * entry)
            self.freed = lengthened(self.freed, 2 * entry)
        return entry

    def open_all(self, entries: array[int]) -> None:
        """Write new entries to all indices of `entries`."""
        for index in range(len(entries)):
            entries[index] = self.open()

    def close(self, entry: int) -> None:
        """Free an entry; it can be reused after `recycle`."""
        self.freed[self.freed_count] = entry
        self.freed_count += 1

    def recycle(self) -> None:
        """Make the freed entries available again; call this when nothing refers to them any more."""
        for index in range(self.freed_count):
            self.free[self.free_count] = self.freed[index]
            self.free_count += 1
        self.freed_count = 0
