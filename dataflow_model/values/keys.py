"""Keys: grouped by value and type, through an encoding that is the same in every process.

Python's own `hash` is salted per process and `1 == 1.0 == True`; grouping goes by these bytes instead.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from dataflow_model.errors import KeyEncodingError, explain

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["encode_key", "shard_hash"]

_LENGTH: Final = struct.Struct(">I")
_DOUBLE: Final = struct.Struct(">d")
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOCAL_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a key without a zone keeps having none


def encode_key(key: Any) -> bytes:
    """Encode a key as bytes that are equal just when value and type are.

    Takes `None`, `bool`, `int`, `float`, `str`, `bytes`, dates and times, `Decimal`, `UUID`, enums, windows, and
    tuples, named tuples, frozen sets and frozen attrs or dataclass values of these. NumPy scalars count as the Python
    scalar that they hold; `-0.0` is `0.0`.

    Raises:
        KeyEncodingError: for anything mutable (a list, a set, a dict), a float NaN, or a type it does not know.

    Source: Beam's deterministic coders; Beam groups `1` and `1.0` apart too.

    Example:
        >>> encode_key(1) == encode_key(1.0)
        False
        >>> encode_key(("UA", 2013)) == encode_key(("UA", 2013))
        True
    """
    encoder = _ENCODERS.get(type(key))
    if encoder is not None:
        return encoder(key)
    return _encode_other(key)


def shard_hash(encoded: bytes) -> int:
    """Return the number below 2**32 that decides which shard owns a key.

    Example:
        >>> shard_hash(encode_key("UA"))
        1877071628
    """
    return zlib.crc32(encoded)


def _sized(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def _encode_int(key: int) -> bytes:
    return b"i%d" % key


def _encode_float(key: float) -> bytes:
    if math.isnan(key):
        raise KeyEncodingError(
            explain(
                "a key may not be the float NaN, which is not equal to itself", hint="map it to None before grouping"
            )
        )
    return b"f" + _DOUBLE.pack(key + 0.0)  # + 0.0 turns -0.0 into 0.0


def _encode_str(key: str) -> bytes:
    return b"s" + key.encode("utf-8", "surrogatepass")


def _encode_tuple(key: tuple[Any, ...]) -> bytes:
    return b"t" + b"".join([_sized(encode_key(part)) for part in key])


def _encode_datetime(key: datetime.datetime) -> bytes:
    # The method of datetime itself: pendulum's override cannot be divided, and rounds.
    if key.tzinfo is None:
        return b"l%d" % (datetime.datetime.__sub__(key, _LOCAL_EPOCH) // _MICROSECOND)
    return b"d%d" % (datetime.datetime.__sub__(key, _EPOCH) // _MICROSECOND)


def _encode_decimal(key: decimal.Decimal) -> bytes:
    if key.is_nan():
        raise KeyEncodingError(
            explain(
                "a key may not be the Decimal NaN, which is not equal to itself", hint="map it to None before grouping"
            )
        )
    if key.is_infinite() or not key:
        return b"m" + (b"0" if not key else b"inf" if key > 0 else b"-inf")
    # Not Decimal.normalize(), which rounds to the precision of the process's decimal context.
    sign, digits, exponent = key.as_tuple()
    body = "".join(map(str, digits)).lstrip("0")
    kept = body.rstrip("0")
    return b"m%s%sE%d" % (b"-" if sign else b"", kept.encode(), int(exponent) + len(body) - len(kept))


def _encode_frozenset(key: frozenset[Any]) -> bytes:
    return b"z" + b"".join(sorted(_sized(encode_key(part)) for part in key))


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"n",
    bool: lambda key: b"b1" if key else b"b0",
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda key: b"y" + key,
    tuple: _encode_tuple,
    datetime.datetime: _encode_datetime,
    datetime.date: lambda key: b"a%d" % key.toordinal(),
    datetime.time: lambda key: b"c" + key.isoformat().encode(),
    datetime.timedelta: lambda key: b"e%d" % (key // _MICROSECOND),
    decimal.Decimal: _encode_decimal,
    uuid.UUID: lambda key: b"u" + key.bytes,
    frozenset: _encode_frozenset,
}


def _encode_other(key: Any) -> bytes:
    """Encode what has no entry of its own type: subclasses, records, enums, NumPy scalars."""
    kind = type(key)
    name = f"{kind.__module__}.{kind.__qualname__}".encode()
    if any(base.__name__ == "generic" and base.__module__ == "numpy" for base in kind.__mro__):  # scalars, not arrays
        return encode_key(key.item())
    if isinstance(key, enum.Enum):
        member = cast("str | None", key.name)  # Flag(0) has no name
        return b"E" + _sized(name) + (encode_key(key.value) if member is None else member.encode())
    if attrs.has(kind) and kind.__hash__ is not None:
        return b"R" + _sized(name) + _encode_tuple(tuple(getattr(key, field.name) for field in attrs.fields(kind)))
    if hasattr(kind, "__dataclass_fields__") and kind.__hash__ is not None:
        return b"R" + _sized(name) + _encode_tuple(tuple(getattr(key, field) for field in kind.__dataclass_fields__))
    for base in (tuple, int, float, str, bytes, datetime.datetime):
        if isinstance(key, base):
            return b"S" + _sized(name) + _ENCODERS[base](key)
    raise KeyEncodingError(
        explain(
            f"a key must be immutable and have a deterministic encoding, got {key!r} of type {kind.__name__}",
            hint="replace a list by a tuple, a set by a frozenset, a dict by tuple(sorted(d.items()))",
        )
    )
