"""Values as bytes."""

from __future__ import annotations

import pickle
from typing import Any, Final

import cloudpickle

__all__ = ["dump", "load"]

_PROTOCOL: Final = 5


def dump(value: Any) -> bytes:
    """Pickle a value; what plain pickle cannot name, such as classes of the main program, goes by value.

    Example:
        >>> load(dump({"count": 3}))
        {'count': 3}
    """
    try:
        return pickle.dumps(value, protocol=_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        by_value: bytes = cloudpickle.dumps(value, protocol=_PROTOCOL)
        return by_value


def load(pickled: bytes) -> Any:
    """Read what `dump` wrote."""
    return pickle.loads(pickled)
