"""A Bloom filter, which recognises most absent ids without a search of the stored ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS: Final = 10
_PROBES: Final = 7
"""With at least ten bits per hash, seven probes accept at most one absent hash in a hundred."""
_LOW: Final = (1 << 32) - 1


class BloomFilter:
    """A set of hashes that may wrongly report a hash as present, but never as absent.

    It is implemented here because the hashes are already in an array, which one call can process; libraries take one
    object per call.

    Args:
        capacity: the number of hashes for which it is sized; with more hashes there are more false positives.

    Attributes:
        capacity: the capacity.
        added: the number of hashes added, including repeated ones.

    Source: the MillWheel paper, section 6.1.1; the probes are Kirsch and Mitzenmacher's.

    Example:
        >>> seen = BloomFilter(100)
        >>> seen.add(np.array([5, 1 << 60], np.uint64))
        >>> seen.may_hold(np.array([5, 6], np.uint64)).tolist(), seen.may_hold_one(1 << 60)
        ([True, False], True)
        >>> seen.nbytes
        128
    """

    def __init__(self, capacity: int) -> None:
        size = 1 << max(6, (capacity * _BITS - 1).bit_length())  # a power of two: a mask is faster than a remainder
        self.capacity = capacity
        self.added = 0
        self._mask = size - 1
        self._bits = bytearray(size >> 3)
        self._array = np.frombuffer(self._bits, np.uint8)

    @property
    def nbytes(self) -> int:
        """The size of the filter in memory, in bytes."""
        return len(self._bits)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add 64-bit hashes."""
        self.added += len(hashes)
        for indices in self._probes(hashes):
            np.bitwise_or.at(self._array, indices >> np.uint64(3), _bit(indices))

    def may_hold(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return, for each hash, whether it may have been added."""
        may = np.ones(len(hashes), np.bool_)
        for indices in self._probes(hashes):
            may &= (self._array[indices >> np.uint64(3)] & _bit(indices)) != 0
        return may

    def may_hold_one(self, hashed: int) -> bool:
        """Return whether one hash may have been added; for a few hashes this is faster than an array."""
        index, step = hashed & _LOW, hashed >> 32 | 1
        bits, mask = self._bits, self._mask
        for _ in range(_PROBES):
            at = index & mask
            if not bits[at >> 3] >> (at & 7) & 1:
                return False
            index += step
        return True

    def _probes(self, hashes: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
        index, step = hashes & np.uint64(_LOW), hashes >> np.uint64(32) | np.uint64(1)
        mask = np.uint64(self._mask)
        return [(index + np.uint64(number) * step) & mask for number in range(_PROBES)]


def _bit(indices: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (indices & np.uint64(7)).astype(np.uint8))
