"""Encode elements as bytes, so that sampling and counting them depends only on their values."""

from __future__ import annotations

import dataclasses
import decimal
import hashlib
import math
from typing import Any, Final

import attrs
import numpy as np

from dataflow_model.errors import KeyEncodingError, shown
from dataflow_model.values import encode_key

_DIGEST: Final = 8
_NO_KEY: Final = b"\xff"
"""The first bytes of the encoding of an element that cannot be a key; no key is encoded so."""
SPACE: Final = 1 << 8 * _DIGEST
"""The number of different values of `hash_of`."""


def element_bytes(element: Any) -> bytes:
    """Return the same bytes, in every process, for two elements if and only if they are equal in type and value.

    An element can be a key, NaN or NaT, a list, set, dict, byte array or NumPy array, or a mutable attrs or dataclass
    value with such fields.

    Raises:
        KeyEncodingError: for anything else.

    Example:
        >>> element_bytes({"a": 1, "b": [2]}) == element_bytes({"b": [2], "a": 1})
        True
        >>> element_bytes([1]) == element_bytes([1.0])
        False
        >>> element_bytes(np.float32("nan")) == element_bytes(float("nan"))
        True
    """
    try:
        return encode_key(element)
    except KeyEncodingError as error:
        if isinstance(element, np.floating):
            element = float(element)
        parts = _parts(element)
        if parts is None:
            raise KeyEncodingError(
                f"{shown(element)} of type {type(element).__name__} has no encoding by its value",
                hint="map the elements to plain values first, such as tuples of numbers and text",
            ) from error
        kind = type(element)
        return _NO_KEY + encode_key((kind.__module__, kind.__qualname__, *parts))


def hash_of(element: Any, seed: int = 0) -> int:
    """Return a number in `[0, SPACE)` that depends on the element and the seed alone.

    Example:
        >>> hash_of("a") == hash_of("a"), hash_of("a") == hash_of("a", seed=1)
        (True, False)
    """
    salt = seed.to_bytes(_DIGEST, "big", signed=True)
    return int.from_bytes(hashlib.blake2b(element_bytes(element), digest_size=_DIGEST, salt=salt).digest(), "big")


def later_of(left: Any, right: Any) -> Any:
    """Return one of two interchangeable values, the same one in either order.

    For values that cannot be encoded, it is `right`.

    Example:
        >>> later_of("a", "b"), later_of("b", "a")
        ('b', 'b')
    """
    try:
        first, second = element_bytes(left), element_bytes(right)
    except KeyEncodingError:
        return right
    if first == second:  # as of one instant in two zones
        return max(left, right, key=repr)
    return left if first > second else right


def _parts(element: Any) -> list[bytes] | None:
    """Return the encodings of an element's parts; `None` if its type is not a known container."""
    match element:
        case float() | decimal.Decimal() if math.isnan(element):
            return []
        case np.datetime64() | np.timedelta64() if np.isnat(element):
            return []
        case bytearray():
            return [bytes(element)]
        case list() | tuple():
            return [element_bytes(part) for part in element]
        case set() | frozenset():
            return sorted(element_bytes(part) for part in element)
        case dict():
            return sorted(element_bytes([key, value]) for key, value in element.items())
        case np.ndarray() if element.dtype != object:
            return [repr((element.dtype.str, element.shape)).encode(), element.tobytes()]
        case _ if attrs.has(type(element)):
            fields = [part for part in attrs.fields(type(element)) if part.eq]
            compared = [(part.eq_key, getattr(element, part.name)) for part in fields]
            return [element_bytes(value if eq_key is None else eq_key(value)) for eq_key, value in compared]
        case _ if dataclasses.is_dataclass(element):
            return [element_bytes(getattr(element, part.name)) for part in dataclasses.fields(element) if part.compare]
        case _:
            return None
