"""Keys: compared by value and type, through an encoding that is the same in every process.

Python's own `hash` is salted per process, and `1 == 1.0 == True`. Grouping compares these bytes instead.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import math
import numbers
import os
import struct
import types
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.durable import name_of
from dataflow_model.errors import KeyEncodingError, shown
from dataflow_model.time import Duration, Instant
from dataflow_model.values.record_keys import compared_fields, equality_owner, is_record
from dataflow_model.values.scalar_keys import (
    encode_moment,
    encode_period,
    from_numpy,
    from_pandas,
    is_numpy_scalar,
    is_pandas_scalar,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LENGTH: Final = struct.Struct(">I")
RECORD_KEYS: Final[dict[bytes, type[Any]]] = {}
"""The classes of records that were keys in this process, or parts of keys, by their names as keys contain them."""
_DOUBLE: Final = struct.Struct(">d")
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MOST_DECIMAL_BITS: Final = 2048
_DEEPEST: Final = 100
_PLAIN: Final = frozenset({int, str, bytes, bool})
_PLAIN_PARTS: Final = frozenset({int, str, bytes, type(None)})
"""Types of which values may occur in one field of tuples: those of two of them are never equal."""


def encode_key(key: Any) -> bytes:
    """Encode a key as bytes; two keys have the same bytes if and only if they are equal in type and value.

    A key can be `None`, a `bool`, an `int` of any size, a `float`, a `str`, `bytes`, a date or time, a `Decimal`, a
    `UUID`, an enum member, a window, or a tuple, named tuple, frozen set, frozen attrs value or frozen dataclass of
    these, nested up to 100 levels deep. Some values are converted first:

    * a NumPy or pandas scalar is encoded as the Python value that it represents, without loss: nanoseconds count;
    * `-0.0` is encoded as `0.0`, and a datetime with a zone as its instant;
    * a dataclass or attrs value is encoded as its class and the fields that its `==` compares.

    Raises:
        KeyEncodingError: for anything mutable (a list, a set, a dict), NaN, NaT, an instance of a class with a
            handwritten `__eq__`, a value that contains itself, and a type that has no encoding.

    Source: Beam's deterministic coders, which also distinguish `1` from `1.0`.

    Example:
        >>> encode_key(1) == encode_key(1.0)
        False
        >>> encode_key(("UA", 2013)) == encode_key(("UA", 2013))
        True
    """
    encoder = _ENCODERS.get(type(key))
    try:
        return encoder(key) if encoder is not None else _encode_nested(key, 0)
    except KeyEncodingError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error) as error:
        problem = (
            f"the key {shown(key)} of type {type(key).__name__} cannot be encoded: {type(error).__name__}: {error}"
        )
        raise KeyEncodingError(problem, hint="map it to plain values before grouping") from error


def encode_alike(keys: Iterable[Any]) -> list[bytes]:
    """Encode keys that are alike, in less time than each by itself.

    Example:
        >>> encode_alike([7, 10]) == [encode_key(7), encode_key(10)]
        True
    """
    several = list(keys)
    encoder = _ENCODERS.get(type(several[0]), encode_key) if several else encode_key
    return list(map(encoder, several))


def encode_rows(kind: type[Any], parts: Iterable[tuple[Sequence[Any], Iterable[int]]]) -> list[bytes]:
    """Encode tuples of one type, each different value of a part once.

    Args:
        kind: `tuple`, or a class of named tuples.
        parts: for each part, its different values, which are alike, and the index among them of each tuple's.

    Example:
        >>> encoded = encode_rows(tuple, [(["UA", "AA"], [1, 0]), ([7], [0, 0])])
        >>> encoded == [encode_key(("AA", 7)), encode_key(("UA", 7))]
        True
    """
    head = _encode_nested(tuple.__new__(kind), 0)
    columns = []
    for values, codes in parts:
        encoded = list(map(_sized, encode_alike(values)))
        columns.append([encoded[code] for code in codes])
    return [head + b"".join(row) for row in zip(*columns, strict=True)]


def are_alike(keys: Sequence[Any]) -> bool:
    """Return whether all keys are of one type, and two of that type are the same key if and only if they are equal.

    Tuples and named tuples of integers, texts, bytes and `None` are; what is nested deeper is not looked at.

    Example:
        >>> are_alike([1, 2]), are_alike([("UA", 1), ("AA", None)])
        (True, True)
        >>> are_alike([1, True]), are_alike([("UA", 1), ("UA", True)]), are_alike([0.0, -0.0])
        (False, False, False)
    """
    kinds = set(map(type, keys))
    if len(kinds) != 1:
        return False
    [kind] = kinds
    return kind in _PLAIN or (
        _compares_its_parts(kind) and set(map(type, itertools.chain.from_iterable(keys))) <= _PLAIN_PARTS
    )


def shown_key(key: Any) -> Any:
    """Return a key as panes show it: `0.0` for `-0.0`, which is the same key, and any other key unchanged."""
    return key + 0.0 if type(key) is float else key


def shard_hash(encoded: bytes) -> int:
    """Return the hash, below 2**32, that decides which shard owns a key.

    Example:
        >>> shard_hash(encode_key("UA"))
        1877071628
    """
    return zlib.crc32(encoded)


def _sized(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def _encode_int(key: int) -> bytes:
    # Python does not convert very large numbers to decimal digits.
    return b"i%d" % key if key.bit_length() <= _MOST_DECIMAL_BITS else b"ix%x" % key


def _encode_float(key: float) -> bytes:
    if math.isnan(key):
        raise KeyEncodingError(
            "a key may not be the float NaN, which is not equal to itself", hint="map it to None before grouping"
        )
    return b"f" + _DOUBLE.pack(key + 0.0)  # + 0.0 turns -0.0 into 0.0


def _encode_str(key: str) -> bytes:
    return b"s" + key.encode("utf-8", "surrogatepass")


def _encode_time(key: datetime.time) -> bytes:
    offset = key.utcoffset()
    if offset is None:
        return b"c" + key.replace(tzinfo=None).isoformat().encode()
    since_midnight = datetime.timedelta(
        hours=key.hour, minutes=key.minute, seconds=key.second, microseconds=key.microsecond
    )
    return b"cz%d" % ((since_midnight - offset) // _MICROSECOND)


def _encode_decimal(key: decimal.Decimal) -> bytes:
    if key.is_nan():
        raise KeyEncodingError(
            "a key may not be the Decimal NaN, which is not equal to itself", hint="map it to None before grouping"
        )
    if key.is_infinite() or not key:
        return b"m" + (b"0" if not key else b"inf" if key > 0 else b"-inf")
    # Not Decimal.normalize(), which rounds to the precision of the process's decimal context.
    sign, digits, exponent = key.as_tuple()
    body = "".join(map(str, digits)).lstrip("0")
    significant = body.rstrip("0")
    return b"m%s%sE%d" % (b"-" if sign else b"", significant.encode(), int(exponent) + len(body) - len(significant))


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"n",
    bool: lambda key: b"b1" if key else b"b0",
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda key: b"y" + key,
    datetime.datetime: encode_moment,
    datetime.date: lambda key: b"a%d" % key.toordinal(),
    datetime.time: _encode_time,
    datetime.timedelta: encode_period,
    decimal.Decimal: _encode_decimal,
    uuid.UUID: lambda key: b"u" + key.bytes,
}
"""The encoders of types whose values contain no others."""
_INSTEAD: Final[tuple[tuple[type, str], ...]] = (
    (list, "tuple(values)"),
    (set, "frozenset(values)"),
    (dict, "tuple(sorted(d.items()))"),
    (bytearray, "bytes(data)"),
    (os.PathLike, "str(path)"),
    (range, "(start, stop, step)"),
    (numbers.Rational, "(numerator, denominator)"),
    (object, "str(value)"),
)
"""What to use instead of values that have no encoding, by type."""
_BASES: Final[tuple[type, ...]] = (
    Instant,
    Duration,
    tuple,
    frozenset,
    *(kind for kind in _ENCODERS if kind not in (type(None), bool)),
)


def _encode_nested(key: Any, depth: int) -> bytes:
    """Encode values of all other types: containers, records, enums, subclasses, NumPy and pandas scalars."""
    if depth > _DEEPEST:
        raise KeyEncodingError(
            f"a key may be nested at most {_DEEPEST} deep, and may not contain itself",
            hint="group by an id, or encode the key as bytes",
        )
    kind: Any = type(key)
    if kind is tuple:
        return _encode_tuple(key, depth)
    if kind is frozenset:
        return _encode_frozenset(key, depth)
    return _encoder_of(kind)(key, depth)


def _encode_part(part: Any, depth: int) -> bytes:
    encoder = _ENCODERS.get(type(part))
    return encoder(part) if encoder is not None else _encode_nested(part, depth + 1)


def _encode_tuple(key: Iterable[Any], depth: int) -> bytes:
    encoded = [b"t"]
    for part in key:  # most keys that are encoded one by one are tuples
        encoder = _ENCODERS.get(type(part))
        body = encoder(part) if encoder is not None else _encode_nested(part, depth + 1)
        encoded += _LENGTH.pack(len(body)), body
    return b"".join(encoded)


def _encode_frozenset(key: Iterable[Any], depth: int) -> bytes:
    return b"z" + b"".join(sorted([_sized(_encode_part(part, depth)) for part in key]))


@functools.lru_cache(maxsize=1024)
def _compares_its_parts(kind: type[Any]) -> bool:
    """Return whether a type is that of tuples or named tuples, which its parts tell apart."""
    return (
        issubclass(kind, tuple)
        and not kind.__dictoffset__
        and all(getattr(kind, name) is getattr(tuple, name) for name in ("__eq__", "__hash__", "__iter__"))
    )


@functools.lru_cache(maxsize=1024)
def _encoder_of(kind: type[Any]) -> Callable[[Any, int], bytes]:
    """Return the function that encodes values of a type; it takes a value and its nesting depth."""
    if is_pandas_scalar(kind):
        return lambda key, _: from_pandas(key)
    if is_numpy_scalar(kind):
        return _encode_numpy
    name = _sized((name_of(kind) or f"{kind.__module__}.{kind.__qualname__}").encode())
    if is_record(kind):
        RECORD_KEYS[name] = kind
    if issubclass(kind, enum.Enum):
        if isinstance(equality_owner(kind).__dict__["__eq__"], types.FunctionType):
            raise _own_equality(kind)
        return lambda key, depth: b"E" + name + _encode_part(key.value if key.name is None else (key.name,), depth)
    if attrs.has(kind) or dataclasses.is_dataclass(kind):
        fields = compared_fields(kind)
        if fields is None:
            raise _own_equality(kind)
        if kind.__hash__ is not None:
            return lambda key, depth: b"R" + name + _encode_tuple([get(key) for get in fields], depth)
    base = next((base for base in _BASES if issubclass(kind, base)), None)
    if base is None:
        return _refuse
    if kind.__eq__ is not base.__eq__:
        raise _own_equality(kind)
    if base is tuple or base is frozenset:
        encode_parts = _encode_tuple if base is tuple else _encode_frozenset
        return lambda key, depth: b"S" + name + encode_parts(key, depth)
    encode_value = _ENCODERS.get(base, _encode_int)
    return lambda key, _: b"S" + name + encode_value(key)


def _encode_numpy(key: Any, depth: int) -> bytes:
    value = from_numpy(key)
    return value if isinstance(value, bytes) and key.dtype.kind in "mM" else _encode_part(value, depth)


def _refuse(key: Any, _: int) -> bytes:
    instead = next(way for kind, way in _INSTEAD if isinstance(key, kind))
    raise KeyEncodingError(
        f"a key must be immutable and have a deterministic encoding, got {shown(key)} of type {type(key).__name__}",
        hint=f"replace it with a plain value, or a tuple of plain values: {instead}, for example",
    )


def _own_equality(kind: type[Any]) -> KeyEncodingError:
    return KeyEncodingError(
        f"a key may not be of type {kind.__name__}: its `__eq__` does not compare field by field",
        hint="let @dataclass(frozen=True) or @attrs.frozen define `__eq__`, and set compare=False (attrs: "
        "eq=False) on fields to ignore; or map the key to a tuple or a plain value",
    )
