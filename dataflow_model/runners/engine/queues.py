"""A queue of deadlines that move: each place has one at most, and the earliest is found fast."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["DeadlineQueue"]

PlaceT = TypeVar("PlaceT", bound=Hashable)


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
        self._due: dict[PlaceT, int] = {}
        self._heap: list[tuple[int, int, PlaceT]] = []
        self._numbers = itertools.count()

    def set(self, place: PlaceT, when: int | None) -> None:
        """Set a place's deadline; `None` takes it away."""
        if when is None:
            self._due.pop(place, None)
        elif self._due.get(place) != when:
            self._due[place] = when
            heapq.heappush(self._heap, (when, next(self._numbers), place))

    def first(self) -> int | None:
        """Return the earliest deadline."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take(self, until: int) -> list[PlaceT]:
        """Remove the places that are due at `until` or before, and return them, earliest first."""
        heap, due = self._heap, self._due
        taken = []
        while heap and heap[0][0] <= until:
            when, _, place = heapq.heappop(heap)
            if due.get(place) == when:
                del due[place]
                taken.append(place)
        return taken
