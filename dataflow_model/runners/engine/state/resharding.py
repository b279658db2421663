"""The part of a keyed node's durable state that belongs to one shard when the number of shards changes.

Most machines store one entry per key, and the key's hash determines its shard. Two machines store entries with many
keys, which are divided. Each machine chooses its way in `KeyedMachine.share`.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.ipc import from_ipc, to_ipc
from dataflow_model.runners.engine.lifted.keys import split_by_shard
from dataflow_model.runners.engine.state.id_segments import Segment
from dataflow_model.runners.engine.state.id_store import ADDRESS
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.values import encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@attrs.frozen
class Share:
    """One shard of several.

    Attributes:
        index: the index of the shard, from 0.
        shards: the number of shards.

    Example:
        >>> [Share(index, 2).takes(b"sUA") for index in (0, 1)]
        [True, False]
    """

    index: int
    shards: int

    def takes(self, encoded: bytes) -> bool:
        """Return whether an encoded key belongs to this shard."""
        return shard_hash(encoded) % self.shards == self.index

    def meets(self, index: int, shards: int) -> bool:
        """Return whether a shard among another number of shards can have keys of this one.

        Example:
            >>> [Share(1, 4).meets(index, 2) for index in (0, 1)]
            [False, True]
        """
        common = math.gcd(self.shards, shards)
        return self.index % common == index % common


def keys_of_share(parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
    """Return the entries of one shard's keys.

    Args:
        parts: the stored entries of the old shards, each key in one of them.
        share: the shard.
    """
    return {encoded: entry for part in parts for encoded, entry in part.items() if share.takes(encoded)}


def count_keys(entries: Mapping[bytes, Any]) -> int:
    """Return the number of keys in the stored entries of a shard; for a Deduplicate, the number of ids."""
    number = 0
    of_partials: set[bytes] = set()  # a key has a partial for each of its windows, and for each micro-batch
    for entry in entries.values():
        if isinstance(entry, bytes):  # a set of ids has no deadlines, but every key has
            stored = StoredKey.unpacked(entry)
            number += 1 if stored.dues else len(Segment.read(stored.state))
        else:
            of_partials |= _keys_of_partials(*entry)
    return number + len(of_partials)


def _keys_of_partials(content: bytes | None, folded: Mapping[tuple[bytes, int, int], Any]) -> set[bytes]:
    encoded = {cell[0] for cell in folded}
    if content is not None:
        codes, distinct = codes_of(from_ipc(content)["key"])
        encoded.update(map(encode_key, distinct.take(pa.array(np.unique(codes))).to_pylist()))
    return encoded


def partials_of_share(parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
    """Divide tables of partials, and renumber them, since each shard has counted from 1."""
    partials: dict[bytes, Any] = {}
    for content, folded in itertools.chain.from_iterable(part.values() for part in parts):
        tables = [] if content is None else split_by_shard(from_ipc(content), range(share.shards))
        own_tables = [table for index, table in tables if index == share.index]
        rows = {cell: entry for cell, entry in folded.items() if share.takes(cell[0])}
        if own_tables or rows:
            partials[(len(partials) + 1).to_bytes(8)] = to_ipc(own_tables[0]) if own_tables else None, rows
    return partials


def ids_of_share(parts: Iterable[Mapping[bytes, bytes]], share: Share) -> dict[bytes, Any]:
    """Divide sets of ids, and merge those of each slice into one set."""
    slices: dict[int, list[bytes]] = {}
    for address, entry in itertools.chain.from_iterable(part.items() for part in parts):
        segment = Segment.read(StoredKey.unpacked(entry).state)
        ids = [record_id for record_id in segment if share.takes(record_id)]
        slices.setdefault(ADDRESS.unpack(address)[0], []).extend(ids)
    return {
        ADDRESS.pack(number, 0): StoredKey(Segment.of(ids).packed, (), None).packed()
        for number, ids in slices.items()
        if ids
    }
