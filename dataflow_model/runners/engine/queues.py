"""A queue of deadlines that move: each place has one at most, and the earliest is found fast."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeAlias, TypeVar

__all__ = ["DeadlineQueue"]

PlaceT = TypeVar("PlaceT", bound=Hashable)
_Entry: TypeAlias = list[Any]
"""Deadline, number (so that places are never compared), place, and whether it still holds."""
_FEW: Final = 64
"""So many stale entries are never worth a new heap."""


class DeadlineQueue(Generic[PlaceT]):
    """A heap in which entries that no longer hold are skipped when they reach the top.

    Entries are made anew for each key that is read back from its stored state, so stale ones may never reach the top
    while a watermark stands still. The heap is rebuilt once most of it is stale, which keeps a change at O(log n).

    Example:
        >>> queue = DeadlineQueue()
        >>> queue.set("a", 5); queue.set("b", 3); queue.set("b", 7)
        >>> queue.first()
        5
        >>> queue.take(6), queue.first()
        (['a'], 7)
    """

    def __init__(self) -> None:
        self._entries: dict[PlaceT, _Entry] = {}
        self._heap: list[_Entry] = []
        self._numbers = itertools.count()

    def set(self, place: PlaceT, when: int | None) -> None:
        """Set a place's deadline; `None` takes it away."""
        if when is None and not self._entries:  # few pipelines set timers on the clock, or hold the watermark
            return
        entry = self._entries.get(place)
        if entry is not None:
            if entry[0] == when:
                return
            entry[3] = False
        if when is None:
            self._entries.pop(place, None)
        else:
            entry = self._entries[place] = [when, next(self._numbers), place, True]
            heapq.heappush(self._heap, entry)
            if len(self._heap) > _FEW + 2 * len(self._entries):
                self._heap = list(self._entries.values())
                heapq.heapify(self._heap)

    def first(self) -> int | None:
        """Return the earliest deadline."""
        heap = self._heap
        while heap and not heap[0][3]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take(self, until: int) -> list[PlaceT]:
        """Remove the places that are due at `until` or before, and return them, earliest first."""
        heap = self._heap
        taken: list[PlaceT] = []
        while heap and heap[0][0] <= until:
            _, _, place, holds = heapq.heappop(heap)
            if holds:
                del self._entries[place]
                taken.append(place)
        return taken
