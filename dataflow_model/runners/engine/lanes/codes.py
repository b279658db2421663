"""Codes: a number for each different value of a column.

This is one of two ways to number keys: within one column, for as long as it is needed. `KeyTable` is the other: it
numbers keys as they arrive, and each keeps its number while it has state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPARSE: Final = 4
"""If integers span at most so many numbers for each of them, each number in between is noted as there or not."""


def codes_of(values: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Number the distinct values: return `(the code of each row, the value of each code)`.

    Null is a value like any other, and `-0.0` is `0.0`, as in `encode_key`. Codes count up from 0, in no particular
    order; some values may have no rows.

    Example:
        >>> codes, distinct = codes_of(pa.array(["UA", "B6", "UA"]))
        >>> codes.tolist(), distinct.to_pylist()
        ([0, 1, 0], ['UA', 'B6'])
        >>> codes, distinct = codes_of(pa.array([7, 4, 7]))
        >>> codes.tolist(), distinct.to_pylist()
        ([1, 0, 1], [4, 7])
    """
    if isinstance(values, pa.ChunkedArray):
        return _codes_of_chunks(values)
    if pa.types.is_dictionary(values.type):
        return _codes_of_dictionary(values)
    if pa.types.is_int64(values.type) and not values.null_count and len(values):
        numbers = values.to_numpy()
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < _SPARSE * len(numbers):
            return _codes_above(least, numbers - least, most - least + 1)
    if pa.types.is_floating(values.type):
        values = pc.call_function("add", [values, pa.scalar(0.0, values.type)])
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _codes_above(least: int, above: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], pa.Array]:
    is_there = np.zeros(count, np.bool_)
    is_there[above] = True
    codes = np.cumsum(is_there) - 1
    return codes[above], pa.array(np.flatnonzero(is_there) + least)


def _codes_of_chunks(values: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    if values.num_chunks == 1:
        return codes_of(values.chunk(0))
    if not pa.types.is_dictionary(values.type):
        return codes_of(values.combine_chunks())
    # Each chunk has its own dictionary: number the entries of all of them together.
    parts = [codes_of(chunk) for chunk in values.chunks]
    if not parts:
        return np.empty(0, np.int64), pa.array([], values.type.value_type)
    common, distinct = codes_of(pa.concat_arrays([entries for _, entries in parts]))
    offsets = np.cumsum([0, *(len(entries) for _, entries in parts)])
    return np.concatenate([common[codes + at] for (codes, _), at in zip(parts, offsets, strict=False)]), distinct


def _codes_of_dictionary(values: pa.DictionaryArray) -> tuple[NDArray[np.int64], pa.Array]:
    # A dictionary may contain an entry twice, or null as well as null indices, so its entries are encoded in turn.
    entries = values.dictionary
    if values.null_count:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
    common, distinct = codes_of(entries)
    return common[values.indices.cast(pa.int64()).fill_null(len(entries) - 1).to_numpy()], distinct
