"""Encoded keys as text, for people who look into a checkpoint: nothing is unpickled, and no class is needed."""

from __future__ import annotations

import datetime
import struct
import uuid
from typing import TYPE_CHECKING, Final

from dataflow_model.durable import NAMES
from dataflow_model.errors import shown
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 80
_LENGTH: Final = struct.Struct(">I")
_DOUBLE: Final = struct.Struct(">d")
_MICROS: Final = 1_000_000


def shown_encoded(encoded: bytes) -> str:
    """Return a key that `encode_key` has encoded as text of at most 80 characters.

    The text resembles the `repr` of the key; of a record it shows the fields that are compared, without their names.

    Example:
        >>> from dataflow_model.values import encode_key
        >>> shown_encoded(encode_key(("UA", 7))), shown_encoded(encode_key(None))
        ("('UA', 7)", 'None')
    """
    try:
        text = _shown(encoded)
    except (ValueError, IndexError, OverflowError, struct.error):  # of a later version of the package
        text = repr(encoded)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _shown(encoded: bytes) -> str:
    tag, body = encoded[:1], encoded[1:]
    if tag in _CONTAINERS:
        return _CONTAINERS[tag](body)
    return _SCALARS[tag](body) if tag in _SCALARS else repr(encoded)


def _integer(body: bytes) -> str:
    return shown(int(body[1:], 16)) if body.startswith((b"x", b"-x")) else body.decode()


def _instant(body: bytes) -> str:
    micros, _, finer = body.partition(b".")
    return format_instant(int(micros)) + (f" + {int(finer)} as" if finer else "")


def _local(body: bytes) -> str:
    return _instant(body).replace("Z", "")


def _period(body: bytes) -> str:
    if body.startswith(b"M"):
        return f"{int(body[1:])} months"
    micros, _, _ = body.partition(b".")
    return f"{int(micros) / _MICROS:g} s"


def _parts(body: bytes) -> list[str]:
    """Return the parts of a container as texts; each is preceded by its length."""
    texts = []
    while body:
        (length,) = _LENGTH.unpack(body[: _LENGTH.size])
        end = _LENGTH.size + length
        texts.append(_shown(body[_LENGTH.size : end]))
        body = body[end:]
    return texts


def _tuple(body: bytes) -> str:
    texts = _parts(body)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _named(body: bytes) -> tuple[str, str]:
    """Return the name of a class without its module, and the value as text."""
    (length,) = _LENGTH.unpack(body[: _LENGTH.size])
    end = _LENGTH.size + length
    name = body[_LENGTH.size : end].decode()
    return NAMES.get(name, name).replace(":", ".").rpartition(".")[2], _shown(body[end:])


def _record(body: bytes) -> str:
    name, value = _named(body)
    return f"{name}{value.removesuffix(',)').removesuffix(')')})" if value.startswith("(") else f"{name}({value})"


def _member(body: bytes) -> str:
    name, value = _named(body)
    return f"{name}.{value[2:-3]}" if value.startswith("('") else f"{name}({value})"


_SCALARS: Final[dict[bytes, Callable[[bytes], str]]] = {
    b"n": lambda _: "None",
    b"b": lambda body: str(body == b"1"),
    b"i": _integer,
    b"f": lambda body: repr(_DOUBLE.unpack(body)[0]),
    b"s": lambda body: repr(body.decode("utf-8", "surrogatepass")),
    b"y": repr,
    b"d": _instant,
    b"l": _local,
    b"a": lambda body: datetime.date.fromordinal(int(body)).isoformat(),
    b"c": lambda body: body.decode(),
    b"e": _period,
    b"m": lambda body: f"Decimal({body.decode()})",
    b"u": lambda body: str(uuid.UUID(bytes=body)),
}
_CONTAINERS: Final[dict[bytes, Callable[[bytes], str]]] = {
    b"t": _tuple,
    b"z": lambda body: f"{{{', '.join(_parts(body))}}}",
    b"R": _record,
    b"S": _record,
    b"E": _member,
}
