"""Arrays of equal integers, such as the numbers of outputs where each element has one: a single integer in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def uniform(value: int, count: int) -> NDArray[np.int64]:
    """Return an array of equal integers, which is a single integer in memory, and which cannot be written.

    Example:
        >>> zeros = uniform(0, 1_000_000)
        >>> zeros[:3], zeros.strides
        (array([0, 0, 0]), (0,))
    """
    return np.broadcast_to(np.int64(value), count)


def picked(array: NDArray[np.int64], rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integers at these rows; for a `uniform` array the result is one too, as a slice always is."""
    if isinstance(rows, slice) or not _is_uniform(array):
        return array[rows]
    return uniform(array[0], len(rows))


def concatenated(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the integers of several arrays; those of `uniform` arrays of the same integer as such an array.

    Example:
        >>> concatenated([uniform(7, 2), uniform(7, 1)]).strides, concatenated([uniform(7, 2), uniform(8, 1)])
        ((0,), array([7, 7, 8]))
    """
    parts = [array for array in arrays if len(array)]
    if parts and all(_is_uniform(array) and array[0] == parts[0][0] for array in parts):
        return uniform(parts[0][0], sum(map(len, parts)))
    return np.concatenate(arrays)


def _is_uniform(array: NDArray[np.int64]) -> bool:
    return array.strides == (0,) and len(array) > 0
