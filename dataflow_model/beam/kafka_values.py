"""Keys and values of Kafka's messages, as Java's serializers and deserializers make them."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, shown

if TYPE_CHECKING:
    from collections.abc import Callable

_JAVA: Final = "org.apache.kafka.common.serialization."
_NUMBERS: Final = {"Long": ">q", "Integer": ">i", "Short": ">h", "Double": ">d", "Float": ">f"}
_MICROS: Final = 1_000
_ELSEWHERE: Final = ("topic", "partition", "timestamp")
"""Fields of rows to write that say where and when a message is, which the sink decides."""


@attrs.frozen
class Number:
    """Numbers as Java writes them, in so many bytes, the most significant one first."""

    format: str

    def decode(self, encoded: bytes) -> Any:
        """Return the number."""
        [number] = struct.unpack(self.format, encoded)
        return number

    def encode(self, number: Any) -> bytes:
        """Return its bytes."""
        return struct.pack(self.format, number)


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidType(
            f"a key or value for ByteArraySerializer must be bytes, got {shown(value)}",
            hint="encode it in front of WriteToKafka, or name another serializer",
        )
    return value


def _as_text(encoded: bytes) -> str:
    """Return text as Java decodes it: bytes that are no UTF-8 become replacement characters."""
    return encoded.decode(errors="replace")


DESERIALIZERS: Final[dict[str, Callable[[bytes], Any]]] = {
    f"{_JAVA}ByteArrayDeserializer": bytes,
    f"{_JAVA}StringDeserializer": _as_text,
    **{f"{_JAVA}{name}Deserializer": Number(text).decode for name, text in _NUMBERS.items()},
}
"""What Kafka's own deserializers in Java do, by name.

Example:
    >>> DESERIALIZERS["org.apache.kafka.common.serialization.LongDeserializer"](bytes([0, 0, 0, 0, 0, 0, 1, 2]))
    258
"""
SERIALIZERS: Final[dict[str, Callable[[Any], bytes]]] = {
    f"{_JAVA}ByteArraySerializer": _as_bytes,
    f"{_JAVA}StringSerializer": str.encode,
    **{f"{_JAVA}{name}Serializer": Number(text).encode for name, text in _NUMBERS.items()},
}
"""What Kafka's own serializers in Java do, by name."""


@attrs.frozen
class Decoded:
    """Turns a row of `ReadKafka` into the element that `ReadFromKafka` has.

    Attributes:
        key, value: decode key and value; one that is missing is `None`.
        is_row: whether the element is a row with topic, partition and so on, rather than a pair of key and value.
    """

    key: Callable[[bytes], Any]
    value: Callable[[bytes], Any]
    is_row: bool

    def __call__(self, row: Any) -> Any:
        """Return the element."""
        key, value = self._part(row, "key", self.key), self._part(row, "value", self.value)
        if not self.is_row:
            return key, value
        return beam.Row(
            topic=row.topic,
            partition=row.partition,
            offset=row.offset,
            timestamp=_millis(row.timestamp),
            key=key,
            value=value,
            headers=[beam.Row(key=header["name"], value=header["value"]) for header in row.headers],
        )

    @staticmethod
    def _part(row: Any, name: str, decode: Callable[[bytes], Any]) -> Any:
        encoded = getattr(row, name)
        try:
            return None if encoded is None else decode(encoded)
        except struct.error as error:
            raise InvalidArgument(
                f"the {name} of {row.topic}/{row.partition}, offset {row.offset}, cannot be decoded: {error}",
                hint=f"use the {name}_deserializer of what is in the topic, or read bytes and decode them in a Map",
            ) from error


@attrs.frozen
class Encoded:
    """Turns a pair into the key and the value of a message, as bytes; one that is `None` stays so.

    Attributes:
        key, value: encode key and value.
    """

    key: Callable[[Any], bytes]
    value: Callable[[Any], bytes]

    def __call__(self, pair: Any) -> tuple[bytes | None, bytes | None]:
        """Return key and value."""
        key, value = pair
        return None if key is None else self.key(key), None if value is None else self.value(value)


def with_headers(row: Any) -> tuple[Any, ...]:
    """Return key, value and headers of a row that `WriteToKafka(with_headers=True)` takes.

    Raises:
        InvalidArgument: for a row with a topic, a partition or a timestamp of its own.
    """
    for name in _ELSEWHERE:
        if getattr(row, name, None) is not None:
            raise InvalidArgument(
                f"a row for WriteToKafka must not say where or when its message is, got {name}={getattr(row, name)!r}",
                hint=f"leave {name} out, or write to a topic each with WriteToKafka",
            )
    headers = getattr(row, "headers", None) or ()
    return row.key, row.value, tuple((header.key, header.value) for header in headers)


def _millis(instant: Any) -> int:
    return int(instant.timestamp() * 1_000_000 + 0.5) // _MICROS
