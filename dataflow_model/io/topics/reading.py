"""Read ranges of offsets with a consumer that stays assigned while ranges follow each other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.io.topics.client import READING
from dataflow_model.io.topics.errors import said, way_out_of
from dataflow_model.io.topics.offsets import key_of, place_of
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import Consumer, Message

    from dataflow_model.io.topics.source import KafkaSource

_SECONDS: Final = 60.0
"""How long to wait for rows that are there."""
_ROWS: Final = 20_000
"""The most rows of a batch."""
_NO_TIME: Final = 0
"""The type of the timestamp of a message that has none."""
_held = threading.local()


@attrs.define
class _Position:
    """A consumer, and where it is.

    Attributes:
        consumer: the consumer, assigned to one partition.
        origin: that partition.
        offset: the offset of the next row that it yields, if rows are read from there on.
        read: the rows that it has yielded already, but that are behind the last range.
        end: where the partition ended when it was last read to its end; -1 before that.
    """

    consumer: Consumer
    origin: str = ""
    offset: int = -1
    read: list[Message] = attrs.field(factory=list)
    end: int = -1


def read_partition(source: KafkaSource, origin: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the committed rows with offsets `[start, stop)` of a partition.

    Raises:
        SourceError: if the rows from `start` on have been deleted, or the brokers do not answer.
    """
    from confluent_kafka import TopicPartition

    topic, partition = place_of(origin)
    position = _position(source)
    if (position.origin, position.offset) != (origin, start):
        position.consumer.assign([TopicPartition(topic, partition, start)])
        position.read, position.end = [], -1
    position.origin, position.offset = origin, -1  # unless all goes well
    earliest, latest = (int(at) if isinstance(at, EventTime) else None for at in (source.start, source.end))
    last = start - 1
    while last < stop - 1 and (position.read or position.end < stop):
        messages = _next(source, position, origin, start)
        rows = [message for message in messages if start <= _offset(message) < stop]
        position.read = messages[len(rows) :]
        last = max([last, *map(_offset, messages[-1:])])
        wanted = [row for row in rows if _is_between(row, earliest, latest)]
        if wanted:
            yield _batch(source, wanted, origin)
    position.offset = stop


def _next(source: KafkaSource, position: _Position, origin: str, start: int) -> list[Message]:
    """Return the next rows, if there are any."""
    if position.read:
        return position.read
    first = position.consumer.poll(_SECONDS)
    if first is None:
        raise SourceError(
            f"ReadKafka cannot read {origin} from offset {start} on: no answer within {_SECONDS:.0f} s",
            hint="make sure that the brokers run and can be reached, and start the run again",
        )
    rows = []
    # With a time-out, `consume` would wait until it has this many.
    for message in [first, *position.consumer.consume(_ROWS - 1, 0)]:
        error = message.error()
        if error is None:
            rows.append(message)
        elif error.name() == "_PARTITION_EOF":
            position.end = _offset(message)
        elif error.name() == "_AUTO_OFFSET_RESET":
            raise _lost(position, origin, start)
        elif not error.retriable() and error.name() not in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}:
            raise SourceError(
                f"ReadKafka cannot read {origin} from offset {start} on: {said(error, source.options)}",
                hint=way_out_of(error),
            )
    return rows


def _lost(position: _Position, origin: str, start: int) -> SourceError:
    """Return the error for rows that were deleted before they were read."""
    from confluent_kafka import TopicPartition

    topic, partition = place_of(origin)
    bounds: Any = position.consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
    low, high = bounds
    count = f"{low - start} offsets are" if low > start else "the rows are"
    return SourceError(
        f"ReadKafka was to read {origin} from offset {start} on, but it has offsets {low} to {high - 1}: {count} lost, "
        "by the retention of the topic or because they were deleted",
        hint="start a new run with another checkpoint, and choose a longer retention.ms for the topic",
    )


def _position(source: KafkaSource) -> _Position:
    """Return the consumer of this thread for a source."""
    from confluent_kafka import Consumer

    held: dict[Any, _Position] = _held.__dict__.setdefault("positions", {})
    key = key_of(source)
    if key not in held:
        own = {
            "bootstrap.servers": source.servers,
            "group.id": "dataflow_model",  # nobody joins it, and nothing is committed
            "auto.offset.reset": "error",  # the other settings skip rows without a word
        }
        held[key] = _Position(Consumer({**source.options, **READING, **own}))
    return held[key]


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _is_between(row: Message, earliest: int | None, latest: int | None) -> bool:
    """Return whether the timestamp of a row is in `[earliest, latest)`; one without a timestamp is."""
    at = None if earliest is None and latest is None else _timestamp(row)
    return at is None or ((earliest is None or at >= earliest) and (latest is None or at < latest))


def _batch(source: KafkaSource, rows: Sequence[Message], origin: str) -> pa.RecordBatch:
    topic, partition = place_of(origin)
    values: dict[str, Callable[[Message], Any]] = {
        "key": lambda row: row.key(),
        "value": lambda row: row.value(),
        "timestamp": _timestamp,
        "topic": lambda _: topic,
        "partition": lambda _: partition,
        "offset": _offset,
        "origin": lambda _: origin,
        "headers": _headers,
    }
    schema = source.schema()
    columns = [pa.array(list(map(values[field.name], rows)), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(row: Message) -> list[dict[str, Any]]:
    headers: Any = row.headers() or ()
    return [{"name": name, "value": value} for name, value in headers]


def _timestamp(row: Message) -> int | None:
    """Return the time of a row in microseconds."""
    kind, millis = row.timestamp()
    return None if kind == _NO_TIME else millis * 1_000
