"""Deadlines on several clocks, with fast access to the earliest on each clock."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

KeyT = TypeVar("KeyT", bound=Hashable)
Dues: TypeAlias = tuple[int | None, ...]
"""The deadline in each time domain; `None` if there is none."""
_FEW: Final = 64
"""Up to this number of outdated entries in a time domain, they are not removed."""


class WaitingKeys(Generic[KeyT]):
    """The keys that wait for each deadline, in each time domain; someone else knows which deadlines are current.

    Many keys wait for the same deadline, such as the end of a window, so each deadline is in a heap once, with its
    keys. Keys whose deadline has changed stay there until it is the next one, and adding them again changes nothing.

    Args:
        domains: the number of time domains.
        current: returns the deadlines of a key; `None` if it does not wait.

    Example:
        >>> dues = {b"a": (7, None), b"b": (7, 3), b"c": (5, None)}
        >>> waiting = WaitingKeys(2, dues.get)
        >>> for key in dues:
        ...     waiting.add(dues[key], [key])
        >>> waiting.first(0), waiting.first(1), waiting.take(0, until=7), waiting.first(0)
        (5, 3, [b'c', b'a', b'b'], None)
    """

    def __init__(self, domains: int, current: Callable[[KeyT], Dues | None]) -> None:
        self._domains: list[_Domain[KeyT]] = [_Domain() for _ in range(domains)]
        self._current = current

    def add(self, dues: Dues, keys: Sequence[KeyT]) -> None:
        """Add keys that have the same deadlines."""
        for domain, due in zip(self._domains, dues, strict=True):
            if due is not None:
                domain.add(due, keys)

    def first(self, domain: int) -> int | None:
        """Return the earliest deadline in a time domain."""
        of_domain = self._domains[domain]
        while of_domain.heap:
            due, key = of_domain.last_of_first()
            if self._is_current(domain, due, key):
                return due
            of_domain.pop(due, key)
        return None

    def take(self, domain: int, until: int) -> list[KeyT]:
        """Remove and return the keys that are due in a time domain at `until` or before.

        They are in the order of their deadlines; those with the same deadline, in the order in which they were added.
        """
        of_domain = self._domains[domain]
        taken: list[KeyT] = []
        while of_domain.heap and of_domain.heap[0] <= until:
            due, keys = of_domain.pop_all()
            taken += [key for key in keys if self._is_current(domain, due, key)]
        return taken

    def are_mostly_outdated(self, known: int) -> bool:
        """Return whether to call `refill`, which takes as long as there are keys, for this number of known keys."""
        return max(domain.size for domain in self._domains) > _FEW + 2 * known

    def refill(self, keys: Iterable[tuple[Dues, Sequence[KeyT]]]) -> None:
        """Remove all keys and add these: those with the same deadlines together."""
        self._domains = [_Domain() for _ in self._domains]
        for dues, with_dues in keys:
            self.add(dues, with_dues)

    def _is_current(self, domain: int, due: int, key: KeyT) -> bool:
        dues = self._current(key)
        return dues is not None and dues[domain] == due


class Deadlines(Generic[KeyT]):
    """Keys with deadlines that change.

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
        self._dues: dict[KeyT, Dues] = {}
        self._waiting: WaitingKeys[KeyT] = WaitingKeys(domains, self._dues.get)

    def set(self, key: KeyT, dues: Dues) -> None:
        """Set a key's deadlines."""
        if self._dues.get(key) == dues:
            return
        self._dues[key] = dues
        self._waiting.add(dues, [key])
        if self._waiting.are_mostly_outdated(len(self._dues)):
            self._waiting.refill((dues, [key]) for key, dues in self._dues.items())

    def dues(self, key: KeyT) -> Dues:
        """Return the deadlines of a known key, without those for which it was taken."""
        return self._dues[key]

    def remove(self, key: KeyT) -> None:
        """Remove a key, if it is known."""
        self._dues.pop(key, None)

    def first(self, domain: int) -> int | None:
        """Return the earliest deadline in a time domain."""
        return self._waiting.first(domain)

    def take(self, domain: int, until: int) -> list[KeyT]:
        """Return the keys that are due in a time domain at `until` or before, and remove these deadlines of theirs."""
        taken = self._waiting.take(domain, until)
        for key in taken:
            dues = self._dues[key]
            self._dues[key] = (*dues[:domain], None, *dues[domain + 1 :])
        return taken


class _Domain(Generic[KeyT]):
    """The deadlines in one time domain.

    Attributes:
        heap: the deadlines.
        keys: the keys of each deadline: one by itself, which takes less memory, or a dict with keys only, which is in
            order, and which the garbage collector does not visit if they are bytes, as it would a set.
        size: the number of keys of all deadlines.
    """

    def __init__(self) -> None:
        self.heap: list[int] = []
        self.keys: dict[int, KeyT | dict[KeyT, None]] = {}
        self.size = 0

    def add(self, due: int, added: Sequence[KeyT]) -> None:
        """Add keys with a deadline, unless they are there."""
        keys = self.keys.get(due)
        if keys is None:
            heapq.heappush(self.heap, due)
            if len(added) == 1:
                self.keys[due] = added[0]
                self.size += 1
                return
            keys = self.keys[due] = {}
        elif not isinstance(keys, dict):
            keys = self.keys[due] = {keys: None}
        before = len(keys)
        keys.update(dict.fromkeys(added))
        self.size += len(keys) - before

    def last_of_first(self) -> tuple[int, KeyT]:
        """Return the earliest deadline, and the key that was added last of those that have it."""
        due = self.heap[0]
        keys = self.keys[due]
        return due, next(reversed(keys)) if isinstance(keys, dict) else keys

    def pop(self, due: int, key: KeyT) -> None:
        """Remove a key that has the earliest deadline."""
        keys = self.keys[due]
        if isinstance(keys, dict) and len(keys) > 1:
            del keys[key]
            self.size -= 1
        else:
            self.pop_all()

    def pop_all(self) -> tuple[int, Iterable[KeyT]]:
        """Remove the earliest deadline and its keys; return them."""
        due = heapq.heappop(self.heap)
        keys = self.keys.pop(due)
        every: Iterable[KeyT] = keys if isinstance(keys, dict) else (keys,)
        self.size -= len(keys) if isinstance(keys, dict) else 1
        return due, every
