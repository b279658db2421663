"""The deadlines of stored keys that are not in columns."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from dataflow_model.runners.engine.state.key_store import dues_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class WaitingKeys:
    """The keys that wait for each deadline, in each time domain.

    Many keys wait for the same deadline, such as the end of a window, so each deadline is in a heap once, with its
    keys. Keys that were loaded or have changed stay there until their deadline is the next one, and adding them again
    changes nothing.

    Args:
        domains: the number of time domains.
        current: returns the head of a stored key that is not in columns, see `StoredKey`; `b""` for other keys.

    Example:
        >>> from dataflow_model.runners.engine.state.key_store import StoredKey
        >>> heads = {b"a": StoredKey(b"", (7,), None).packed(), b"b": StoredKey(b"", (5,), 3).packed()}
        >>> waiting = WaitingKeys(2, heads.__getitem__)
        >>> waiting.add(heads.items())
        >>> waiting.first(0), waiting.first(1), waiting.take(0, until=7), waiting.first(0)
        (5, 3, [b'b', b'a'], None)
    """

    def __init__(self, domains: int, current: Callable[[bytes], bytes]) -> None:
        self._domains = [_Domain() for _ in range(domains)]
        self._current = current

    def size(self) -> int:
        """Return the largest number of entries in a time domain, including outdated ones."""
        return max(domain.size for domain in self._domains)

    def clear(self) -> None:
        """Remove all keys."""
        self._domains = [_Domain() for _ in self._domains]

    def add(self, keys: Iterable[tuple[bytes, bytes]]) -> None:
        """Add keys with their heads."""
        keys_by_head: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for encoded, head in keys:
            keys_by_head[head].append(encoded)
        for head, encoded_keys in keys_by_head.items():
            for domain, due in zip(self._domains, dues_of(head), strict=True):
                if due is not None:
                    domain.add(due, encoded_keys)

    def first(self, domain: int) -> int | None:
        """Return the earliest deadline in a time domain."""
        of_domain = self._domains[domain]
        while of_domain.heap:
            due, encoded = of_domain.pop()
            if self._is_current(domain, due, encoded):
                of_domain.add(due, [encoded])
                return due
        return None

    def take(self, domain: int, until: int) -> list[bytes]:
        """Remove and return the keys that are due in a time domain at `until` or before."""
        of_domain = self._domains[domain]
        taken: list[tuple[int, bytes]] = []
        while of_domain.heap and of_domain.heap[0] <= until:
            due, encoded = of_domain.pop()
            if self._is_current(domain, due, encoded):
                taken.append((due, encoded))
        return [encoded for _, encoded in sorted(taken)]

    def _is_current(self, domain: int, due: int, encoded: bytes) -> bool:
        head = self._current(encoded)
        return head != b"" and dues_of(head)[domain] == due


class _Domain:
    """The deadlines in one time domain.

    Attributes:
        heap: the deadlines.
        keys: the keys of each deadline: one by itself, which takes less memory, or a dict with keys only, which the
            garbage collector does not visit, as it would a set.
        size: the number of keys of all deadlines.
    """

    def __init__(self) -> None:
        self.heap: list[int] = []
        self.keys: dict[int, bytes | dict[bytes, None]] = {}
        self.size = 0

    def add(self, due: int, added: list[bytes]) -> None:
        """Add keys with a deadline, unless they are there."""
        keys = self.keys.get(due)
        if keys is None:
            heapq.heappush(self.heap, due)
            if len(added) == 1:
                self.keys[due] = added[0]
                self.size += 1
                return
            keys = self.keys[due] = {}
        elif isinstance(keys, bytes):
            keys = self.keys[due] = {keys: None}
        before = len(keys)
        keys.update(dict.fromkeys(added))
        self.size += len(keys) - before

    def pop(self) -> tuple[int, bytes]:
        """Remove a key with the earliest deadline; return both."""
        due = self.heap[0]
        keys = self.keys[due]
        encoded = keys if isinstance(keys, bytes) else keys.popitem()[0]
        if isinstance(keys, bytes) or not keys:
            heapq.heappop(self.heap)
            del self.keys[due]
        self.size -= 1
        return due, encoded
