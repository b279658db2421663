"""Compact pickles of what rows carry: the event times, clocks and positions of a bundle need few of their 64 bits."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.lanes.narrow import narrowed, widened
from dataflow_model.values.pickles import dump
from dataflow_model.values.record_pickles import Picklers, Reducers

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROTOCOL: Final = 5


def dump_compact(value: Any) -> bytes:
    """Pickle a value for another process of the same run; `load` restores it.

    Arrays of 64-bit integers take as few bytes as their range needs, and an array that several columns share is stored
    once.

    Example:
        >>> from dataflow_model.values.pickles import load
        >>> times = 1_800_000_000_000_000 + np.arange(1_000)
        >>> len(dump_compact(times)) < 2_300, bool((load(dump_compact(times)) == times).all())
        (True, True)
    """
    try:
        return _COMPACT.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump(value)  # by value, what cannot be referred to by name


def _reduced(array: NDArray[Any]) -> Any:
    """Return how an array is restored; see `__reduce__` in Python's documentation."""
    if array.dtype != np.int64 or array.ndim != 1:
        return array.__reduce_ex__(_PROTOCOL)
    least, excess = narrowed(array)
    return array.__reduce_ex__(_PROTOCOL) if excess is array else (widened, (least, excess))


_COMPACT: Final = Picklers(Reducers({np.ndarray: _reduced}))
