"""A map from bytes to bytes without a Python object for each key, for millions of keys that are looked up at random."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core.columns import column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_FIRST_CAPACITY: Final = 16
_NONE: Final = -1
_WIDTH: Final = 4
_BEGIN: Final = 1
_KEY: Final = 2
_ENTRY: Final = 3
_SEGMENT: Final = 1 << 18
_MOST: Final = _SEGMENT // 4
_POSITIVE: Final = (1 << 63) - 1
_LINE: Final = 64
_AT_ONCE: Final = 64


class ByteTable:
    """Entries by key, in an index with open addressing, and in one stretch of bytes that is divided into segments.

    A row of the index has the hash of a key, −1 in a free row, where its record begins, and the lengths of the key and
    of the entry. A record is the key and its entry, side by side; it is not empty. An entry is overwritten if the
    new one is as long; otherwise it is added to the last segment. Once a third of the segments is outdated, `put` moves
    the current records out of the segments that have the fewest, so that it writes little more than its input. Entries
    that would leave much of a segment unused are kept as objects.

    Attributes:
        bytes: the total length of the entries.
        reserved: the total length of the segments in use.

    Example:
        >>> table = ByteTable()
        >>> table.put({b"a": b"1", b"b": b"23"})
        >>> table.peek(b"b"), table.pop(b"a"), list(table), table.bytes
        (b'23', b'1', [b'b'], 2)
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.reserved = 0
        self.count = 0
        """The number of rows that are not free."""
        self.large: dict[bytes, bytes] = {}
        """The entries that are kept as objects."""
        self.needed = 0
        """The total length of the records."""
        self.capacity = _FIRST_CAPACITY
        self.index: array[int] = column(_WIDTH * self.capacity, _NONE)
        self.memory = bytearray()
        self.data: Any = memoryview(self.memory)
        self.hashes: list[array[int]] = []
        """The hashes of the keys of all records that each segment has had."""
        self.live: list[int] = []
        """The total length of the records that begin in each segment and are not outdated."""
        self.free: list[int] = []
        self.current = 0
        self.used = _SEGMENT
        """Up to where the current segment is written; at first there is none."""
        self.seen = 0

    def __len__(self) -> int:
        return self.count + len(self.large)

    def __contains__(self, encoded: bytes) -> bool:
        row = self.find(encoded)
        return self.index[row] >= 0 or encoded in self.large

    def __iter__(self) -> Iterator[bytes]:
        rows = [row for row in range(0, _WIDTH * self.capacity, _WIDTH) if self.index[row] >= 0]
        return iter([*self.copies(rows, _KEY), *self.large])

    # Reading ---------------------------------------------------------------------------------------------------------

    def peek(self, encoded: bytes) -> bytes | None:
        """Return an entry; `None` if there is none."""
        row = self.find(encoded)
        return self.copies([row], _ENTRY)[0] if self.index[row] >= 0 else self.large.get(encoded)

    def joined(self, keys: Iterable[bytes]) -> tuple[list[bytes], bytes, array[int]]:
        """Return the given keys that have an entry, their entries side by side, and where each entry ends."""
        wanted = list(keys)
        known: list[bytes] = []
        parts: list[bytearray | bytes] = []
        ends = column(len(wanted))
        count, end = 0, 0
        for first in range(0, len(wanted), _AT_ONCE):
            self.fetch(wanted, first)
            rows: list[int] = []
            for index in range(first, min(first + _AT_ONCE, len(wanted))):
                row = self.find(wanted[index])
                if self.index[row] >= 0:
                    known.append(wanted[index])
                    rows.append(row)
                    end += self.index[row + _ENTRY]
                    ends[count] = end
                    count += 1
            parts.append(self.copied(rows, _ENTRY))
        for encoded in wanted if self.large else ():
            if encoded in self.large:
                known.append(encoded)
                parts.append(self.large[encoded])
                end += len(self.large[encoded])
                ends[count] = end
                count += 1
        return known, b"".join(parts), ends[:count]

    def fetch(self, keys: list[bytes], first: int) -> None:
        """Read the memory that the next lookups need, so that many cache misses overlap."""
        seen = 0
        last = min(first + _AT_ONCE, len(keys))
        for index in range(first, last):
            seen += self.index[self.bucket(hash(keys[index]))]
        for index in range(first, last):
            row = self.bucket(hash(keys[index]))
            if self.index[row] >= 0:
                begin = self.index[row + _BEGIN]
                for at in range(begin, begin + self.index[row + _KEY] + self.index[row + _ENTRY], _LINE):
                    seen += self.data[at]
        self.seen = seen

    def bucket(self, hashed: int) -> int:
        """Return the row of the index where a hash is looked up first."""
        return (hashed & (self.capacity - 1)) * _WIDTH

    def after(self, row: int) -> int:
        """Return the next row."""
        return (row + _WIDTH) & (_WIDTH * self.capacity - 1)

    def find(self, encoded: bytes) -> int:
        """Return the row of a key, or the free row for it."""
        hashed = hash(encoded) & _POSITIVE
        row = self.bucket(hashed)
        while self.index[row] >= 0 and not (self.index[row] == hashed and self.is_key(row, encoded)):
            row = self.after(row)
        return row

    def is_key(self, row: int, encoded: bytes) -> bool:
        """Return whether a row is that of a key."""
        source = encoded
        begin = self.index[row + _BEGIN]
        if self.index[row + _KEY] != len(encoded):
            return False
        for at in range(self.index[row + _KEY]):
            if self.data[begin + at] != source[at]:
                return False
        return True

    def copies(self, rows: list[int], part: int) -> list[bytes]:
        """Return the keys of rows, or their entries; `part` is the column of the index with their length."""
        copied = bytes(self.copied(rows, part))
        copies: list[bytes] = []
        begin = 0
        for row in rows:
            end = begin + self.index[row + part]
            copies.append(copied[begin:end])
            begin = end
        return copies

    def copied(self, rows: list[int], part: int) -> bytearray:
        """Return the keys of rows, or their entries, side by side; see `copies`."""
        total = 0
        for row in rows:
            total += self.index[row + part]
        target = bytearray(total)
        data, copied = self.data, memoryview(target)
        to = 0
        for row in rows:
            begin = self.index[row + _BEGIN] + (self.index[row + _KEY] if part == _ENTRY else 0)
            length = self.index[row + part]
            for at in range(length):
                copied[to + at] = data[begin + at]
            to += length
        return target

    # Writing ---------------------------------------------------------------------------------------------------------

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Set several entries."""
        keys = list(entries)
        for index, (encoded, entry) in enumerate(entries.items()):
            if index % _AT_ONCE == 0:
                self.fetch(keys, index)
            is_large = len(encoded) + len(entry) > _MOST
            if is_large or encoded in self.large:
                self.pop(encoded)
            if is_large:
                self.large[encoded] = entry
                self.bytes += len(entry)
            else:
                self.put_one(encoded, entry)
        while self.reserved - self.needed > self.needed // 2 + 2 * _SEGMENT:
            self.clean()

    def put_one(self, encoded: bytes, entry: bytes) -> None:
        """Set one entry that is not kept as an object, and was not before."""
        row = self.find(encoded)
        length, size = len(encoded), len(entry)
        if self.index[row] < 0:
            row = self.add(encoded)
        else:
            before = self.index[row + _ENTRY]
            self.bytes -= before
            if before != size:
                self.discard(self.index[row + _BEGIN], length + before)
        if self.index[row + _ENTRY] != size:
            self.index[row + _ENTRY] = size
            self.index[row + _BEGIN] = self.reserve(self.index[row], length + size)
            self.write(self.index[row + _BEGIN], encoded, length)
        self.write(self.index[row + _BEGIN] + length, entry, size)
        self.bytes += size

    def write(self, begin: int, source: bytes, length: int) -> None:
        """Overwrite some bytes."""
        data = self.data
        for at in range(length):
            data[begin + at] = source[at]

    def pop(self, encoded: bytes) -> bytes | None:
        """Remove a key and return its entry; `None` if there is none."""
        row = self.find(encoded)
        if self.index[row] < 0:
            large = self.large.pop(encoded, None)
            self.bytes -= len(large or b"")
            return large
        entry = self.copies([row], _ENTRY)[0]
        self.bytes -= len(entry)
        self.count -= 1
        self.discard(self.index[row + _BEGIN], len(encoded) + len(entry))
        self.close(row)
        return entry

    def add(self, encoded: bytes) -> int:
        """Return the row of a new key, without a record."""
        if 3 * self.count >= 2 * self.capacity:
            self.grow()
        row = self.find(encoded)
        self.count += 1
        self.index[row] = hash(encoded) & _POSITIVE
        self.index[row + _KEY] = len(encoded)
        self.index[row + _ENTRY] = _NONE
        return row

    def grow(self) -> None:
        """Double the number of rows."""
        before = self.index
        length = _WIDTH * self.capacity
        self.capacity *= 2
        self.index = column(2 * length, _NONE)
        for other in range(0, length, _WIDTH):
            if before[other] >= 0:
                row = self.bucket(before[other])
                while self.index[row] >= 0:
                    row = self.after(row)
                for at in range(_WIDTH):
                    self.index[row + at] = before[other + at]

    def close(self, free: int) -> None:
        """Free a row, and move those behind it that it kept from their buckets."""
        mask = _WIDTH * self.capacity - 1
        row = free
        while True:
            row = self.after(row)
            if self.index[row] < 0:
                break
            bucket = self.bucket(self.index[row])
            if (row - bucket) & mask >= (row - free) & mask:
                for at in range(_WIDTH):
                    self.index[free + at] = self.index[row + at]
                free = row
        self.index[free] = _NONE

    # Segments --------------------------------------------------------------------------------------------------------

    def reserve(self, hashed: int, size: int) -> int:
        """Return where the record of a key with this hash begins; it is the last one of the current segment."""
        if self.used + size > _SEGMENT:
            self.open()
        begin = self.current * _SEGMENT + self.used
        self.hashes[self.current].append(hashed)
        self.live[self.current] += size
        self.used += size
        self.needed += size
        return begin

    def open(self) -> None:
        """Begin a segment."""
        self.reserved += _SEGMENT
        self.used = 0
        if self.free:
            self.current = self.free.pop()
            return
        self.current = len(self.live)
        self.live.append(0)
        self.hashes.append(array("q"))
        self.data = None  # memory that is viewed cannot become longer
        self.memory += bytes(_SEGMENT)
        self.data = memoryview(self.memory)

    def discard(self, begin: int, size: int) -> None:
        """Record that a record is outdated, and release its segment if it was the last one there."""
        number = begin // _SEGMENT
        self.live[number] -= size
        self.needed -= size
        if self.live[number] == 0:
            self.reserved -= _SEGMENT
            self.hashes[number] = array("q")
            self.free.append(number)
            if number == self.current:
                self.used = _SEGMENT

    def clean(self) -> None:
        """Move the records of the segment with the fewest to the current one."""
        number = self.emptiest()
        for hashed in self.hashes[number]:
            row = self.bucket(hashed)
            while self.index[row] >= 0:
                if self.index[row] == hashed and self.index[row + _BEGIN] // _SEGMENT == number:
                    self.move(row)
                row = self.after(row)

    def emptiest(self) -> int:
        """Return the segment with the fewest bytes that are not outdated; neither the current one nor a free one."""
        number, least = _NONE, self.needed + 1
        for other in range(len(self.live)):
            live = self.live[other]
            if 0 < live < least and other != self.current:
                number, least = other, live
        return number

    def move(self, row: int) -> None:
        """Move the record of a row to the current segment."""
        begin, size = self.index[row + _BEGIN], self.index[row + _KEY] + self.index[row + _ENTRY]
        to = self.index[row + _BEGIN] = self.reserve(self.index[row], size)
        data = self.data
        for at in range(size):
            data[to + at] = data[begin + at]
        self.discard(begin, size)
