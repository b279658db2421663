"""Read ranges of offsets with a consumer that stays assigned while ranges follow each other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.io.topics.bounds import partition_of
from dataflow_model.io.topics.client import READING
from dataflow_model.io.topics.errors import said, way_out_of
from dataflow_model.io.topics.offsets import key_of
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import Consumer, Message

    from dataflow_model.io.topics.source import KafkaSource

_SECONDS: Final = 60.0
"""How long to wait for rows that are there."""
_ROWS: Final = 20_000
"""The most rows of a batch."""
_TRIES: Final = 20
"""How often a consumer may be told that an offset does not exist, although it does."""
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
        is_lost: whether there are no rows where it is, since they have been deleted.
        reading: the reading of a range for which it was assigned last.
        lost: by partition, the number of offsets that its last range lacked, since they have been deleted.
    """

    consumer: Consumer
    origin: str = ""
    offset: int = -1
    read: list[Message] = attrs.field(factory=list)
    end: int = -1
    is_lost: bool = False
    reading: object = None
    lost: dict[str, int] = attrs.field(factory=dict)

    def go_to(self, origin: str, offset: int) -> None:
        """Read from an offset of a partition on."""
        from confluent_kafka import TopicPartition

        self.consumer.assign([TopicPartition(*partition_of(origin), offset)])
        self.origin, self.read, self.end, self.is_lost = origin, [], -1, False

    def bounds(self) -> tuple[int, int]:
        """Return the first offset that there is, and the one behind the last."""
        from confluent_kafka import TopicPartition

        bounds: Any = self.consumer.get_watermark_offsets(TopicPartition(*partition_of(self.origin)), timeout=_SECONDS)
        low, high = bounds
        return low, high


class _LostError(Exception):
    """There are no rows at the offset from which a consumer was to read."""


def read_partition(source: KafkaSource, origin: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the committed rows with offsets `[start, stop)` of a partition.

    Raises:
        SourceError: if the brokers do not answer, or rows have been deleted before they were read. If these may be
            skipped, `offsets_lost` returns their number.
    """
    position = _position(source)
    reading = position.reading = object()
    if (position.origin, position.offset) != (origin, start):
        position.go_to(origin, start)
    position.offset = -1  # unless all goes well
    position.lost[origin] = 0
    earliest, latest = (int(at) if isinstance(at, EventTime) else None for at in (source.start, source.end))
    last, tries = start - 1, 0
    while last < stop - 1 and (position.read or position.end < stop):
        try:
            messages = _next(source, position, last + 1)
        except _LostError:
            first = _first_left(source, position, last + 1)
            position.lost[origin] += min(first, stop) - last - 1
            tries = tries + 1 if first == last + 1 else 0
            if tries > _TRIES:
                raise SourceError(
                    f"ReadKafka cannot read {origin} from offset {first} on: the brokers list that offset, but refuse "
                    "to read there",
                    hint="make sure that all replicas of the partition are in sync, and start the run again",
                ) from None
            last = min(first, stop) - 1
            position.go_to(origin, last + 1)
            continue
        rows = [message for message in messages if start <= _offset(message) < stop]
        position.read = messages[len(rows) :]
        last = max([last, *map(_offset, messages[-1:])])
        wanted = [row for row in rows if _is_between(row, earliest, latest)]
        if wanted:
            yield _batch(source, wanted, origin)
        if position.reading is not reading:  # another range was read in the meantime
            position.reading = reading
            position.go_to(origin, last + 1)
    position.offset = stop


def offsets_lost(source: KafkaSource, origin: str) -> int:
    """Return how many offsets the last range of a partition lacked that this thread has read."""
    return _position(source).lost.pop(origin, 0)


def _next(source: KafkaSource, position: _Position, start: int) -> list[Message]:
    """Return the next rows, if there are any."""
    if position.read:
        return position.read
    if position.is_lost:
        raise _LostError
    first = position.consumer.poll(_SECONDS)
    if first is None:
        raise SourceError(
            f"ReadKafka cannot read {position.origin} from offset {start} on: no answer within {_SECONDS:.0f} s",
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
            # It is said once, perhaps only after another partition was assigned.
            position.is_lost |= (message.topic(), message.partition()) == partition_of(position.origin)
        elif not error.retriable() and error.name() not in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}:
            raise SourceError(
                f"ReadKafka cannot read {position.origin} from offset {start} on: {said(error, source.options)}",
                hint=way_out_of(error),
            )
    if position.is_lost and not rows:
        raise _LostError
    return rows


def _first_left(source: KafkaSource, position: _Position, start: int) -> int:
    """Return the first offset that there is from `start` on, where a consumer was told that there are no rows there.

    Raises:
        SourceError: if rows have been deleted that must not be skipped, or there are none behind them.
    """
    low, high = position.bounds()
    if low > start and source.on_loss == "skip":
        return low
    if low <= start <= high:  # it was told again about an earlier offset
        return start
    count = f"{low - start} offsets are" if low > start else "the rows are"
    raise SourceError(
        f"ReadKafka was to read {position.origin} from offset {start} on, but it has offsets {low} to {high - 1}: "
        f"{count} lost, by the retention of the topic or because they were deleted",
        hint="choose a longer retention.ms for the topic, and pass on_loss='skip' to go on with the rows that are left"
        if low > start
        else "start a new run with another checkpoint",
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
    topic, partition = partition_of(origin)
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
    schema = source.message_columns
    columns = [pa.array(list(map(values[field.name], rows)), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(row: Message) -> list[dict[str, Any]]:
    headers: Any = row.headers() or ()
    return [{"name": name, "value": value} for name, value in headers]


def _timestamp(row: Message) -> int | None:
    """Return the time of a row in microseconds."""
    kind, millis = row.timestamp()
    return None if kind == _NO_TIME else millis * 1_000
