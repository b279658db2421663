"""Compact pickles of what rows carry: the event times, clocks and positions of a bundle need few of their 64 bits."""

from __future__ import annotations

import collections
import copyreg
import io
import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["dump_compact"]

_FEW: Final = 32
"""Up to this number of integers, an array is pickled as it is."""
_KINDS: Final = (np.uint8, np.uint16, np.uint32)


def dump_compact(value: Any) -> bytes:
    """Pickle a value for another process of the same run; `load` restores it.

    Arrays of 64-bit integers are stored as their least integer and what is to be added to it, in as few bytes as that
    takes.

    Example:
        >>> from dataflow_model.values.pickles import load
        >>> times = 1_800_000_000_000_000 + np.arange(1_000)
        >>> len(dump_compact(times)) < 2_300, bool((load(dump_compact(times)) == times).all())
        (True, True)
    """
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.dispatch_table = _REDUCERS
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump(value)  # by value, what cannot be referred to by name
    return target.getvalue()


def _reduced(array: NDArray[Any]) -> Any:
    """Return how an array is restored; see `__reduce__` in Python's documentation."""
    if array.dtype != np.int64 or array.ndim != 1 or len(array) <= _FEW:
        return array.__reduce_ex__(5)
    least, most = int(array.min()), int(array.max())
    if least == most:
        return _repeated, (least, len(array))
    for kind in _KINDS:
        if most - least <= np.iinfo(kind).max:
            return _widened, (least, np.subtract(array, least, dtype=np.int64).astype(kind))
    return array.__reduce_ex__(5)


_REDUCERS: Final[Mapping[Any, Any]] = collections.ChainMap({np.ndarray: _reduced}, copyreg.dispatch_table)


def _repeated(number: int, count: int) -> NDArray[np.int64]:
    return np.full(count, number, np.int64)


def _widened(least: int, above: NDArray[Any]) -> NDArray[np.int64]:
    widened: NDArray[np.int64] = above.astype(np.int64)
    widened += least
    return widened
