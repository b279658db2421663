"""Search trees over what a key has open, by time: windows of keys that have many of them, or elements of a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array

_NONE: Final = -1
_FIRST_CAPACITY: Final = 64


class SearchTrees:
    """A binary search tree for each of some keys, over slots in order of their starts.

    The trees are treaps (Seidel and Aragon, *Randomized Search Trees*, 1996): no slot has a higher priority than the
    one above it, and priorities are hashes of the slots. So the expected depth of a tree grows with the logarithm of
    its size, in whatever order slots are inserted. A slot comes behind all that were there with the same start.

    Attributes:
        root_of: the slot at the top of each key's tree; −1 for a key without a tree.
        start: the start of each slot.
        left, right, above: the slots next to each one in its tree; −1 if there is none.
        rows, slots: what the last `join` or `walk` has found.

    Example:
        >>> trees = SearchTrees()
        >>> trees.reserve(keys=1, slots=8)
        >>> for slot, start in enumerate([30, 10, 20]):
        ...     _ = trees.insert(0, slot, start)
        >>> trees.last_before(0, 30), trees.last_before(0, 11), trees.last_before(0, 10)
        (2, 1, -1)
        >>> _ = trees.remove(0, 2)
        >>> trees.last_before(0, 30)
        1
    """

    def __init__(self) -> None:
        self.root_of: array[int] = column(0)
        self.start: array[int] = column(0)
        self.left: array[int] = column(0)
        self.right: array[int] = column(0)
        self.above: array[int] = column(0)
        self.rows: array[int] = column(_FIRST_CAPACITY)
        self.slots: array[int] = column(_FIRST_CAPACITY)

    def reserve(self, keys: int, slots: int) -> None:
        """Make room for keys and slots with lower numbers than these."""
        if keys > len(self.root_of):
            self.root_of = lengthened(self.root_of, keys, _NONE)
        if slots > len(self.start):
            self.start = lengthened(self.start, slots)
            self.left = lengthened(self.left, slots, _NONE)
            self.right = lengthened(self.right, slots, _NONE)
            self.above = lengthened(self.above, slots, _NONE)

    def last_before(self, key: int, time: int) -> int:
        """Return the last slot of a key that starts before a time; −1 if there is none."""
        slot, latest = self.root_of[key], _NONE
        while slot >= 0:
            if self.start[slot] < time:
                latest, slot = slot, self.right[slot]
            else:
                slot = self.left[slot]
        return latest

    def first_from(self, key: int, time: int) -> int:
        """Return the first slot of a key that does not start before a time; −1 if there is none."""
        slot, earliest = self.root_of[key], _NONE
        while slot >= 0:
            if self.start[slot] < time:
                slot = self.right[slot]
            else:
                earliest, slot = slot, self.left[slot]
        return earliest

    def next_after(self, slot: int) -> int:
        """Return the slot behind another one in its tree; −1 if there is none."""
        below = self.right[slot]
        if below >= 0:
            while self.left[below] >= 0:
                below = self.left[below]
            return below
        above = self.above[slot]
        while above >= 0 and self.right[above] == slot:
            slot, above = above, self.above[above]
        return above

    # Many at once --------------------------------------------------------------------------------------------------

    def join(
        self,
        count: int,
        keys: array[int],
        slots: array[int],
        starts: array[int],
        others: array[int],
        firsts: array[int],
        lasts: array[int],
    ) -> int:
        """Insert slots one after the other, and find for each the slots of another key that are within its bounds then.

        The row of each and the slots that were found are in `rows` and `slots` afterwards, in order.

        Args:
            count: the number of rows; the other arguments have an item for each.
            keys: the key in whose tree to insert.
            slots: what to insert.
            starts: its start.
            others: the key in whose tree to look.
            firsts: the least start there.
            lasts: the greatest start there, included.

        Returns:
            the number of slots that were found.
        """
        pairs = 0
        for row in range(count):
            last = lasts[row]
            slot = self.first_from(others[row], firsts[row])
            while slot >= 0 and self.start[slot] <= last:
                self.note(pairs, row, slot)
                pairs += 1
                slot = self.next_after(slot)
            self.insert(keys[row], slots[row], starts[row])
        return pairs

    def walk(self, count: int, keys: array[int]) -> int:
        """Find all slots of some keys: `rows` and `slots` have the index of each key and its slots, in order.

        Returns:
            the number of slots.
        """
        pairs = 0
        for row in range(count):
            slot = self.root_of[keys[row]]
            if slot >= 0:
                while self.left[slot] >= 0:
                    slot = self.left[slot]
            while slot >= 0:
                self.note(pairs, row, slot)
                pairs += 1
                slot = self.next_after(slot)
        return pairs

    def remove_all(self, count: int, keys: array[int], slots: array[int]) -> None:
        """Remove slots from the trees of their keys."""
        for row in range(count):
            self.remove(keys[row], slots[row])

    def note(self, index: int, row: int, slot: int) -> None:
        """Note a slot that was found."""
        if index == len(self.rows):
            self.rows = lengthened(self.rows, 2 * index)
            self.slots = lengthened(self.slots, 2 * index)
        self.rows[index] = row
        self.slots[index] = slot

    # One slot ------------------------------------------------------------------------------------------------------

    def insert(self, key: int, slot: int, start: int) -> None:
        """Add a slot to the tree of a key, which is created if there is none."""
        above, other = _NONE, self.root_of[key]
        while other >= 0:
            above = other
            other = self.left[other] if start < self.start[other] else self.right[other]
        self.start[slot] = start
        self.left[slot] = self.right[slot] = _NONE
        self.above[slot] = above
        if above < 0:
            self.root_of[key] = slot
        elif start < self.start[above]:
            self.left[above] = slot
        else:
            self.right[above] = slot
        while self.above[slot] >= 0 and self.priority(self.above[slot]) < self.priority(slot):
            self.lift(key, slot)

    def remove(self, key: int, slot: int) -> None:
        """Remove a slot from the tree of its key."""
        while self.left[slot] >= 0 and self.right[slot] >= 0:
            left, right = self.left[slot], self.right[slot]
            self.lift(key, left if self.priority(left) > self.priority(right) else right)
        self.replace(key, slot, self.left[slot] if self.left[slot] >= 0 else self.right[slot])

    def lift(self, key: int, slot: int) -> None:
        """Rotate a slot above the one that it is below."""
        above = self.above[slot]
        if self.left[above] == slot:
            inner = self.right[slot]
            self.left[above] = inner
            self.right[slot] = above
        else:
            inner = self.left[slot]
            self.right[above] = inner
            self.left[slot] = above
        if inner >= 0:
            self.above[inner] = above
        self.replace(key, above, slot)
        self.above[above] = slot

    def replace(self, key: int, slot: int, other: int) -> None:
        """Hang another slot, or none, where a slot hangs in its tree."""
        above = self.above[slot]
        if other >= 0:
            self.above[other] = above
        if above < 0:
            self.root_of[key] = other
        elif self.left[above] == slot:
            self.left[above] = other
        else:
            self.right[above] = other

    def priority(self, slot: int) -> int:
        """Return the priority of a slot, a hash without a sign."""
        mixed = (slot + 1) * 2654435769
        mixed ^= mixed >> 16
        mixed *= 73244475
        mixed ^= mixed >> 15
        return mixed & 0xFFFFFFFF
