"""A queue of the deadlines of cells, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array

_FIRST_CAPACITY: Final = 8
_RECENT: Final = 64
_NONE: Final = -1


class DeadlineQueue:
    """A queue of (deadline, slot), earliest deadline first; entries with the same deadline are in no particular order.

    Most cells have their deadline in common with many others, the end of a window. So entries with the same deadline
    are in a list, and the lists in a binary heap: most entries are added and removed without moving any other. A
    deadline that was added last long ago may have several lists.

    Deletion is lazy: the owner checks whether an entry is still valid when it pops it, and takes all entries out and
    adds the valid ones again once most are not.

    Attributes:
        size: the number of entries.
        popped, popped_at: the slots and deadlines of the last `pop_until`.

    Example:
        >>> queue = DeadlineQueue()
        >>> _ = queue.push(7, 0), queue.push(3, 1), queue.push(7, 2)
        >>> queue.first_time(), queue.first_slot(), queue.size
        (3, 1, 3)
        >>> queue.pop()
        >>> queue.first_time()
        7
        >>> queue.pop_until(7), sorted(queue.popped[:2]), queue.size
        (2, [0, 2], 0)
    """

    def __init__(self) -> None:
        self.size = 0
        self.slots: array[int] = column(_FIRST_CAPACITY)
        self.following: array[int] = column(_FIRST_CAPACITY)
        self.used = 0
        self.free = _NONE
        self.lists = 0
        self.times: array[int] = column(_FIRST_CAPACITY)
        self.numbers: array[int] = column(_FIRST_CAPACITY)
        self.time_of: array[int] = column(_FIRST_CAPACITY)
        self.first_of: array[int] = column(_FIRST_CAPACITY)
        self.recent: array[int] = column(_RECENT)
        self.popped: array[int] = column(_FIRST_CAPACITY)
        self.popped_at: array[int] = column(_FIRST_CAPACITY)
        for number in range(_FIRST_CAPACITY):
            self.numbers[number] = number
            self.first_of[number] = _NONE

    def first_time(self) -> int:
        """Return the earliest deadline; the queue must not be empty."""
        return self.times[0]

    def first_slot(self) -> int:
        """Return a slot that has the earliest deadline."""
        return self.slots[self.first_of[self.numbers[0]]]

    def push(self, time: int, slot: int) -> None:
        """Add a deadline."""
        entry = self.entry()
        self.slots[entry] = slot
        number = self.list_of(time)
        self.following[entry] = self.first_of[number]
        self.first_of[number] = entry
        self.size += 1

    def push_all(self, count: int, times: array[int], slots: array[int]) -> None:
        """Add the deadlines of some slots."""
        for index in range(count):
            self.push(times[index], slots[index])

    def pop(self) -> None:
        """Remove the entry of `first_slot`; the queue must not be empty."""
        number = self.numbers[0]
        entry = self.first_of[number]
        self.first_of[number] = self.following[entry]
        self.following[entry] = self.free
        self.free = entry
        self.size -= 1
        if self.first_of[number] < 0:
            self.remove_first()

    def pop_until(self, until: int) -> int:
        """Remove the entries with deadlines up to `until`, write them to `popped`, and return their number."""
        count = 0
        while self.size > 0 and self.times[0] <= until:
            if count == len(self.popped):
                self.popped = lengthened(self.popped, 2 * count)
                self.popped_at = lengthened(self.popped_at, 2 * count)
            self.popped[count], self.popped_at[count] = self.first_slot(), self.first_time()
            count += 1
            self.pop()
        return count

    def entry(self) -> int:
        """Return the index of a new entry."""
        entry = self.free
        if entry >= 0:
            self.free = self.following[entry]
            return entry
        entry = self.used
        if entry == len(self.slots):
            self.slots = lengthened(self.slots, 2 * entry)
            self.following = lengthened(self.following, 2 * entry)
        self.used += 1
        return entry

    # Lists ---------------------------------------------------------------------------------------------------------

    def list_of(self, time: int) -> int:
        """Return the number of a list for a deadline, which is one that was used recently or a new one."""
        mixed = time
        mixed *= 668265263
        index = (mixed >> 29) & (_RECENT - 1)
        number = self.recent[index]
        if self.first_of[number] < 0 or self.time_of[number] != time:
            number = self.recent[index] = self.add_list(time)
        return number

    def add_list(self, time: int) -> int:
        """Add a list, which is still empty, to the heap."""
        index = self.lists
        if index == len(self.times):
            self.grow()
        number = self.numbers[index]
        self.time_of[number] = time
        self.lists += 1
        while index > 0:
            above = (index - 1) >> 1
            if self.times[above] <= time:
                break
            self.times[index], self.numbers[index] = self.times[above], self.numbers[above]
            index = above
        self.times[index] = time
        self.numbers[index] = number
        return number

    def remove_first(self) -> None:
        """Remove the first list from the heap."""
        self.lists -= 1
        size, unused = self.lists, self.numbers[0]
        time, number = self.times[size], self.numbers[size]
        index = 0
        while True:
            below = 2 * index + 1
            if below >= size:
                break
            if below + 1 < size and self.times[below + 1] < self.times[below]:
                below += 1
            if self.times[below] >= time:
                break
            self.times[index], self.numbers[index] = self.times[below], self.numbers[below]
            index = below
        self.times[index] = time
        self.numbers[index] = number
        self.numbers[size] = unused

    def grow(self) -> None:
        """Double the number of lists."""
        size = self.lists
        self.times = lengthened(self.times, 2 * size)
        self.numbers = lengthened(self.numbers, 2 * size)
        self.time_of = lengthened(self.time_of, 2 * size)
        self.first_of = lengthened(self.first_of, 2 * size, _NONE)
        for number in range(size, 2 * size):
            self.numbers[number] = number
