"""The cells of one grouping on one shard, in columns: one slot for each key and window that has state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array

__all__ = ["COLLECTED", "HAD_ON_TIME", "HAS_CLOSED", "PENDING_ON_TIME", "REOPENED", "TIMED", "CellTable"]

# What a slot's `flags` say.
PENDING_ON_TIME: Final = 1
HAD_ON_TIME: Final = 2
HAS_CLOSED: Final = 4
REOPENED: Final = 8
TIMED: Final = 16
COLLECTED: Final = 32

_FIRST_CAPACITY: Final = 8
_NONE: Final = -1
_REOPENED: Final = REOPENED
_BIT_SETS: Final = 3


class CellTable:
    """Structure of arrays; a slot is a place in all columns.

    A window is known by its bounds and its kind: 0 for a plain interval, 1 for the global window, further numbers for
    windows of users' classes. Freed slots are used again only after `recycle`, so that a log that names them can be
    folded before.

    Args:
        words: words of a bit set over the places of the trigger tree.
        counters: places of the tree that count.
        deadlines: places of the tree that remember a deadline of their own.
        lines: clocks that a cell can wait for: the low watermark, the processing clock, further percentiles.
        never: the time at which nothing is queued, +∞.

    Attributes:
        key, start, end, kind: what each slot is the cell of; the key of a free slot is −1.
        pending: elements since the last pane.
        held: elements in the accumulator.
        index: of the next pane.
        on_time_index: of the last pane that was not early; −1 if there is none.
        flags: bits.
        earliest, latest: of the pending elements that were not late; they hold only with the flag for them.
        standing: the newest value that has been emitted and not been taken back; −1 if there is none.
        bits: three sets of places for each slot: those finished, those whose timer is set, those that are met.
        counters, deadlines: by slot, then by number of the place that needs one.
        queued: by slot and line, the earliest deadline that a queue has.
        held_at: the earliest hold that a queue has.
        cells_of_key: how many slots each key has.
        first_of_key, after: each key's open windows in order of time, if `linked`.
        touched: the keys with a cell that has changed since `forget_touched`, each once.
    """

    def __init__(self, words: int, counters: int, deadlines: int, lines: int, never: int, linked: bool) -> None:
        self.words = words
        self.stride = words * _BIT_SETS
        self.counts = counters
        self.waits = deadlines
        self.lines = lines
        self.never = never
        self.linked = linked
        self.capacity = _FIRST_CAPACITY
        self.used = 0
        self.live = 0
        size = _FIRST_CAPACITY
        self.key: array[int] = column(size, _NONE)
        self.start: array[int] = column(size)
        self.end: array[int] = column(size)
        self.kind: array[int] = column(size)
        self.pending: array[int] = column(size)
        self.held: array[int] = column(size)
        self.index: array[int] = column(size)
        self.on_time_index: array[int] = column(size)
        self.flags: array[int] = column(size)
        self.earliest: array[int] = column(size)
        self.latest: array[int] = column(size)
        self.standing: array[int] = column(size, _NONE)
        self.held_at: array[int] = column(size, never)
        self.bits: array[int] = column(size * self.stride)
        self.counters: array[int] = column(size * counters)
        self.deadlines: array[int] = column(size * deadlines)
        self.queued: array[int] = column(size * lines, never)
        self.chain: array[int] = column(size, _NONE)
        self.after: array[int] = column(size, _NONE)
        self.before: array[int] = column(size, _NONE)
        self.heads: array[int] = column(2 * size, _NONE)
        self.cells_of_key: array[int] = column(size)
        self.first_of_key: array[int] = column(size, _NONE)
        self.last_of_key: array[int] = column(size, _NONE)
        self.free: array[int] = column(size)
        self.free_count = 0
        self.freed: array[int] = column(size)
        self.keys_freed: array[int] = column(size)
        self.freed_count = 0
        self.touched: array[int] = column(size)
        self.is_touched: array[int] = column(size)
        self.touched_count = 0

    # Finding and opening -------------------------------------------------------------------------------------------

    def bucket(self, key: int, start: int, end: int, kind: int) -> int:
        """Return where a cell is looked up."""
        mixed = key * 40503 + start * 69069 + end * 30011 + kind * 7919
        mixed ^= mixed >> 32
        mixed *= 668265263
        mixed ^= mixed >> 29
        return mixed & (2 * self.capacity - 1)

    def find(self, key: int, start: int, end: int, kind: int) -> int:
        """Return the slot of a key and window; −1 if there is none."""
        slot = self.heads[self.bucket(key, start, end, kind)]
        while slot >= 0:
            is_window = self.start[slot] == start and self.end[slot] == end and self.kind[slot] == kind
            if is_window and self.key[slot] == key:
                return slot
            slot = self.chain[slot]
        return _NONE

    def open(self, key: int, start: int, end: int, kind: int) -> int:
        """Return a new slot for a key and window that have none."""
        if self.free_count > 0:
            self.free_count -= 1
            slot = self.free[self.free_count]
        else:
            if self.used == self.capacity:
                self.grow()
            slot = self.used
            self.used += 1
        self.key[slot] = key
        self.start[slot] = start
        self.end[slot] = end
        self.kind[slot] = kind
        self.pending[slot] = self.held[slot] = self.index[slot] = self.flags[slot] = 0
        self.on_time_index[slot] = self.standing[slot] = _NONE
        self.held_at[slot] = self.never
        for at in range(slot * self.stride, (slot + 1) * self.stride):
            self.bits[at] = 0
        for at in range(slot * self.counts, (slot + 1) * self.counts):
            self.counters[at] = 0
        for at in range(slot * self.lines, (slot + 1) * self.lines):
            self.queued[at] = self.never
        head = self.bucket(key, start, end, kind)
        self.chain[slot] = self.heads[head]
        self.heads[head] = slot
        self.cells_of_key[key] += 1
        self.live += 1
        return slot

    def close(self, slot: int) -> None:
        """Give a slot up; it is used again after `recycle`."""
        key = self.key[slot]
        head = self.bucket(key, self.start[slot], self.end[slot], self.kind[slot])
        other = self.heads[head]
        if other == slot:
            self.heads[head] = self.chain[slot]
        else:
            while self.chain[other] != slot:
                other = self.chain[other]
            self.chain[other] = self.chain[slot]
        if self.linked and not self.flags[slot] & _REOPENED:
            self.unlink(slot, key)
        self.key[slot] = _NONE
        self.cells_of_key[key] -= 1
        self.live -= 1
        self.freed[self.freed_count] = slot
        self.keys_freed[self.freed_count] = key
        self.freed_count += 1
        self.touch(key)

    def recycle(self) -> None:
        """Let the slots that were closed be used again: nothing refers to them any more."""
        for place in range(self.freed_count):
            self.free[self.free_count] = self.freed[place]
            self.free_count += 1
        self.freed_count = 0

    # Keys with changes ---------------------------------------------------------------------------------------------

    def touch(self, key: int) -> None:
        """Note that a cell of a key has changed."""
        if not self.is_touched[key]:
            self.is_touched[key] = 1
            self.touched[self.touched_count] = key
            self.touched_count += 1

    def forget_touched(self) -> None:
        """Begin to note changes anew."""
        for place in range(self.touched_count):
            self.is_touched[self.touched[place]] = 0
        self.touched_count = 0

    # A key's windows in order of time ------------------------------------------------------------------------------

    def link(self, slot: int) -> None:
        """Put a slot among its key's open windows, of which no two intersect."""
        key, start = self.key[slot], self.start[slot]
        before = self.last_of_key[key]
        while before >= 0 and self.start[before] > start:
            before = self.before[before]
        after = self.first_of_key[key] if before < 0 else self.after[before]
        self.before[slot], self.after[slot] = before, after
        if before < 0:
            self.first_of_key[key] = slot
        else:
            self.after[before] = slot
        if after < 0:
            self.last_of_key[key] = slot
        else:
            self.before[after] = slot

    def unlink(self, slot: int, key: int) -> None:
        """Take a slot out from among its key's open windows."""
        before, after = self.before[slot], self.after[slot]
        if before < 0:
            self.first_of_key[key] = after
        else:
            self.after[before] = after
        if after < 0:
            self.last_of_key[key] = before
        else:
            self.before[after] = before

    # Room ----------------------------------------------------------------------------------------------------------

    def admit_keys(self, count: int) -> None:
        """Make room for the keys numbered below `count`."""
        room = len(self.cells_of_key)
        if count > room:
            size = max(count, 2 * room)
            self.cells_of_key = lengthened(self.cells_of_key, size)
            self.first_of_key = lengthened(self.first_of_key, size, _NONE)
            self.last_of_key = lengthened(self.last_of_key, size, _NONE)
            self.touched = lengthened(self.touched, size)
            self.is_touched = lengthened(self.is_touched, size)

    def grow(self) -> None:
        """Double the number of slots."""
        size = self.capacity = 2 * self.capacity
        self.key = lengthened(self.key, size, _NONE)
        self.start = lengthened(self.start, size)
        self.end = lengthened(self.end, size)
        self.kind = lengthened(self.kind, size)
        self.pending = lengthened(self.pending, size)
        self.held = lengthened(self.held, size)
        self.index = lengthened(self.index, size)
        self.on_time_index = lengthened(self.on_time_index, size)
        self.flags = lengthened(self.flags, size)
        self.earliest = lengthened(self.earliest, size)
        self.latest = lengthened(self.latest, size)
        self.standing = lengthened(self.standing, size, _NONE)
        self.held_at = lengthened(self.held_at, size, self.never)
        self.bits = lengthened(self.bits, size * self.stride)
        self.counters = lengthened(self.counters, size * self.counts)
        self.deadlines = lengthened(self.deadlines, size * self.waits)
        self.queued = lengthened(self.queued, size * self.lines, self.never)
        self.chain = lengthened(self.chain, size, _NONE)
        self.after = lengthened(self.after, size, _NONE)
        self.before = lengthened(self.before, size, _NONE)
        self.free = lengthened(self.free, size)
        self.freed = lengthened(self.freed, size)
        self.keys_freed = lengthened(self.keys_freed, size)
        self.heads = column(2 * size, _NONE)
        for slot in range(self.used):
            if self.key[slot] >= 0:
                head = self.bucket(self.key[slot], self.start[slot], self.end[slot], self.kind[slot])
                self.chain[slot] = self.heads[head]
                self.heads[head] = slot
