"""Which values are the same: a retraction has to find the value that it takes back, in any process."""

from __future__ import annotations

import copyreg
import hashlib
import itertools
import pickle
import struct
import types
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.durable import name_of
from dataflow_model.errors import KeyEncodingError
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types whose values are identical if they are the same key."""
_DOUBLE: Final = struct.Struct(">d")
_PROTOCOL: Final = 4
_LONG: Final = 64
_GLOBALS: Final = (type, types.FunctionType, types.BuiltinFunctionType)


def encode_value(value: Any) -> bytes:
    """Encode a value as bytes that are equal for values that are equal as keys, or have the same parts.

    Values that `encode_key` accepts are encoded by it. Of all others, the parts are: the items of lists, sets, dicts
    and tuples, regardless of the order of sets and dicts, and what a pickle of any other object contains, regardless
    of which parts are one object.

    Raises:
        Exception: for a value that cannot be pickled.

    Example:
        >>> encode_value({1: ["a"], 2: {"b", "c"}}) == encode_value({2: {"c", "b"}, 1: ["a"]})
        True
    """
    try:
        return _encode(value)
    except RecursionError:  # an object that contains itself
        return b"p" + pickle.dumps(value, _PROTOCOL)


def are_identical(left: Any, right: Any) -> bool:
    """Return whether nothing distinguishes two values that `encode_value` encodes alike.

    Example:
        >>> are_identical(0.0, -0.0), are_identical(("UA", 4), ("UA", 4))
        (False, True)
    """
    if left is right:
        return True
    return type(left) is type(right) and (type(left) in _PLAIN or identity_of(left) == identity_of(right))


def identity_of(value: Any) -> tuple[type[Any], bytes]:
    """Return what distinguishes a value from others that `encode_value` encodes alike.

    Example:
        >>> identity_of(0.0) == identity_of(-0.0), identity_of(("UA", 4)) == identity_of(("UA", 4))
        (False, True)
    """
    try:
        exact = _encode_exactly(value)
    except RecursionError:  # an object that contains itself
        exact = b""
    return type(value), exact if len(exact) <= _LONG else hashlib.blake2b(exact, digest_size=32).digest()


def _encode(value: Any) -> bytes:
    try:
        return b"k" + encode_key(value)
    except KeyEncodingError:
        return _encode_parts(value, _encode)


def _encode_exactly(value: Any) -> bytes:
    kind = type(value)
    if kind in _PLAIN:
        return b"k" + encode_key(value)
    if kind is float:
        return b"f" + _DOUBLE.pack(value)
    return _encode_parts(value, _encode_exactly)


def _encode_parts(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    """Encode a value by its parts, each of which is encoded by `encode`."""
    kind = type(value)
    if kind in {list, tuple}:
        parts = [_sized(encode(part)) for part in value]
    elif kind in {set, frozenset}:  # their order depends on their history and the process
        parts = sorted(_sized(encode(part)) for part in value)
    elif kind is dict:
        parts = sorted(_sized(encode(key)) + _sized(encode(part)) for key, part in value.items())
    else:
        return _encode_object(value, encode)
    return kind.__name__.encode() + b"".join(parts)


def _encode_object(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    """Encode what a pickle of an object contains: how it is created, and its state and items."""
    if isinstance(value, _GLOBALS):
        name = name_of(value)
        return b"g" + (pickle.dumps(value, _PROTOCOL) if name is None else name.encode())
    reduce = copyreg.dispatch_table.get(type(value))
    reduced: Any = value.__reduce_ex__(_PROTOCOL) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return b"g" + pickle.dumps(value, _PROTOCOL)
    create, arguments, *rest = reduced
    state, items, pairs = itertools.islice((*rest, None, None, None), 3)
    parts: Iterable[Any] = (create, arguments, state, list(items or ()), list(pairs or ()))
    return b"o" + b"".join(_sized(encode(part)) for part in parts)


def _sized(encoded: bytes) -> bytes:
    return b"%d:" % len(encoded) + encoded
