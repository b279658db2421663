"""Changing deadlines on several clocks, with fast access to the earliest on each clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeAlias, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
Dues: TypeAlias = tuple[int | None, ...]
"""The deadline in each time domain; `None` if there is none."""
_Entry: TypeAlias = list[Any]
"""Deadline, number (so that keys are never compared), key, and whether the entry is still valid."""
_FEW: Final = 64
"""Up to this number of stale entries, a heap is not rebuilt."""


class Deadlines(Generic[KeyT]):
    """A heap for each time domain, in which stale entries are skipped when they reach the top.

    Each key that is loaded from its stored state gets new entries, so stale entries may pile up while a watermark
    stands still. A heap is rebuilt once most of its entries are stale, which keeps the cost of a change at O(log n).

    Args:
        domains: the number of deadlines of each key.

    Example:
        >>> deadlines = Deadlines(2)
        >>> deadlines.set("a", (5, None)); deadlines.set("b", (3, 4)); deadlines.set("b", (7, 4))
        >>> deadlines.first(0), deadlines.first(1)
        (5, 4)
        >>> deadlines.take(0, 6), deadlines.first(0)
        (['a'], 7)
    """

    def __init__(self, domains: int) -> None:
        self._heaps: tuple[list[_Entry], ...] = tuple([] for _ in range(domains))
        self._entries: dict[KeyT, list[_Entry | None]] = {}
        self._numbers = itertools.count()

    def set(self, key: KeyT, dues: Dues) -> None:
        """Set a key's deadlines."""
        entries = self._entries.get(key)
        if entries is None:
            entries = self._entries[key] = [None] * len(self._heaps)
        for domain, due in enumerate(dues):
            entry = entries[domain]
            if entry is not None:
                if entry[0] == due:
                    continue
                entry[3] = False
            if due is None:
                entries[domain] = None
                continue
            entry = entries[domain] = [due, next(self._numbers), key, True]
            heap = self._heaps[domain]
            heapq.heappush(heap, entry)
            if len(heap) > _FEW + 2 * len(self._entries):
                heap[:] = [
                    known for entries_of_key in self._entries.values() if (known := entries_of_key[domain]) is not None
                ]
                heapq.heapify(heap)

    def dues(self, key: KeyT) -> Dues:
        """Return the deadlines of a known key."""
        return tuple([None if entry is None else entry[0] for entry in self._entries[key]])

    def remove(self, key: KeyT) -> None:
        """Remove a key, if it is known."""
        for entry in self._entries.pop(key, ()):
            if entry is not None:
                entry[3] = False

    def first(self, domain: int) -> int | None:
        """Return the earliest deadline in a time domain."""
        heap = self._heaps[domain]
        while heap and not heap[0][3]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take(self, domain: int, until: int) -> list[KeyT]:
        """Remove and return the keys that are due in a time domain at `until` or before, earliest first."""
        heap = self._heaps[domain]
        taken: list[KeyT] = []
        while heap and heap[0][0] <= until:
            _, _, key, holds = heapq.heappop(heap)
            if holds:
                self._entries[key][domain] = None
                taken.append(key)
        return taken
