"""Times in columns that Python's types cannot hold: dates and instants outside the years 1 to 9999, long durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.plan.columns.nested import leaves, with_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RANGE: Final = "Python holds dates and instants of the years 1 to 9999, and durations of up to 999,999,999 days"

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY: Final = 86_400
_FIRST_DAY: Final = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_LAST_DAY: Final = int(np.datetime64("9999-12-31", "D").astype(np.int64))
_LONGEST: Final = 999_999_999
"""The days of a `timedelta` at most."""


def indices_beyond(column: pa.Array) -> list[int]:
    """Return the indices of the values that hold a time which Python cannot hold.

    A column of instants holds numbers in place of those outside the years 1 to 9999, so only instants that are no
    64-bit number of microseconds are beyond.

    Example:
        >>> indices_beyond(pa.array([0, 2**31 - 1, None], pa.int32()).cast(pa.date32()))
        [1]
    """
    if pa.types.is_timestamp(column.type):
        micros = 1_000_000 // _PER_SECOND[column.type.unit]
        most = (2**63 - 1) // max(micros, 1)
        return np.flatnonzero(_outside(column, -most, most)).tolist() if micros > 1 else []
    if not _has_beyond(column):
        return []
    return [index for index in range(len(column)) if _has_beyond(column.take(pa.array([index])))]


def in_numbers(column: pa.Array) -> pa.Array:
    """Return a column with whole numbers in place of times, in their units, also in lists, structs and maps."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(with_times(column.type, _number))


def with_times(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which another type replaces each type of time, also in lists, structs and maps."""
    return with_leaves(kind, lambda leaf: change(leaf) if pa.types.is_temporal(leaf) else leaf)


def _number(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()


def _has_beyond(column: pa.Array) -> bool:
    return any(_outside(leaf, *_bounds(leaf.type)).any() for leaf in _times(column))


def _times(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns of times in a column."""
    for leaf in leaves(column):
        if pa.types.is_dictionary(leaf.type) and pa.types.is_temporal(leaf.type.value_type):
            yield from _times(leaf.dictionary_decode())
        elif pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type) or pa.types.is_duration(leaf.type):
            yield leaf


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of a type of time that is a value of Python's."""
    if pa.types.is_date32(kind):
        return _FIRST_DAY, _LAST_DAY
    unit = _PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
    first, last = (-_LONGEST, _LONGEST) if pa.types.is_duration(kind) else (_FIRST_DAY, _LAST_DAY)
    return first * _DAY * unit, (last + 1) * _DAY * unit - 1


def _outside(column: pa.Array, least: int, greatest: int) -> Any:
    """Return a mask of the values outside of bounds, which may exceed 64 bits."""
    numbers = column.view(_number(column.type)).fill_null(0).to_numpy(zero_copy_only=False)
    limits = np.iinfo(numbers.dtype)
    return (numbers < max(least, limits.min)) | (numbers > min(greatest, limits.max))
