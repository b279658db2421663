"""Read ranges of offsets with a consumer that stays assigned to partitions while their ranges follow each other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.io.topics.bounds import partition_of
from dataflow_model.io.topics.client import READING
from dataflow_model.io.topics.errors import said, way_out_of
from dataflow_model.io.topics.offsets import ids_now, key_of
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import Consumer, KafkaError, Message

    from dataflow_model.io.topics.source import KafkaSource

_SECONDS: Final = 60.0
"""How long to wait for rows that are there."""
_ROWS: Final = 20_000
"""The most rows of a batch."""
_TRIES: Final = 20
"""How often a consumer may be told that an offset does not exist, although it does."""
_WAITING_BYTES: Final = 8 * 2**20
"""The most bytes of a partition that wait while another one is read; then it is assigned anew."""
_ROW_BYTES: Final = 200
"""What a row takes besides its value, about."""
_DEFAULTS: Final = {"fetch.wait.max.ms": 20}
"""The longest time for which brokers hold a request: a partition that is assigned waits for that, and so does the news
that a partition has ended, on which a range waits that ends with the marker of a transaction."""
_END: Final = "_PARTITION_EOF"
_RESET: Final = "_AUTO_OFFSET_RESET"
_PASSING: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN"})
_NO_TIME: Final = 0
"""The type of the timestamp of a message that has none."""
_held = threading.local()


@attrs.define
class _Partition:
    """A partition to which a consumer is assigned.

    Attributes:
        offset: the offset from which on `read` and what the consumer yields are the next rows; -1 while a range is
            read.
        read: the rows that the consumer has yielded, but that no range has contained yet.
        end: where the partition ended when it was last read to its end; -1 before that.
        is_lost: whether there are no rows behind `read`, since they have been deleted.
    """

    offset: int
    read: list[Message] = attrs.field(factory=list)
    end: int = -1
    is_lost: bool = False


@attrs.define(eq=False)
class _Reader:
    """A consumer that stays assigned to the partitions of which ranges are read.

    The consumer asks a broker for the rows of all its partitions at once, and the broker holds the request for a while
    if there are none. So a partition that is assigned anew waits for the end of that request.

    Attributes:
        consumer: the consumer.
        partitions: the partitions to which it is assigned.
        lost: by partition, the number of offsets that its last range lacked, since they have been deleted.
        errors: by partition, the last error that does not pass.
        fault: the last such error that is about no partition.
        ids: the ids of topics after everything was read that the consumer has yielded; empty if they are not known.
    """

    consumer: Consumer
    partitions: dict[tuple[str, int], _Partition] = attrs.field(factory=dict)
    lost: dict[str, int] = attrs.field(factory=dict)
    errors: dict[tuple[str, int], KafkaError] = attrs.field(factory=dict)
    fault: KafkaError | None = None
    ids: dict[str, str | None] = attrs.field(factory=dict)

    def begin(self, origin: str, offset: int) -> _Partition:
        """Return a partition of which a range is read from an offset on; earlier ranges of it end."""
        name = partition_of(origin)
        known = self.partitions.get(name)
        if known is None or known.offset != offset:
            return self.go_to(origin, offset)
        self.partitions[name] = attrs.evolve(known, offset=-1)
        return self.partitions[name]

    def go_to(self, origin: str, offset: int) -> _Partition:
        """Read from an offset of a partition on."""
        from confluent_kafka import TopicPartition

        name = partition_of(origin)
        self.leave(name)
        self.consumer.incremental_assign([TopicPartition(*name, offset)])
        self.partitions[name] = _Partition(-1)
        return self.partitions[name]

    def leave(self, name: tuple[str, int]) -> None:
        """End the assignment to a partition, if there is one."""
        from confluent_kafka import TopicPartition

        if self.partitions.pop(name, None) is not None:
            self.consumer.incremental_unassign([TopicPartition(*name)])

    def take_next(self, seconds: float) -> bool:
        """Take what there is of all partitions; return whether there was anything within some seconds."""
        first = self.consumer.poll(max(0.0, seconds))
        if first is None:
            return False
        self.ids = {}
        # With a time-out, `consume` would wait until it has this many.
        for message in [first, *self.consumer.consume(_ROWS - 1, 0)]:
            self._take(message)
        return True

    def error_in(self, origin: str) -> KafkaError | None:
        """Return an error that does not pass and is about a partition or none; partitions with others are left."""
        for name in self.errors:
            self.leave(name)
        error = self.errors.get(partition_of(origin), self.fault)
        self.errors, self.fault = {}, None
        return error

    def _take(self, message: Message) -> None:
        """Take a row, or the news that there are no more for now, or none any more, of the partition that it is of."""
        name: Any = message.topic(), message.partition()
        partition, error = self.partitions.get(name), message.error()
        if error is None:
            if partition is not None:
                partition.read.append(message)
        elif error.name() == _END:
            if partition is not None:
                partition.end = _offset(message)
        elif error.name() == _RESET:
            if partition is not None:
                partition.is_lost = True
        elif not error.retriable() and error.name() not in _PASSING:
            if partition is not None:
                self.errors[name] = error
            elif message.topic() is None or (message.partition() or 0) < 0:
                self.fault = error

    def leave_full(self, origin: str) -> None:
        """End the assignment to partitions with many rows that wait while another one is read."""
        for name, partition in list(self.partitions.items()):
            waiting = partition.read
            if name != partition_of(origin) and len(waiting) * _ROW_BYTES + sum(map(len, waiting)) > _WAITING_BYTES:
                self.leave(name)

    def bounds(self, origin: str) -> tuple[int, int]:
        """Return the first offset that a partition has, and the one behind the last."""
        from confluent_kafka import TopicPartition

        bounds: Any = self.consumer.get_watermark_offsets(TopicPartition(*partition_of(origin)), timeout=_SECONDS)
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
    reader = _reader(source)
    partition = reader.begin(origin, start)
    reader.lost[origin] = 0
    earliest, latest = (int(at) if isinstance(at, EventTime) else None for at in (source.start, source.end))
    last, tries = start - 1, 0
    while last < stop - 1 and (partition.read or partition.end < stop):
        try:
            messages = _next(source, reader, partition, origin, last + 1)
        except _LostError:
            first = _first_left(source, reader, origin, last + 1)
            reader.lost[origin] += min(first, stop) - last - 1
            tries = tries + 1 if first == last + 1 else 0
            if tries > _TRIES:
                raise SourceError(
                    f"ReadKafka cannot read {origin} from offset {first} on: the brokers list that offset, but refuse "
                    "to read there",
                    hint="make sure that all replicas of the partition are in sync, and start the run again",
                ) from None
            last = min(first, stop) - 1
            partition = reader.go_to(origin, last + 1)
            continue
        rows = [message for message in messages if start <= _offset(message) < stop]
        partition.read = messages[len(rows) :]
        last = max([last, *map(_offset, messages[-1:])])
        wanted = [row for row in rows if _is_between(row, earliest, latest)]
        if wanted:
            yield _batch(source, wanted, origin)
        if reader.partitions.get(partition_of(origin)) is not partition:  # the consumer has left it in the meantime
            partition = reader.go_to(origin, last + 1)
    partition.offset = stop


def offsets_lost(source: KafkaSource, origin: str) -> int:
    """Return how many offsets the last range of a partition lacked that this thread has read."""
    return _reader(source).lost.pop(origin, 0)


def id_after_reading(source: KafkaSource, topic: str) -> str | None:
    """Return the id of a topic after everything was read that this thread has of it; `None` if it does not exist.

    Rows are asked for by the name of a topic. Ids are never used again, so if a topic has the same id as when it was
    listed, it had that id in between, when rows were read. Brokers are asked once for all partitions that were read at
    once.

    Raises:
        SourceError: if the brokers do not answer.
    """
    reader = _reader(source)
    if topic not in reader.ids:
        reader.ids = ids_now(source, {topic, *(name for name, _ in reader.partitions)})
    return reader.ids[topic]


def _next(source: KafkaSource, reader: _Reader, partition: _Partition, origin: str, start: int) -> list[Message]:
    """Return the next rows of a partition; none if it ends there."""
    deadline = time.monotonic() + _SECONDS
    end = partition.end
    while not partition.read and not partition.is_lost and partition.end == end:
        try:
            is_answered = reader.take_next(deadline - time.monotonic())
            error = reader.error_in(origin)
        except BaseException:  # an interrupt, which may have lost rows that the consumer has yielded
            _readers().pop(key_of(source), None)
            raise
        if error is not None:
            raise SourceError(
                f"ReadKafka cannot read {origin} from offset {start} on: {said(error, source.options)}",
                hint=way_out_of(error),
            )
        if not is_answered:
            raise SourceError(
                f"ReadKafka cannot read {origin} from offset {start} on: no answer within {_SECONDS:.0f} s",
                hint="make sure that the brokers run and can be reached, and start the run again",
            )
        reader.leave_full(origin)
    if partition.is_lost and not partition.read:
        raise _LostError
    return partition.read


def _first_left(source: KafkaSource, reader: _Reader, origin: str, start: int) -> int:
    """Return the first offset that there is from `start` on, where a consumer was told that there are no rows there.

    Raises:
        SourceError: if rows have been deleted that must not be skipped, or there are none behind them.
    """
    low, high = reader.bounds(origin)
    if low > start and source.on_loss == "skip":
        return low
    if low <= start <= high:  # it was told again about an earlier offset
        return start
    count = f"{low - start} offsets are" if low > start else "the rows are"
    raise SourceError(
        f"ReadKafka was to read {origin} from offset {start} on, but it has offsets {low} to {high - 1}: "
        f"{count} lost, by the retention of the topic or because they were deleted",
        hint="choose a longer retention.ms for the topic, and pass on_loss='skip' to go on with the rows that are left"
        if low > start
        else "start a new run with another checkpoint",
    )


def _reader(source: KafkaSource) -> _Reader:
    """Return the consumer of this thread for a source."""
    from confluent_kafka import Consumer

    readers, key = _readers(), key_of(source)
    if key not in readers:
        own = {
            "bootstrap.servers": source.servers,
            "group.id": "dataflow_model",  # nobody joins it, and nothing is committed
            "auto.offset.reset": "error",  # the other settings skip rows without a word
        }
        readers[key] = _Reader(Consumer({**_DEFAULTS, **source.options, **READING, **own}))
    return readers[key]


def _readers() -> dict[Any, _Reader]:
    """Return the consumers of this thread by what they connect to."""
    readers: dict[Any, _Reader] = _held.__dict__.setdefault("readers", {})
    return readers


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
