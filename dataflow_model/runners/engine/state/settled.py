"""Keys whose state is kept as bytes, with their total size; beyond a bound they are on disk."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import weakref
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ENTRY_BYTES: Final = 250
"""The approximate memory of an entry besides its bytes: objects, their headers, and its entry in a table."""
_PAGES_SHARE: Final = 8
"""SQLite may use this part of the bound for pages, up to `_MOST_PAGES`."""
_MOST_PAGES: Final = 2 << 20


class SettledKeys(MutableMapping[bytes, bytes]):
    """Stored keys by encoded key, which track their total size, since computing it would visit every key.

    After `bound`, `spill` moves the entries that were used least recently to a temporary file until the others fit into
    memory. An entry is moved back when it is read or replaced. The file is deleted with this object, and its content
    does not survive the process, so it is never read by another one.

    Attributes:
        bytes: the total size of the entries in memory and on disk, in bytes.
        held_bytes: after `bound`, the approximate memory of the entries that are in memory, in bytes.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.held_bytes = 0
        self._held: dict[bytes, bytes] = {}
        self._spilled: _Spilled | None = None
        self._most = 0

    def bound(self, most: int) -> None:
        """Set the number of bytes that entries may take in memory after `spill`; there are no entries yet."""
        assert not self._held, "entries that are there already have not been counted"  # noqa: S101
        pages = min(most // _PAGES_SHARE, _MOST_PAGES)
        self._most = most - pages
        self._spilled = _Spilled(pages)

    def spill(self) -> None:
        """Move entries to disk if those in memory take more bytes than they may."""
        if self._spilled is None or self.held_bytes <= self._most:
            return
        moved: dict[bytes, bytes] = {}
        for encoded, entry in self._held.items():
            if self.held_bytes <= self._most:
                break
            moved[encoded] = entry
            self.held_bytes -= _size(encoded, entry)
        for encoded in moved:
            del self._held[encoded]
        self._spilled.put(moved.items())

    def peek(self, encoded: bytes) -> bytes | None:
        """Return an entry without moving it into memory; `None` if there is none."""
        entry = self._held.get(encoded)
        return self._spilled.get(encoded) if entry is None and self._spilled is not None else entry

    def __getitem__(self, encoded: bytes) -> bytes:
        if self._spilled is None:
            return self._held[encoded]
        entry: bytes | None = self._held.pop(encoded, None)
        if entry is None:
            entry = self._spilled.pop(encoded)
            if entry is None:
                raise KeyError(encoded)
            self.held_bytes += _size(encoded, entry)
        self._held[encoded] = entry  # the last, since it was used last
        return entry

    def __setitem__(self, encoded: bytes, entry: bytes) -> None:
        if self._spilled is None:
            before = self._held.get(encoded)
            self.bytes += len(entry) - (0 if before is None else len(before))
        else:
            self.pop(encoded, None)
            self.bytes += len(entry)
            self.held_bytes += _size(encoded, entry)
        self._held[encoded] = entry

    def joined(self, keys: Iterable[bytes]) -> tuple[list[bytes], bytes, list[int]]:
        """Return the given keys that have an entry, their entries side by side, and where each entry ends."""
        entries = {encoded: entry for encoded in keys if (entry := self.get(encoded)) is not None}
        return list(entries), b"".join(entries.values()), list(itertools.accumulate(map(len, entries.values())))

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Set several entries."""
        self.update(entries)

    def __delitem__(self, encoded: bytes) -> None:
        if self.pop(encoded) is None:
            raise KeyError(encoded)

    def pop(self, encoded: bytes, default: Any = None) -> bytes | Any:
        """Remove a key and return its entry, or the default."""
        entry = self._held.pop(encoded, None)
        if self._spilled is not None:
            if entry is None:
                entry = self._spilled.pop(encoded)
            else:
                self.held_bytes -= _size(encoded, entry)
        if entry is None:
            return default
        self.bytes -= len(entry)
        return entry

    def __contains__(self, encoded: object) -> bool:
        return encoded in self._held or (self._spilled is not None and encoded in self._spilled)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._held
        if self._spilled is not None:
            yield from self._spilled.keys()

    def __len__(self) -> int:
        return len(self._held) + (0 if self._spilled is None else self._spilled.count)


def _size(encoded: bytes, entry: bytes) -> int:
    return _ENTRY_BYTES + len(encoded) + len(entry)


class _Spilled:
    """Entries in a temporary file.

    It is a private database of SQLite, which creates the file only when its pages no longer fit, and deletes it.

    Args:
        pages: the bytes of memory for pages.

    Attributes:
        count: the number of entries.
    """

    def __init__(self, pages: int) -> None:
        self.count = 0
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "PRAGMA temp_store = FILE",
            f"PRAGMA cache_size = -{max(pages >> 10, 1)}",
            "CREATE TABLE entries (encoded BLOB PRIMARY KEY, entry BLOB)",
            "BEGIN",  # and no COMMIT: nothing has to survive
        ):
            self._database.execute(statement)

    def put(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Add entries."""
        rows = list(entries)
        with _explained():
            self._database.executemany("INSERT INTO entries VALUES (?, ?)", rows)
        self.count += len(rows)

    def get(self, encoded: bytes) -> bytes | None:
        """Return an entry; `None` if there is none."""
        rows = self._execute("SELECT entry FROM entries WHERE encoded = ?", encoded)
        return rows[0][0] if rows else None

    def pop(self, encoded: bytes) -> bytes | None:
        """Remove an entry and return it; `None` if there is none."""
        entry = self.get(encoded) if self.count else None
        if entry is not None:
            self._execute("DELETE FROM entries WHERE encoded = ?", encoded)
            self.count -= 1
        return entry

    def keys(self) -> list[bytes]:
        """Return the keys."""
        return [encoded for (encoded,) in self._execute("SELECT encoded FROM entries")]

    def __contains__(self, encoded: object) -> bool:
        return bool(self.count and self._execute("SELECT 1 FROM entries WHERE encoded = ?", encoded))

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with _explained():
            return self._database.execute(statement, values).fetchall()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise SQLite's errors as errors of this package; reading may write changed pages too."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SinkError(
            f"the temporary file of state beyond `max_state_memory` cannot be used: {error}",
            hint="free space in the directory for temporary files, or name another one in SQLITE_TMPDIR, "
            "and start the run again: it resumes where it stopped",
        ) from error
