"""Keys as columns: the shard that owns each, and the split of a table by shard."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.values.keys import encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_INT_TAG: Final = zlib.crc32(b"i")
_MINUS: Final = ord("-")
_ZERO: Final = ord("0")


def shard_of(keys: pa.Array | pa.ChunkedArray, labels: Sequence[int]) -> NDArray[np.int32]:
    """Return, for each row, the label of its key's shard: `labels[shard_hash(encode_key(key)) % len(labels)]`.

    The key is the Python value that `to_pylist` returns; integers and strings are hashed without creating it.

    Raises:
        KeyEncodingError: for a key without a deterministic encoding, such as NaN.

    Example:
        >>> shard_of(pa.array([7, 8, 7]), [2, 0]).tolist()
        [2, 0, 2]
    """
    codes, distinct = codes_of(keys)
    owners = np.asarray(labels, np.int32)[_hashes(distinct) % len(labels)]
    return owners[codes]


def _group_positions(rows: NDArray[np.int32], labels: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each label that occurs in `rows`, with its positions in order.

    Example:
        >>> [(label, at.tolist()) for label, at in _group_positions(np.array([2, 0, 2], np.int32), [2, 0, 5])]
        [(2, [0, 2]), (0, [1])]
    """
    for label in labels:
        positions = np.flatnonzero(rows == label)
        if len(positions):
            yield label, positions


def split_by_shard(table: pa.Table, labels: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
    """Yield `(label, rows of that shard)` for each shard that has rows, in their order within the shard.

    A dictionary-encoded key column stays encoded, with only the entries that the part needs, to keep payloads small.

    Example:
        >>> table = pa.table({"key": pa.array([7, 8, 7]), "count": [1, 2, 3]})
        >>> [(label, part["count"].to_pylist()) for label, part in split_by_shard(table, [2, 0])]
        [(2, [1, 3]), (0, [2])]
    """
    table = table.combine_chunks()
    at = table.schema.get_field_index("key")
    for label, positions in _group_positions(shard_of(table.column(at), labels), labels):
        part = table.take(pa.array(positions)).combine_chunks()
        if pa.types.is_dictionary(part.schema.field(at).type):
            part = part.set_column(at, part.schema.field(at), take_keys(*codes_of(part.column(at))))
        yield label, part


def take_keys(codes: NDArray[np.int64], distinct: pa.Array) -> pa.Array:
    """Return the key of each code: plain numbers, and everything else dictionary-encoded without unused entries."""
    if pa.types.is_integer(distinct.type) or pa.types.is_boolean(distinct.type) or pa.types.is_floating(distinct.type):
        return distinct.take(pa.array(codes))
    if distinct.null_count:
        # Null is a null index, not an entry, since pyarrow does not unify dictionaries with null entries.
        return distinct.take(pa.array(codes)).dictionary_encode()
    used = np.flatnonzero(np.bincount(codes, minlength=len(distinct)))
    if len(used) < len(distinct):
        renumbered = np.zeros(len(distinct), np.int64)
        renumbered[used] = np.arange(len(used))
        codes, distinct = renumbered[codes], distinct.take(pa.array(used))
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), distinct)


def _hashes(distinct: pa.Array) -> NDArray[np.int64]:
    """Hash each entry, equal to `shard_hash(encode_key(entry))`."""
    if pa.types.is_integer(distinct.type) and not pa.types.is_uint64(distinct.type) and not distinct.null_count:
        return _int_hashes(distinct.cast(pa.int64()).to_numpy())
    if (pa.types.is_string(distinct.type) or pa.types.is_large_string(distinct.type)) and not distinct.null_count:
        tag, crc32 = zlib.crc32(b"s"), zlib.crc32
        entries: list[bytes] = distinct.cast(pa.large_binary()).to_pylist()
        return np.array([crc32(entry, tag) for entry in entries], np.int64)
    keys: list[Any] = distinct.to_pylist()
    return np.array([shard_hash(encode_key(key)) for key in keys], np.int64)


def _crc_table() -> NDArray[np.uint32]:
    """Return the table of CRC-32 steps for all 256 bytes."""
    entry = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entry = np.where(entry & 1, (entry >> 1) ^ np.uint32(0xEDB88320), entry >> 1)
    return entry


_CRC_TABLE: Final = _crc_table()


def _int_hashes(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hash the decimal digits of many integers at once, one digit per step, from the left."""
    negative = keys < 0
    magnitude = keys.astype(np.uint64)
    magnitude[negative] = ~magnitude[negative] + np.uint64(1)  # two's complement, also right for -2**63
    crc = np.full(len(keys), _INT_TAG ^ 0xFFFFFFFF, np.uint32)
    crc[negative] = _crc_step(crc[negative], np.uint32(_MINUS))
    longest = len(str(int(magnitude.max()))) if len(keys) else 0
    for exponent in range(longest - 1, -1, -1):
        shifted = magnitude // np.uint64(10**exponent)
        stepped = _crc_step(crc, (shifted % np.uint64(10)).astype(np.uint32) + np.uint32(_ZERO))
        # No leading zeros, but the number 0 has its one digit.
        crc = stepped if exponent == 0 else np.where(shifted > 0, stepped, crc)
    return (crc ^ np.uint32(0xFFFFFFFF)).astype(np.int64)


def _crc_step(crc: NDArray[np.uint32], byte: NDArray[np.uint32] | np.uint32) -> NDArray[np.uint32]:
    stepped: NDArray[np.uint32] = _CRC_TABLE[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return stepped
