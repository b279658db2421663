"""Sets of ids as bytes, which are searched in their stored form, without an object for each id."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Final, Self

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_HASH: Final = np.dtype("<u8")
_END: Final = np.dtype("<u4")
_COUNT_BYTES: Final = 8


def hash_of(encoded: bytes) -> int:
    """Return the 64-bit hash of an id, which is the same in every process and independent of its shard hash.

    Example:
        >>> hash_of(b"s1")
        6064584127301525897
    """
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")


def hashes_of(ids: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return the hashes of several ids."""
    blake2b = hashlib.blake2b
    return np.frombuffer(b"".join([blake2b(record_id, digest_size=8).digest() for record_id in ids]), _HASH)


@attrs.frozen(eq=False)
class Segment:
    """A set of ids, sorted by hash; `packed` contains everything, and the arrays are views of it.

    Attributes:
        packed: the count, the hashes, the ends, and the ids.
        hashes: the hashes, in ascending order.
        ends: the end position of each id among the bytes of the ids.

    Example:
        >>> segment = Segment.of([b"s1", b"s2"])
        >>> asked = [b"s2", b"s3"]
        >>> Segment.read(segment.packed).finds(asked, hashes_of(asked), np.arange(2)).tolist()
        [True, False]
    """

    packed: bytes
    hashes: NDArray[np.uint64]
    ends: NDArray[np.uint32]
    _start: int

    def __len__(self) -> int:
        return len(self.hashes)

    def __iter__(self) -> Iterator[bytes]:
        ends = (self.ends.astype(np.int64) + self._start).tolist()
        return (self.packed[start:end] for start, end in itertools.pairwise([self._start, *ends]))

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> Self:
        """Return the set of some distinct ids, of less than 4 GB in total."""
        return cls._sorted(list(ids), hashes_of(ids))

    @classmethod
    def merged(cls, segments: Iterable[Segment]) -> Self:
        """Return the union of several disjoint sets."""
        parts = list(segments)
        return cls._sorted(
            [record_id for segment in parts for record_id in segment], np.concatenate([part.hashes for part in parts])
        )

    @classmethod
    def read(cls, packed: bytes) -> Self:
        """Return the set in its packed form."""
        count = int.from_bytes(packed[:_COUNT_BYTES], "little")
        hashes = np.frombuffer(packed, _HASH, count, _COUNT_BYTES)
        ends = np.frombuffer(packed, _END, count, _COUNT_BYTES + hashes.nbytes)
        return cls(packed, hashes, ends, _COUNT_BYTES + hashes.nbytes + ends.nbytes)

    @classmethod
    def _sorted(cls, ids: list[bytes], hashes: NDArray[np.uint64]) -> Self:
        order = np.argsort(hashes, kind="stable")
        ids = [ids[index] for index in order.tolist()]
        ends = np.cumsum([len(record_id) for record_id in ids], dtype=np.int64).astype(_END)
        count = len(ids).to_bytes(_COUNT_BYTES, "little")
        return cls.read(b"".join([count, hashes[order].astype(_HASH).tobytes(), ends.tobytes(), *ids]))

    def finds(self, ids: Sequence[bytes], hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether some ids are in the set.

        Args:
            ids: the encoded ids.
            hashes: their hashes.
            rows: the indices of the ids to look up.
        """
        matches = np.zeros(len(rows), np.bool_)
        if not len(self):
            return matches
        row_hashes = hashes[rows]
        indices = np.searchsorted(self.hashes, row_hashes)
        indices[indices == len(self)] = 0
        for at in np.flatnonzero(self.hashes[indices] == row_hashes).tolist():
            matches[at] = self._is_at(int(indices[at]), ids[int(rows[at])])
        return matches

    def _is_at(self, index: int, encoded: bytes) -> bool:
        """Return whether an id is at an index, or after it with the same hash."""
        hashed = self.hashes[index]
        while index < len(self) and self.hashes[index] == hashed:
            start = self._start + (int(self.ends[index - 1]) if index else 0)
            if self.packed[start : self._start + int(self.ends[index])] == encoded:
                return True
            index += 1
        return False
