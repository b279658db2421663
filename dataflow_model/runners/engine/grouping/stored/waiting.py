"""The deadlines of stored keys that are not in columns."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from dataflow_model.runners.engine.state.key_store import dues_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class WaitingKeys:
    """The keys that wait for each deadline, on each line.

    Many keys wait for the same deadline, such as the end of a window, so each deadline is in a heap once, with its
    keys. Keys that were loaded or have changed stay there until their deadline is the next one, and adding them again
    changes nothing.

    Args:
        lines: the number of lines.
        current: returns the head of a stored key that is not in columns, see `StoredKey`; `b""` for other keys.

    Example:
        >>> from dataflow_model.runners.engine.state.key_store import StoredKey
        >>> heads = {b"a": StoredKey(b"", (7,), None).packed(), b"b": StoredKey(b"", (5,), 3).packed()}
        >>> waiting = WaitingKeys(2, heads.__getitem__)
        >>> waiting.add(heads.items())
        >>> waiting.first(0), waiting.first(1), waiting.take(0, until=7), waiting.first(0)
        (5, 3, [b'b', b'a'], None)
    """

    def __init__(self, lines: int, current: Callable[[bytes], bytes]) -> None:
        self._lines = [_Line() for _ in range(lines)]
        self._current = current

    def size(self) -> int:
        """Return the largest number of entries on a line, including outdated ones."""
        return max(line.size for line in self._lines)

    def clear(self) -> None:
        """Remove all keys."""
        self._lines = [_Line() for _ in self._lines]

    def add(self, keys: Iterable[tuple[bytes, bytes]]) -> None:
        """Add keys with their heads."""
        keys_by_head: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for encoded, head in keys:
            keys_by_head[head].append(encoded)
        for head, encoded_keys in keys_by_head.items():
            for line, due in zip(self._lines, dues_of(head), strict=True):
                if due is not None:
                    line.add(due, encoded_keys)

    def first(self, line: int) -> int | None:
        """Return the earliest deadline on a line."""
        of_line = self._lines[line]
        while of_line.heap:
            due, encoded = of_line.pop()
            if self._is_current(line, due, encoded):
                of_line.add(due, [encoded])
                return due
        return None

    def take(self, line: int, until: int) -> list[bytes]:
        """Remove and return the keys that are due on a line at `until` or before."""
        of_line = self._lines[line]
        taken: list[tuple[int, bytes]] = []
        while of_line.heap and of_line.heap[0] <= until:
            due, encoded = of_line.pop()
            if self._is_current(line, due, encoded):
                taken.append((due, encoded))
        return [encoded for _, encoded in sorted(taken)]

    def _is_current(self, line: int, due: int, encoded: bytes) -> bool:
        head = self._current(encoded)
        return head != b"" and dues_of(head)[line] == due


class _Line:
    """The deadlines on one line.

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
