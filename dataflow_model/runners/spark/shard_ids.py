"""Shard ids that Spark's hash distributes evenly: one id for each shuffle partition."""

from __future__ import annotations

import functools
from typing import Final

_SEED: Final = 42
_MASK: Final = 0xFFFFFFFF


@functools.cache
def shard_ids(shards: int) -> tuple[int, ...]:
    """Return `shards` ids, the i-th of which falls into shuffle partition i.

    Spark sends a row to `pmod(murmur3(shard), partitions)`; the ids 0, 1, … would collide.

    Example:
        >>> shard_ids(8)
        (12, 6, 5, 1, 25, 15, 2, 0)
    """
    ids: dict[int, int] = {}
    shard = 0
    while len(ids) < shards:
        ids.setdefault(partition_of(shard, shards), shard)
        shard += 1
    return tuple(ids[partition] for partition in range(shards))


def partition_of(shard: int, partitions: int) -> int:
    """Return the shuffle partition of an int column's value: Spark's `pmod(hash(shard), partitions)`.

    Source: MurmurHash3 x86 32 of four bytes, with Spark's seed.

    Example:
        >>> [partition_of(shard, 2) for shard in (0, 1, 2)]
        [1, 1, 0]
    """
    mixed = shard * 0xCC9E2D51 & _MASK
    mixed = _rotate(mixed, 15) * 0x1B873593 & _MASK
    hashed = _rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return signed % partitions


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
