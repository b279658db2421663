"""Numbers for keys that are 64-bit integers, in a hash table without a Python object per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

_FIRST_CAPACITY: Final = 16
_NONE: Final = -1


class IntegerNumbers:
    """A number ≥ 0 by integer, with open addressing: an integer is in its bucket, or in one of the next ones.

    Attributes:
        count: how many integers have a number.

    Example:
        >>> table = IntegerNumbers()
        >>> table.put(70, 0)
        >>> output = column(3)
        >>> table.find(column(3, 70), output), output.tolist()
        (0, [0, 0, 0])
    """

    def __init__(self) -> None:
        self.count = 0
        self.capacity = _FIRST_CAPACITY
        self.integers: array[int] = column(self.capacity)
        self.numbers: array[int] = column(self.capacity, _NONE)

    def bucket(self, integer: int) -> int:
        """Return where an integer is looked up first."""
        mixed = integer
        mixed ^= mixed >> 32
        mixed *= 668265263
        mixed ^= mixed >> 29
        return mixed & (self.capacity - 1)

    def slot_of(self, integer: int) -> int:
        """Return the slot of an integer, or the free slot for it."""
        slot = self.bucket(integer)
        while self.numbers[slot] >= 0 and self.integers[slot] != integer:
            slot = (slot + 1) & (self.capacity - 1)
        return slot

    def find(self, integers: Sequence[int], output: array[int]) -> int:
        """Write the number of each integer to `output`, −1 where it has none; return how many have none."""
        missing = 0
        for row in range(len(integers)):
            number = self.numbers[self.slot_of(integers[row])]
            output[row] = number
            missing += number < 0
        return missing

    def put(self, integer: int, number: int) -> None:
        """Set the number of an integer."""
        if 2 * self.count >= self.capacity:
            self.grow()
        slot = self.slot_of(integer)
        self.count += self.numbers[slot] < 0
        self.integers[slot] = integer
        self.numbers[slot] = number

    def put_all(self, integers: Sequence[int], numbers: Sequence[int]) -> None:
        """Set the numbers of several integers."""
        for row in range(len(integers)):
            self.put(integers[row], numbers[row])

    def remove(self, integer: int) -> None:
        """Remove an integer that has a number, and move those behind it that it kept from their buckets."""
        free = self.slot_of(integer)
        self.count -= 1
        slot = free
        while True:
            slot = (slot + 1) & (self.capacity - 1)
            if self.numbers[slot] < 0:
                break
            bucket = self.bucket(self.integers[slot])
            if (slot - bucket) & (self.capacity - 1) >= (slot - free) & (self.capacity - 1):
                self.integers[free] = self.integers[slot]
                self.numbers[free] = self.numbers[slot]
                free = slot
        self.numbers[free] = _NONE

    def grow(self) -> None:
        """Double the number of slots."""
        integers, numbers, before = self.integers, self.numbers, self.capacity
        self.capacity = 2 * before
        self.integers = column(self.capacity)
        self.numbers = column(self.capacity, _NONE)
        for row in range(before):
            if numbers[row] >= 0:
                slot = self.slot_of(integers[row])
                self.integers[slot] = integers[row]
                self.numbers[slot] = numbers[row]
