"""Columns of 64-bit integers, for state that compiled code reads and writes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES = 8


def column(length: int, value: int = 0) -> array[int]:
    """Return a column of `length` equal values.

    Example:
        >>> column(3, 7)
        array('q', [7, 7, 7])
    """
    return array("q", [value]) * length


def column_of(values: NDArray[np.int64]) -> array[int]:
    """Return an array as a column, whose elements are Python numbers if the core runs uncompiled."""
    column = array("q")
    column.frombytes(np.ascontiguousarray(values, np.int64).view(np.uint8).data)
    return column


def lengthened(values: array[int], length: int, value: int = 0) -> array[int]:
    """Return a copy of a column, extended to `length` with `value`.

    Example:
        >>> lengthened(column(2, 1), 4)
        array('q', [1, 1, 0, 0])
    """
    held: Any = values  # compiled code passes a view, which has no type code
    longer: array[Any] = array(getattr(held, "typecode", "q"), [value]) * length
    memoryview(longer).cast("B")[: _BYTES * len(values)] = memoryview(values).cast("B")
    return longer


def leading(values: Any, count: int) -> NDArray[Any]:
    """Return the first `count` numbers of a column, integers or floats, as an array that shares its memory.

    Example:
        >>> leading(column(3, 7), 2).tolist()
        [7, 7]
    """
    return np.asarray(values, np.float64 if getattr(values, "typecode", "q") == "d" else np.int64)[:count]


def strided(values: array[int], first: int, step: int) -> array[int]:
    """Return a view of every `step`-th value from the one at `first` on.

    Example:
        >>> list(strided(array("q", [0, 1, 2, 3, 4]), 1, 2))
        [1, 3]
    """
    view: Any = memoryview(values)[first::step]
    return view  # type: ignore[no-any-return]


def indices_in_rows(rows: NDArray[np.int64], step: int, width: int) -> NDArray[np.int64]:
    """Return for each row the indices of its first `width` numbers, if a row begins at every `step`-th number.

    Example:
        >>> indices_in_rows(np.array([0, 2]), 5, 2).tolist()
        [[0, 1], [10, 11]]
    """
    indices: NDArray[np.int64] = rows[:, np.newaxis] * step + np.arange(width)
    return indices
