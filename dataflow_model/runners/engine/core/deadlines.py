"""A queue of the deadlines of cells, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array

__all__ = ["DeadlineHeap"]

_FIRST_CAPACITY: Final = 8


class DeadlineHeap:
    """A binary heap of (deadline, slot), earliest deadline first.

    Deletion is lazy: the owner checks whether an entry is still valid when it pops it, and uses `clear` to rebuild the
    heap once most entries are not.

    Example:
        >>> heap = DeadlineHeap()
        >>> _ = heap.push(7, 0), heap.push(3, 1)
        >>> heap.first_time(), heap.first_slot(), heap.size
        (3, 1, 2)
        >>> heap.pop()
        >>> heap.first_time()
        7
    """

    def __init__(self) -> None:
        self.size = 0
        self.times: array[int] = column(_FIRST_CAPACITY)
        self.slots: array[int] = column(_FIRST_CAPACITY)

    def first_time(self) -> int:
        """Return the earliest deadline; the heap must not be empty."""
        return self.times[0]

    def first_slot(self) -> int:
        """Return the slot that has the earliest deadline."""
        return self.slots[0]

    def push(self, time: int, slot: int) -> None:
        """Add a deadline."""
        if self.size == len(self.times):
            self.times = lengthened(self.times, 2 * self.size)
            self.slots = lengthened(self.slots, 2 * self.size)
        place = self.size
        self.size += 1
        while place > 0:
            above = (place - 1) >> 1
            if self.times[above] <= time:
                break
            self.times[place], self.slots[place] = self.times[above], self.slots[above]
            place = above
        self.times[place] = time
        self.slots[place] = slot

    def pop(self) -> None:
        """Remove the earliest deadline; the heap must not be empty."""
        self.size -= 1
        size = self.size
        time, slot = self.times[size], self.slots[size]
        place = 0
        while True:
            below = 2 * place + 1
            if below >= size:
                break
            if below + 1 < size and self.times[below + 1] < self.times[below]:
                below += 1
            if self.times[below] >= time:
                break
            self.times[place], self.slots[place] = self.times[below], self.slots[below]
            place = below
        self.times[place] = time
        self.slots[place] = slot

    def clear(self) -> None:
        """Remove all deadlines."""
        self.size = 0
