"""Elements as messages of Kafka: their keys, values and headers as bytes, made by the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from dataflow_model.errors import SinkError, shown
from dataflow_model.io.sinks.element_rows import Misfit, fit_batches, infer_schema
from dataflow_model.io.sinks.json_lines import json_lines, json_values, text_of
from dataflow_model.plan.endpoints.sinks import SinkWriter
from dataflow_model.values import pickles

if TYPE_CHECKING:
    import pyarrow as pa

    from dataflow_model.io.topics.sink import KafkaSink
    from dataflow_model.plan.columns.records import Record

Headers = tuple[tuple[str, bytes | None], ...]
RESERVED: Final = "dataflow_model."
"""The beginning of the names of headers that this package writes."""
_OVERHEAD: Final = 512
"""The bytes of a message besides key, value and headers of the user, at most: those of lengths and checksums too."""
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
        headers: those of the user.
        is_dead_letter: whether it is about an element that does not fit.
    """

    order: tuple[Any, ...]
    key: bytes | None
    value: bytes | None
    event_time: int
    is_retraction: bool
    headers: Headers = ()
    is_dead_letter: bool = False

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        parts = [self.key, self.value, *(part for name, value in self.headers for part in (name.encode(), value))]
        return sum(len(part) for part in parts if part is not None)


@attrs.frozen
class PendingMessages:
    """The messages of one task, for the commit.

    Attributes:
        schema: the columns of the rows, as given or as this task has inferred them; `None` if there are none.
        messages: the fields of each `Message`; none if they are published.
        rows: the number of messages, including retractions.
        dead_letters: the number of those about elements that do not fit.
        is_published: whether the task has published them.
    """

    schema: pa.Schema | None
    messages: list[tuple[Any, ...]]
    rows: int
    dead_letters: int
    is_published: bool = False


def messages_of(pending: Sequence[bytes]) -> list[Message]:
    """Return the messages of all tasks of a commit in emission order, those about elements that do not fit first."""
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
        self._messages: list[Message] = []
        self._dead_letters = 0
        self._largest = int(sink.options.get("message.max.bytes", _LARGEST)) - _OVERHEAD

    def write(self, records: Sequence[Record]) -> None:
        """Turn records into messages.

        Raises:
            SinkError: for a record that does not fit or is too large for a message, unless there is a topic for these.
        """
        if self._sink.value == "bytes":
            for record in records:
                self._take_plain(record)
        elif self._schema is None:
            self._unseen.extend(records)
        elif records:
            self._take_rows(records, self._schema)

    def close(self) -> bytes:
        """Return the message for the commit."""
        return pickles.dump(self._pending())

    def abort(self) -> None:
        """Forget the messages."""
        self._unseen, self._messages, self._dead_letters = [], [], 0

    def _pending(self) -> PendingMessages:
        if self._unseen:
            self._schema = infer_schema(self._unseen, panes=self._sink.panes, retractions=self._sink.retractions)
            unseen, self._unseen = self._unseen, []
            if self._schema is None:
                for record in unseen:
                    self._refuse(record, "it has no fields, and a row must have at least one column")
            else:
                self._sink.check_columns(self._schema)
                self._take_rows(unseen, self._schema)
        rows = len(self._messages) - self._dead_letters
        return PendingMessages(self._schema, list(map(tuple, self._messages)), rows, self._dead_letters)

    def _take_rows(self, records: Sequence[Record], schema: pa.Schema) -> None:
        """Take records as rows in JSON."""
        sink = self._sink
        for batch, indexes, misfits in fit_batches(records, schema, panes=sink.panes, retractions=sink.retractions):
            for misfit in misfits:
                self._refuse(misfit, misfit.reason)
            keys, headers = _keys(batch, sink.keys), _headers(batch, sink.headers)
            for index, key, line, own in zip(indexes, keys, json_lines(batch), headers, strict=True):
                self._take(records[index], key, line.encode(), own)

    def _take_plain(self, record: Record) -> None:
        """Take an element that is a value, a key and a value, or these and headers, as text or bytes."""
        element = record.value
        parts: Any = element if isinstance(element, tuple) and len(element) in {2, 3} else (None, element)
        key, value, *rest = parts
        for part in (key, value):
            if not (part is None or isinstance(part, bytes | str)):
                self._refuse(record, f"{shown(part)} is neither bytes nor text")
                return
        try:
            headers = headers_of(rest[0]) if rest else ()
        except ValueError as error:
            self._refuse(record, str(error))
        else:
            self._take(record, _encoded(key), _encoded(value), headers)

    def _take(self, record: Record, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        sink = self._sink
        if key is None and sink.upsert:
            self._refuse(record, f"its key {sink.keys[0]!r} is null" if sink.keys else "it has no key")
            return
        is_tombstone = record.is_retraction and sink.upsert
        content = None if is_tombstone else value
        message = Message(record.order, key, content, int(record.event_time), record.is_retraction, headers)
        if message.size > self._largest:
            self._refuse(record, f"its message has {message.size} bytes, and the client's limit is {self._largest}")
        else:
            self._messages.append(message)

    def _refuse(self, record: Record | Misfit, reason: str) -> None:
        """Write a dead letter, or raise an error if there is no topic for these."""
        sink = self._sink
        if sink.dead_letters is None:
            way_out = (
                "make pairs of a key and a value, each bytes or text, with dm.Map(…)"
                if sink.value == "bytes"
                else "map the elements to the columns first"
            )
            raise SinkError(
                f"{sink.label!r} cannot write {shown(record.value)}: {reason}",
                hint=f"{way_out}, or pass dead_letters= with a topic for elements that do not fit",
            )
        letter: dict[str, Any] = {"row": Misfit(record.value, reason).text, "label": sink.label, "reason": reason}
        if record.is_retraction:
            letter["is_retraction"] = True
        value = json.dumps(letter, ensure_ascii=False).encode(errors="backslashreplace")
        if len(value) > self._largest:
            value = json.dumps(letter | {"row": shown(record.value)}).encode()
        self._messages.append(Message((), None, value, 0, is_retraction=False, is_dead_letter=True))
        self._dead_letters += 1


class WeakKafkaWriter(KafkaWriter):
    """Collects one part of a micro-batch, and writes it to the topic on closing, at least once."""

    def __init__(self, sink: KafkaSink, commit: str) -> None:
        super().__init__(sink)
        self._commit = commit

    def close(self) -> bytes:
        """Write the messages, and return what they were."""
        from dataflow_model.io.topics.producing import send

        pending = self._pending()
        if self._messages:
            send(self._sink, self._commit, sorted(self._messages, key=lambda message: message.order))
        return pickles.dump(attrs.evolve(pending, messages=[], is_published=True))


def headers_of(given: Any) -> Headers:
    """Return headers, given as a dict or as pairs of a name and a value.

    Raises:
        ValueError: for something else, a name that is not text or is reserved, or a value that is not bytes or text.

    Example:
        >>> headers_of({"source": "gate", "trace": None})
        (('source', b'gate'), ('trace', None))
    """
    pairs: Any = given.items() if isinstance(given, Mapping) else given
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise ValueError(f"headers must be a dict or pairs of a name and a value, got {shown(given)}")  # noqa: TRY004
    headers = []
    for pair in pairs:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)):  # noqa: PLR2004
            raise ValueError(f"a header must be a name and a value, got {shown(pair)}")
        name, value = pair
        if name.startswith(RESERVED):
            raise ValueError(f"the names of headers must not begin with {RESERVED!r}, got {name!r}")
        if not (value is None or isinstance(value, bytes | str)):
            raise ValueError(f"the header {name!r} must be bytes, text or None, got {shown(value)}")
        headers.append((name, _encoded(value)))
    return tuple(headers)


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> Sequence[bytes | None]:
    """Return the keys of rows: text as it is, any other value and several columns as JSON."""
    if not names:
        return [None] * batch.num_rows
    if len(names) > 1:
        return [line.encode() for line in json_lines(batch.select(names))]
    return _texts(batch, names[0])


def _headers(batch: pa.RecordBatch, names: Sequence[str]) -> Sequence[Headers]:
    """Return the headers of rows: a column each, with its name."""
    if not names:
        return [()] * batch.num_rows
    return [
        tuple(zip(names, values, strict=True)) for values in zip(*(_texts(batch, name) for name in names), strict=True)
    ]


def _texts(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    """Return the values of a column: text as it is, any other as JSON."""
    return [
        None if value is None else (value if isinstance(value, str) else text_of(value)).encode()
        for value in json_values(batch.column(name))
    ]


def _encoded(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
