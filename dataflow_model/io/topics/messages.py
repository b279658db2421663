"""Elements as messages of Kafka: their keys and values as bytes, made by the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from dataflow_model.errors import SinkError, shown
from dataflow_model.io.sinks.element_rows import fit_batches, infer_schema
from dataflow_model.io.sinks.json_lines import json_lines, json_values, text_of
from dataflow_model.plan.endpoints.sinks import SinkWriter
from dataflow_model.values import pickles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dataflow_model.io.topics.sink import KafkaSink
    from dataflow_model.plan.columns.records import Record

_OVERHEAD: Final = 512
"""The bytes of a message besides key and value, at most: those of its headers, lengths and checksums."""
_LARGEST: Final = 1_000_000
"""The client's own limit, unless the options change it."""


class Message(NamedTuple):
    """A message that waits for the commit.

    Attributes:
        order: sorts the messages of a commit into emission order.
        key: its key, if it has one.
        value: its value; `None` is a tombstone.
        event_time: in microseconds since the epoch.
        is_retraction: whether it retracts an earlier value.
    """

    order: tuple[Any, ...]
    key: bytes | None
    value: bytes | None
    event_time: int
    is_retraction: bool


@attrs.frozen
class PendingMessages:
    """The messages of one task, for the commit.

    Attributes:
        schema: the columns of the rows, as given or as this task has inferred them; `None` if there are none.
        messages: the fields of each `Message`.
    """

    schema: pa.Schema | None
    messages: list[tuple[Any, ...]]


def messages_of(pending: Sequence[bytes]) -> list[Message]:
    """Return the messages of all tasks of a commit in emission order."""
    parts: list[PendingMessages] = [pickles.load(part) for part in pending]
    messages = [Message(*fields) for part in parts for fields in part.messages]
    messages.sort(key=lambda message: message.order)
    return messages


class KafkaWriter(SinkWriter):
    """Collects one task's messages, and sends them to the commit in its own message."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._schema = sink.full_schema
        self._unseen: list[Record] = []
        self._messages: list[tuple[Any, ...]] = []
        self._largest = int(sink.options.get("message.max.bytes", _LARGEST)) - _OVERHEAD

    def write(self, records: Sequence[Record]) -> None:
        """Turn records into messages.

        Raises:
            SinkError: for a record that does not fit, or is too large for a message.
        """
        if self._sink.value == "bytes":
            self._take(self._plain(record) for record in records)
        elif self._schema is None:
            self._unseen.extend(records)
        elif records:
            self._take(self._rows(records, self._schema))

    def close(self) -> bytes:
        """Return the message for the commit."""
        if self._unseen:
            self._schema = infer_schema(self._unseen, panes=self._sink.panes, retractions=self._sink.retractions)
            unseen, self._unseen = self._unseen, []
            if self._schema is None:
                raise self._refusal(unseen[0].value, "it has no fields, and a row must have at least one column")
            self._sink.check_keys(self._schema)
            self._take(self._rows(unseen, self._schema))
        return pickles.dump(PendingMessages(self._schema, self._messages))

    def abort(self) -> None:
        """Forget the messages."""
        self._unseen, self._messages = [], []

    def _take(self, messages: Iterator[Message]) -> None:
        for message in messages:
            size = len(message.key or b"") + len(message.value or b"")
            if size > self._largest:
                raise SinkError(
                    f"{self._sink.label!r} has a message of {size} bytes, and the client's limit is {self._largest}",
                    hint="write smaller values, or pass options={'message.max.bytes': …} and increase "
                    "max.message.bytes of the topic",
                )
            self._messages.append(tuple(message))

    def _rows(self, records: Sequence[Record], schema: pa.Schema) -> Iterator[Message]:
        """Yield records as rows in JSON."""
        sink = self._sink
        added = {"panes": sink.panes, "retractions": sink.retractions}
        for batch, places, misfits in fit_batches(records, schema, **added):
            if misfits:
                raise self._refusal(misfits[0].value, misfits[0].reason)
            keys = _keys(batch, sink.keys)
            for place, key, line in zip(places, keys, json_lines(batch), strict=True):
                record = records[place]
                if key is None and sink.upsert:
                    raise self._refusal(record.value, f"its key {sink.keys[0]!r} is null")
                yield self._message(record, key, line.encode())

    def _plain(self, record: Record) -> Message:
        """Return an element that is a value, or a key and a value, as text or bytes."""
        element = record.value
        parts: Any = element if isinstance(element, tuple) and len(element) == 2 else (None, element)  # noqa: PLR2004
        key, value = parts
        for part in (key, value):
            if not (part is None or isinstance(part, bytes | str)):
                raise self._refusal(element, f"{shown(part)} is neither bytes nor text")
        if key is None and self._sink.upsert:
            raise self._refusal(element, "it has no key")
        return self._message(record, _encoded(key), _encoded(value))

    def _message(self, record: Record, key: bytes | None, value: bytes | None) -> Message:
        is_tombstone = record.is_retraction and self._sink.upsert
        return Message(record.order, key, None if is_tombstone else value, int(record.event_time), record.is_retraction)

    def _refusal(self, value: Any, reason: str) -> SinkError:
        way_out = (
            "make pairs of a key and a value, each bytes or text, with dm.Map(…)"
            if self._sink.value == "bytes"
            else "map the elements to the columns first, or pass schema=pa.schema({…})"
        )
        return SinkError(f"{self._sink.label!r} cannot write {shown(value)}: {reason}", hint=way_out)


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> Sequence[bytes | None]:
    """Return the keys of rows: text as it is, any other value and several columns as JSON."""
    if not names:
        return [None] * batch.num_rows
    if len(names) > 1:
        return [line.encode() for line in json_lines(batch.select(names))]
    values = json_values(batch.column(names[0]))
    return [
        None if value is None else (value if isinstance(value, str) else text_of(value)).encode() for value in values
    ]


def _encoded(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
