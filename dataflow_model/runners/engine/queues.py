"""A queue of deadlines that move: each place has one at most, and the earliest is found fast."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Any, Generic, TypeAlias, TypeVar

__all__ = ["DeadlineQueue"]

PlaceT = TypeVar("PlaceT", bound=Hashable)
_Entry: TypeAlias = list[Any]
"""Deadline, number (so that places are never compared), place, and whether it still holds."""


class DeadlineQueue(Generic[PlaceT]):
    """A heap in which entries that no longer hold are passed over when they come up.

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
