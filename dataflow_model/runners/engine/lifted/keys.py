"""Keys as columns: dense codes, the shard that owns each, and the split of a table by shard."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.values.keys import encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_INT_TAG: Final = zlib.crc32(b"i")
_MINUS: Final = ord("-")
_ZERO: Final = ord("0")


def key_codes(keys: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Number the distinct keys: return `(the code of each row, the key of each code)`.

    Null is a key like any other, and `-0.0` is `0.0`, as in `encode_key`. Codes count up from 0; some keys may have no
    rows.

    Example:
        >>> codes, distinct = key_codes(pa.array(["UA", "B6", "UA"]))
        >>> codes.tolist(), distinct.to_pylist()
        ([0, 1, 0], ['UA', 'B6'])
    """
    if isinstance(keys, pa.ChunkedArray):
        return _codes_of_chunks(keys)
    if pa.types.is_dictionary(keys.type):
        return _codes_of_dictionary(keys)
    if pa.types.is_floating(keys.type):
        keys = pc.call_function("add", [keys, pa.scalar(0.0, keys.type)])
    encoded = keys.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def shard_of(keys: pa.Array | pa.ChunkedArray, labels: Sequence[int]) -> NDArray[np.int32]:
    """Return, for each row, the label of its key's shard: `labels[shard_hash(encode_key(key)) % len(labels)]`.

    The key is the Python value that `to_pylist` returns; integers and strings are hashed without creating it.

    Raises:
        KeyEncodingError: for a key without a deterministic encoding, such as NaN.

    Example:
        >>> shard_of(pa.array([7, 8, 7]), [2, 0]).tolist()
        [2, 0, 2]
    """
    codes, distinct = key_codes(keys)
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
            part = part.set_column(at, part.schema.field(at), take_keys(*key_codes(part.column(at))))
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


def _codes_of_chunks(keys: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    if keys.num_chunks == 1:
        return key_codes(keys.chunk(0))
    if not pa.types.is_dictionary(keys.type):
        return key_codes(keys.combine_chunks())
    # Each chunk has its own dictionary: number the entries of all of them together.
    parts = [key_codes(chunk) for chunk in keys.chunks]
    if not parts:
        return np.empty(0, np.int64), pa.array([], keys.type.value_type)
    common, distinct = key_codes(pa.concat_arrays([entries for _, entries in parts]))
    offsets = np.cumsum([0, *(len(entries) for _, entries in parts)])
    return np.concatenate([common[codes + at] for (codes, _), at in zip(parts, offsets, strict=False)]), distinct


def _codes_of_dictionary(keys: pa.DictionaryArray) -> tuple[NDArray[np.int64], pa.Array]:
    # A dictionary may contain an entry twice, or null as well as null indices, so its entries are encoded in turn.
    entries = keys.dictionary
    if keys.null_count:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
    common, distinct = key_codes(entries)
    return common[keys.indices.cast(pa.int64()).fill_null(len(entries) - 1).to_numpy()], distinct


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
