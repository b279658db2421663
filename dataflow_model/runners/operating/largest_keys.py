"""The largest keys in the stored state of a stream."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.ipc import from_ipc
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.values import encode_key
from dataflow_model.values.pickles import dump
from dataflow_model.values.shown_keys import shown_encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.runners.sharded.upgrade.reading import ShardFound


@attrs.frozen
class KeySize:
    """A key with state.

    Attributes:
        key: the key as text, at most 80 characters.
        bytes: the size of its state as stored; for a grouping in columns, its share of the columns.
    """

    key: str
    bytes: int


def largest_keys(shards: Iterable[ShardFound], most: int) -> dict[str, tuple[KeySize, ...]]:
    """Return the largest keys of each transform, the largest first.

    The ids of a `Deduplicate` are stored in sets, so it has no keys.

    Args:
        shards: the state of all shards; one at a time is needed.
        most: the number of keys of each transform.
    """
    largest: dict[str, list[tuple[int, bytes]]] = {}
    for shard in shards:
        for label, entries in shard.entries.items():
            sizes = ((size, encoded) for encoded, size in _sizes(entries).items())
            largest[label] = heapq.nlargest(most, [*largest.get(label, ()), *sizes])
    return {
        label: tuple(KeySize(shown_encoded(encoded), size) for size, encoded in keys)
        for label, keys in largest.items()
        if keys
    }


def _sizes(entries: Mapping[bytes, Any]) -> Counter[bytes]:
    """Return the bytes of each key, by encoded key."""
    sizes: Counter[bytes] = Counter()
    for encoded, entry in entries.items():
        if not isinstance(entry, bytes):
            sizes.update(_sizes_of_partials(*entry))
        elif StoredKey.unpacked(entry).dues:  # those of a set of ids are none
            sizes[encoded] += len(entry)
    return sizes


def _sizes_of_partials(content: bytes | None, folded: Mapping[tuple[bytes, int, int], Any]) -> Counter[bytes]:
    sizes: Counter[bytes] = Counter()
    for (encoded, _, _), entry in folded.items():
        sizes[encoded] += len(dump(entry))
    if content is not None:
        codes, distinct = codes_of(from_ipc(content)["key"])
        each = len(content) / max(1, len(codes))
        counts = np.bincount(codes, minlength=len(distinct))
        present = np.flatnonzero(counts)
        for key, count in zip(distinct.take(pa.array(present)).to_pylist(), counts[present].tolist(), strict=True):
            sizes[encode_key(key)] += round(count * each)
    return sizes
