"""The cells of one grouping on one shard, in columns: one slot for each key and window that has state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened, strided
from dataflow_model.runners.engine.core.search_trees import SearchTrees

if TYPE_CHECKING:
    from array import array

# The bits of a slot's `flags`.
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
_AT_ONCE: Final = 512
_MANY_STEPS: Final = 64
_LINE: Final = 8
"""A line of the processor's cache holds this many numbers."""
COLUMNS: Final = {
    name: index
    for index, name in enumerate(
        (
            *("key", "start", "end", "kind", "chain", "flags", "pending", "elements", "earliest", "latest", "hold_at"),
            *("index", "on_time_index", "standing", "after", "before"),
        )
    )
}
"""The indices of the columns with one number for each slot in a row."""


class CellTable:
    """The state of cells in columns: a slot is an index into every column.

    The columns are views of one array with a row for each slot, so that what an event reads of a cell is in a few lines
    of the processor's cache. A row has the columns with one number for each slot, then those with several.

    A window is identified by its bounds and its kind: 0 for a plain interval, 1 for the global window, higher numbers
    for windows of users' classes. Closed slots are reused only after `recycle`, so that a log that refers to them can
    be folded first.

    Args:
        words: the number of words in a bit set over the places of the trigger tree.
        counters: the number of places of the tree that count.
        deadlines: the number of deadlines that places of the tree store for themselves.
        domains: the number of clocks that a cell can wait for: the low watermark, the processing clock, and each other
            percentile of the watermark.
        never: the deadline of a cell that is not queued, +∞.
        linked: whether to keep each key's open windows in order of their starts, for merging.

    Attributes:
        key, start, end, kind: the key and the window of each slot; the key of a free slot is −1.
        pending: the number of elements since the last pane.
        elements: the number of elements in the accumulator.
        index: the index of the next pane.
        on_time_index: the on-time index of the last pane that was not early; −1 if there is none.
        flags: see the constants of this module.
        earliest, latest: the bounds of the event times of the pending elements that were not late; valid only if the
            flag `TIMED` is set.
        standing: the newest value that has been emitted and not retracted; −1 if there is none.
        width: the length of a row. A column with several numbers for each slot has those of slot *n* from *n* × `width`
            on.
        first_bit, first_counter, first_queued, first_deadline: where these columns begin in a row.
        bits: three sets of places for each slot: finished, timer set, condition met.
        counters, deadlines: for each slot, by the number of the place that needs one.
        queued: the earliest deadline in a queue, for each slot by time domain.
        hold_at: the earliest hold in the queue of holds, by slot.
        cells_of_key: the number of slots of each key.
        first_of_key, after: each key's open windows in order of their starts, if `linked`.
        trees: the same windows of keys for which following `before` once took many steps.
        touched: the keys with a cell that has changed since `forget_touched`, each once.
    """

    def __init__(self, words: int, counters: int, deadlines: int, domains: int, never: int, linked: bool) -> None:
        self.words = words
        self.stride = words * _BIT_SETS
        self.counts = counters
        self.waits = deadlines
        self.domains = domains
        self.never = never
        self.linked = linked
        self.capacity = _FIRST_CAPACITY
        self.used = 0
        self.live = 0
        size = _FIRST_CAPACITY
        self.first_bit = len(COLUMNS)
        self.first_counter = self.first_bit + self.stride
        self.first_queued = self.first_counter + counters
        self.first_deadline = self.first_queued + domains
        self.width = self.first_deadline + deadlines
        self.rows: array[int] = column(size * self.width, _NONE)
        self.divide()
        self.heads: array[int] = column(2 * size, _NONE)
        self.cells_of_key: array[int] = column(size)
        self.first_of_key: array[int] = column(size, _NONE)
        self.last_of_key: array[int] = column(size, _NONE)
        self.trees = SearchTrees()
        self.free: array[int] = column(size)
        self.free_count = 0
        self.freed: array[int] = column(size)
        self.keys_freed: array[int] = column(size)
        self.freed_count = 0
        self.touched: array[int] = column(size)
        self.is_touched: array[int] = column(size)
        self.touched_count = 0
        self.ahead: array[int] = column(_AT_ONCE)
        self.seen = 0

    # Finding and opening -------------------------------------------------------------------------------------------

    def bucket(self, key: int, start: int, end: int, kind: int) -> int:
        """Return the bucket of the hash table that a cell belongs to."""
        mixed = key * 40503 + start * 69069 + end * 30011 + kind * 7919
        mixed ^= mixed >> 32
        mixed *= 668265263
        mixed ^= mixed >> 29
        return mixed & (2 * self.capacity - 1)

    def find(self, key: int, start: int, end: int, kind: int) -> int:
        """Return the slot of a key and a window; −1 if there is none."""
        slot = self.heads[self.bucket(key, start, end, kind)]
        while slot >= 0:
            is_key = self.key[slot] == key  # first, since it is the least likely and each column may cost a cache miss
            if is_key and self.start[slot] == start and self.end[slot] == end and self.kind[slot] == kind:
                return slot
            slot = self.chain[slot]
        return _NONE

    def find_ahead(self, keys: array[int], starts: array[int], ends: array[int], kinds: array[int], first: int) -> int:
        """Read the memory that finding the cells of the next elements needs; return the number of these elements.

        The keys of elements that follow one another differ, so each would wait for memory anew. Reads that do not
        depend on one another overlap.
        """
        count = min(_AT_ONCE, len(keys) - first)
        for index in range(count):
            key = keys[first + index]
            if self.linked:
                self.ahead[index] = self.last_of_key[key]
            else:
                bucket = self.bucket(key, starts[first + index], ends[first + index], kinds[first + index])
                self.ahead[index] = self.heads[bucket]
        self.read_ahead(self.ahead, 0, count)
        return count

    def read_ahead(self, slots: array[int], first: int, last: int) -> None:
        """Read the rows of several slots, so that waits for memory overlap; −1 stands for no slot."""
        seen = self.seen
        for index in range(first, last):
            if slots[index] >= 0:
                at = slots[index] * self.width
                end = at + self.width
                while at < end:
                    seen ^= self.rows[at]
                    at += _LINE
        self.seen = seen  # so that the compiler does not leave the loop out

    def close_ahead(self, slots: array[int], first: int, last: int) -> None:
        """Read also the memory that `close` needs for several slots."""
        self.read_ahead(slots, first, last)
        seen = self.seen
        for index in range(first, last):
            slot = slots[index]
            key = self.key[slot]
            if key >= 0:
                seen ^= self.heads[self.bucket(key, self.start[slot], self.end[slot], self.kind[slot])]
                seen ^= self.cells_of_key[key] ^ self.is_touched[key]
        self.seen = seen

    def open(self, key: int, start: int, end: int, kind: int) -> int:
        """Return a new slot for a key and a window that have none."""
        if self.free_count > 0:
            self.free_count -= 1
            slot = self.free[self.free_count]
        else:
            if self.used == self.capacity:
                self.grow(2 * self.capacity)
            slot = self.used
            self.used += 1
        self.key[slot] = key
        self.start[slot] = start
        self.end[slot] = end
        self.kind[slot] = kind
        self.pending[slot] = self.elements[slot] = self.index[slot] = self.flags[slot] = 0
        self.on_time_index[slot] = self.standing[slot] = _NONE
        self.hold_at[slot] = self.never
        row = slot * self.width
        for at in range(row, row + self.stride):
            self.bits[at] = 0
        for at in range(row, row + self.counts):
            self.counters[at] = 0
        for at in range(row, row + self.domains):
            self.queued[at] = self.never
        head = self.bucket(key, start, end, kind)
        self.chain[slot] = self.heads[head]
        self.heads[head] = slot
        self.cells_of_key[key] += 1
        self.live += 1
        return slot

    def open_all(
        self, keys: array[int], starts: array[int], ends: array[int], kinds: array[int], slots: array[int]
    ) -> None:
        """Open a slot for each of several keys and windows that have none, and write it to `slots`."""
        count = len(slots)
        self.reserve(count)
        for first in range(0, count, _AT_ONCE):
            last = min(first + _AT_ONCE, count)
            for index in range(first, last):  # reads what `open` will read, so that many cache misses overlap
                slots[index] = self.heads[self.bucket(keys[index], starts[index], ends[index], kinds[index])]
            for index in range(first, last):
                slots[index] = self.open(keys[index], starts[index], ends[index], kinds[index])

    def close(self, slot: int) -> None:
        """Free a slot; it can be reused after `recycle`."""
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
        """Make the closed slots available again; call this when nothing refers to them any more."""
        if self.used == 0:  # after `shrink` there are no slots
            self.freed_count = 0
        for index in range(self.freed_count):
            self.free[self.free_count] = self.freed[index]
            self.free_count += 1
        self.freed_count = 0

    def shrink(self) -> None:
        """Release the memory of all slots, each of which is closed; which keys have changed stays known."""
        self.used = self.free_count = 0
        size = self.capacity = _FIRST_CAPACITY
        self.rows = column(size * self.width, _NONE)
        self.divide()
        self.heads = column(2 * size, _NONE)
        self.free = column(size)
        self.freed = column(size)
        self.trees = SearchTrees()

    def clear(self) -> None:
        """Free all slots at once, and forget all keys; the columns keep their length."""
        self.used = self.live = self.free_count = self.freed_count = self.touched_count = 0
        for index in range(len(self.heads)):
            self.heads[index] = _NONE
        for key in range(len(self.cells_of_key)):
            self.cells_of_key[key] = self.is_touched[key] = 0
            self.first_of_key[key] = self.last_of_key[key] = _NONE
        self.trees = SearchTrees()

    # Keys with changes ---------------------------------------------------------------------------------------------

    def touch(self, key: int) -> None:
        """Record that a cell of a key has changed."""
        if not self.is_touched[key]:
            self.is_touched[key] = 1
            self.touched[self.touched_count] = key
            self.touched_count += 1

    def forget_touched(self) -> None:
        """Start recording changes from scratch."""
        for index in range(self.touched_count):
            self.is_touched[self.touched[index]] = 0
        self.touched_count = 0

    # A key's windows in order of time ------------------------------------------------------------------------------

    def link(self, slot: int) -> None:
        """Insert a slot into its key's list of open windows."""
        key, start = self.key[slot], self.start[slot]
        before = self.last_before(key, start + 1)
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
        if self.has_tree(key):
            self.trees.insert(key, slot, start)

    def unlink(self, slot: int, key: int) -> None:
        """Remove a slot from its key's list of open windows."""
        before, after = self.before[slot], self.after[slot]
        if before < 0:
            self.first_of_key[key] = after
        else:
            self.after[before] = after
        if after < 0:
            self.last_of_key[key] = before
        else:
            self.before[after] = before
        if self.has_tree(key):
            self.trees.remove(key, slot)

    def last_before(self, key: int, time: int) -> int:
        """Return the last open window of a key that starts before a time; −1 if there is none."""
        slot = self.last_of_key[key]
        if slot < 0 or self.start[slot] < time:  # as long as elements arrive in order
            return slot
        if self.has_tree(key):
            return self.trees.last_before(key, time)
        steps = 0
        while slot >= 0 and self.start[slot] >= time:
            slot = self.before[slot]
            steps += 1
        if steps > _MANY_STEPS:
            self.plant(key)
        return slot

    def has_tree(self, key: int) -> bool:
        """Return whether the windows of a key are in a search tree, too."""
        return key < len(self.trees.root_of) and self.trees.root_of[key] >= 0

    def plant(self, key: int) -> None:
        """Make a search tree of a key's open windows, which exists until the last of them is closed."""
        self.trees.reserve(len(self.cells_of_key), self.capacity)
        slot = self.first_of_key[key]
        while slot >= 0:
            self.trees.insert(key, slot, self.start[slot])
            slot = self.after[slot]

    # Capacity ---------------------------------------------------------------------------------------------------------

    def admit_keys(self, count: int) -> None:
        """Make room for all keys with numbers below `count`."""
        room = len(self.cells_of_key)
        if count > room:
            size = max(count, 2 * room)
            self.cells_of_key = lengthened(self.cells_of_key, size)
            self.first_of_key = lengthened(self.first_of_key, size, _NONE)
            self.last_of_key = lengthened(self.last_of_key, size, _NONE)
            self.touched = lengthened(self.touched, size)
            self.is_touched = lengthened(self.is_touched, size)

    def reserve(self, count: int) -> None:
        """Make room for a number of new slots at once."""
        size = self.capacity
        while size < self.used - self.free_count + count:
            size *= 2
        if size > self.capacity:
            self.grow(size)

    def divide(self) -> None:
        """Make each column a view of its part of the rows."""
        rows, width = self.rows, self.width
        self.key: array[int] = strided(rows, COLUMNS["key"], width)
        self.start: array[int] = strided(rows, COLUMNS["start"], width)
        self.end: array[int] = strided(rows, COLUMNS["end"], width)
        self.kind: array[int] = strided(rows, COLUMNS["kind"], width)
        self.chain: array[int] = strided(rows, COLUMNS["chain"], width)
        self.flags: array[int] = strided(rows, COLUMNS["flags"], width)
        self.pending: array[int] = strided(rows, COLUMNS["pending"], width)
        self.elements: array[int] = strided(rows, COLUMNS["elements"], width)
        self.earliest: array[int] = strided(rows, COLUMNS["earliest"], width)
        self.latest: array[int] = strided(rows, COLUMNS["latest"], width)
        self.hold_at: array[int] = strided(rows, COLUMNS["hold_at"], width)
        self.index: array[int] = strided(rows, COLUMNS["index"], width)
        self.on_time_index: array[int] = strided(rows, COLUMNS["on_time_index"], width)
        self.standing: array[int] = strided(rows, COLUMNS["standing"], width)
        self.after: array[int] = strided(rows, COLUMNS["after"], width)
        self.before: array[int] = strided(rows, COLUMNS["before"], width)
        self.bits: array[int] = strided(rows, self.first_bit, 1)
        self.counters: array[int] = strided(rows, self.first_counter, 1)
        self.queued: array[int] = strided(rows, self.first_queued, 1)
        self.deadlines: array[int] = strided(rows, self.first_deadline, 1)

    def grow(self, size: int) -> None:
        """Increase the number of slots to a power of two."""
        self.capacity = size
        self.rows = lengthened(self.rows, size * self.width, _NONE)
        self.divide()
        self.free = lengthened(self.free, size)
        self.freed = lengthened(self.freed, size)
        self.keys_freed = lengthened(self.keys_freed, max(size, len(self.keys_freed)))
        if len(self.trees.root_of) > 0:
            self.trees.reserve(len(self.cells_of_key), size)
        self.heads = column(2 * size, _NONE)
        for slot in range(self.used):
            if self.key[slot] >= 0:
                head = self.bucket(self.key[slot], self.start[slot], self.end[slot], self.kind[slot])
                self.chain[slot] = self.heads[head]
                self.heads[head] = slot
