"""The keys of one node on one shard: their state, which is decoded when it is used, and their deadlines."""

from __future__ import annotations

import abc
import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

import attrs

from dataflow_model.runners.engine.state.queues import Deadlines, Dues
from dataflow_model.runners.engine.state.settled import SettledKeys
from dataflow_model.values import Window
from dataflow_model.values.keys import shown_key
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

KEPT_DECODED: Final = 1_000
"""The maximum number of settled keys that are kept decoded too: those used last, which are likely to be used next."""
EVENT_TIME, CLOCK = range(2)
"""The time domains of the deadlines of every node: the low watermark and the processing clock."""
_Cell: TypeAlias = tuple[bytes, Window | None]
"""A key and one of its windows; a settled key has an entry without a window."""
KeyT = TypeVar("KeyT")


@attrs.define  # not frozen, which would triple the cost of making one
class StoredKey:
    """What a runner keeps of one key: the pickled state, and when the key is next due.

    It is kept as bytes, since there may be millions of keys: Python's garbage collector does not visit bytes, nor dicts
    of them. They begin with a head: a byte with the number of deadlines, a byte for each that tells whether it is set,
    and 8 bytes for each, the hold last. The state follows.

    Example:
        >>> StoredKey.unpacked(StoredKey(b"state", (5, None), 3).packed())
        StoredKey(state=b'state', dues=(5, None), hold=3)
    """

    state: bytes
    dues: Dues
    hold: int | None

    def packed(self) -> bytes:
        """Return the bytes that are kept."""
        dues = *self.dues, self.hold
        are_set = [due is not None for due in dues]
        return _head(len(dues)).pack(len(dues), *are_set, *(due or 0 for due in dues)) + self.state

    @classmethod
    def unpacked(cls, stored: bytes) -> Self:
        """Return what `packed` has packed."""
        begin = head_bytes(stored[0])
        *dues, hold = dues_of(stored[:begin])
        return cls(stored[begin:], tuple(dues), hold)

    @classmethod
    def of(cls, state: bytes, dues: Sequence[Dues]) -> StoredKey:
        """Return what is kept of a key; `dues` are those of its windows, each with its hold at the end."""
        *least, hold = dues[0] if len(dues) == 1 else map(earliest, zip(*dues, strict=True))
        return cls(state, tuple(least), hold)


def head_bytes(dues: int) -> int:
    """Return the number of bytes before the state of a stored key that has this many deadlines, its hold included."""
    return _head(dues).size


@functools.lru_cache(maxsize=1_000)  # many keys have the same deadlines
def dues_of(head: bytes) -> Dues:
    """Return the deadlines of a stored key, its hold last.

    Args:
        head: the bytes before its state.
    """
    count, *parts = _head(head[0]).unpack(head)
    return tuple(due if is_set else None for is_set, due in zip(parts[:count], parts[count:], strict=True))


@functools.cache
def _head(dues: int) -> struct.Struct:
    return struct.Struct(f"<B{dues}?{dues}q")


class KeyStore(abc.ABC, Generic[KeyT]):
    """Keys in memory, settled keys as bytes, and the deadlines of both.

    After a change of a window's state, call `mark`; the deadlines are updated when they are next needed.

    Args:
        domains: the number of clocks with deadlines; the holds of the watermark come after them.

    Attributes:
        keys: the keys in memory, by encoded key.
        touched: the keys whose state has changed since it was last taken.
    """

    def __init__(self, domains: int) -> None:
        self.keys: dict[bytes, KeyT] = {}
        self.touched: set[bytes] = set()
        self._settled = SettledKeys()
        self._kept_decoded = KEPT_DECODED
        self._decoded: dict[bytes, KeyT] = {}
        """Settled keys that are also kept decoded; each of their windows keeps its deadlines."""
        self._stale: set[tuple[bytes, Window]] = set()
        self._domains = domains
        self._deadlines: Deadlines[_Cell] = Deadlines(domains + 1)

    # The state of a key --------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _new(self, key: Any) -> KeyT:
        """Return the initial state of a key."""

    @abc.abstractmethod
    def _windows(self, state: KeyT) -> Collection[Window]:
        """Return the windows of a key; a key without windows has no state."""

    @abc.abstractmethod
    def _dues(self, state: KeyT, window: Window) -> Dues | None:
        """Return a window's next deadline in each time domain, followed by its hold of the watermark.

        `None` if the window has no state.
        """

    def _loaded(self, state: bytes) -> KeyT:
        """Return the state of a settled key from its bytes."""
        loaded: KeyT = load(state)
        return loaded

    # Keys ----------------------------------------------------------------------------------------------------------

    def open(self, encoded: bytes, key: Any = None) -> KeyT:
        """Return a key's state, which is decoded if it was settled, or new if there is none."""
        state = self.keys.get(encoded)
        if state is None:
            settled = self._settled.pop(encoded, None)
            if settled is None:
                state = self._new(shown_key(key))
            else:
                state = self._decoded.pop(encoded, None)
                if state is None:
                    state = self._loaded(StoredKey.unpacked(settled).state)
                    self._deadlines.remove((encoded, None))
                    self._stale.update([(encoded, window) for window in self._windows(state)])
            self.keys[encoded] = state
        return state

    def mark(self, encoded: bytes, window: Window) -> None:
        """Record that a window's state may have changed or been removed."""
        self._stale.add((encoded, window))
        self.touched.add(encoded)

    # Deadlines -----------------------------------------------------------------------------------------------------

    def next_dues(self) -> Dues:
        """Return the earliest deadline in each time domain."""
        self._refresh()
        return tuple(map(self._deadlines.first, range(self._domains)))

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the earliest deadline in event time, in any time domain, and on the processing clock."""
        dues = self.next_dues()
        return earliest(due for domain, due in enumerate(dues) if domain != CLOCK), dues[CLOCK]

    def is_due(self, clocks: Iterable[int]) -> bool:
        """Return whether anything is due at these clock values, or has changed since the deadlines were last updated.

        Args:
            clocks: the clock of each time domain.
        """
        if self._stale:
            return True
        first = self._deadlines.first
        return any((due := first(domain)) is not None and due <= clock for domain, clock in enumerate(clocks))

    def hold(self) -> int | None:
        """Return the earliest event time of pending output."""
        self._refresh()
        return self._deadlines.first(self._domains)

    def take_due(self, untils: Mapping[int, int]) -> list[tuple[bytes, Window, KeyT]]:
        """Remove and return the windows with a deadline in one of some time domains, at a given time or before.

        Args:
            untils: the time for each time domain.
        """
        self._refresh()
        due: dict[tuple[bytes, Window], KeyT] = {}
        for domain, until in untils.items():
            while cells := self._deadlines.take(domain, until):
                for encoded, window in cells:
                    state = self.open(encoded)  # a settled key's windows follow in the next round
                    if window is not None:
                        due[encoded, window] = state
                self._refresh()
        for encoded, window in due:
            self.mark(encoded, window)
        return [(encoded, window, state) for (encoded, window), state in due.items()]

    def _refresh(self) -> None:
        """Update the deadlines of the windows that have changed."""
        if not self._stale:
            return
        for cell in self._stale:
            encoded, window = cell
            state = self.keys.get(encoded)
            dues = None if state is None else self._dues(state, window)
            if dues is None:
                self._deadlines.remove(cell)
            else:
                self._deadlines.set(cell, dues)
            if state is not None and not self._windows(state):
                del self.keys[encoded]
        self._stale.clear()

    # Durable state -------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply changes that another worker has made durable; `None` for a key without state."""
        for encoded, entry in changes.items():
            self._forget(encoded)
            if entry is not None:
                self._settled[encoded] = entry
                self._set_dues(encoded, entry)
        self._settled.spill()

    def take_touched(self) -> dict[bytes, bytes | None]:
        """Return the changes since the last call, by encoded key; `None` for a key without state."""
        self._refresh()
        changed = {encoded: self._entry(encoded) for encoded in self.touched}
        self.touched.clear()
        return changed

    def settle(self) -> dict[bytes, bytes | None]:
        """Return the changes, and keep all state as bytes from now on; that of the last keys is kept decoded too."""
        changes = self.take_touched()
        for encoded, state in self.keys.items():
            entry = changes.get(encoded) or self._entry(encoded)
            if entry is not None:
                self._settled[encoded] = entry
                self._decoded[encoded] = state
        self.keys.clear()
        for encoded in list(itertools.islice(self._decoded, max(0, len(self._decoded) - self._kept_decoded))):
            self._remove_windows(encoded, self._decoded.pop(encoded))
            self._set_dues(encoded, self._settled[encoded])
        self._settled.spill()
        return changes

    def stored(self, encoded: bytes) -> bytes | None:
        """Return a settled key's state; `None` if there is none."""
        return self._settled.peek(encoded)

    def bound(self, most: int) -> None:
        """Keep settled keys in memory up to about this many bytes, none of them decoded, and the rest on disk.

        Deadlines stay in memory.
        """
        self._kept_decoded = 0
        self._settled.bound(most)

    def size(self) -> tuple[int, int]:
        """Return the number of keys, and the number of bytes of the settled ones."""
        return len(self.keys) + len(self._settled), self._settled.bytes

    def _set_dues(self, encoded: bytes, entry: bytes) -> None:
        """Set the deadlines of a settled key that is not kept decoded."""
        self._deadlines.set((encoded, None), dues_of(entry[: head_bytes(entry[0])]))

    def _forget(self, encoded: bytes) -> None:
        """Remove a key from memory and its deadlines."""
        self._settled.pop(encoded, None)
        for decoded in (self.keys, self._decoded):
            if encoded in decoded:
                self._remove_windows(encoded, decoded.pop(encoded))
        self._deadlines.remove((encoded, None))

    def _remove_windows(self, encoded: bytes, state: KeyT) -> None:
        """Remove the deadlines of a key's windows."""
        for window in self._windows(state):
            self._deadlines.remove((encoded, window))

    def _entry(self, encoded: bytes) -> bytes | None:
        """Return the entry to store for a key whose deadlines are up to date; `None` if it has no state."""
        state = self.keys.get(encoded)
        if state is None:
            return None
        dues = [self._deadlines.dues((encoded, window)) for window in self._windows(state)]
        return StoredKey.of(dump(state), dues).packed() if dues else None


def earliest(dues: Iterable[int | None]) -> int | None:
    """Return the earliest deadline; `None` if there is none."""
    return min((due for due in dues if due is not None), default=None)
