"""The messages of the benchmarks of Kafka: written, read by the client alone, and numbered by a stream."""

from __future__ import annotations

import multiprocessing
import struct
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

__all__ = ["FIELDS", "NumberingProcess", "Traffic", "consumed", "fill", "numbered", "object_of"]

FIELDS: Final = pa.schema({"number": pa.int64(), "delay": pa.float64(), "carrier": pa.string(), "padding": pa.string()})
"""The fields of values in JSON."""

_KEYS: Final = 100
_BYTES: Final = 100
_AT_ONCE: Final = 10_000
_PATIENCE: Final = 60.0
_MESSAGE: Final = struct.Struct("<qd")
"""The number of a message, and when it was written."""
_RESULT: Final = struct.Struct("<qdq")
"""The same, and its number among those of its key."""


def numbered(number: int) -> bytes:
    """Return a value of 100 bytes."""
    return b"%0*d" % (_BYTES, number)


def object_of(number: int) -> bytes:
    """Return a value of 100 bytes in JSON, with the fields in `FIELDS`."""
    value = b'{"number": %d, "delay": %.1f, "carrier": "UA", "padding": "' % (number, number % 1_000 / 10)
    return value.ljust(_BYTES - 2, b"x") + b'"}'


def fill(servers: str, topic: str, messages: int, value: Callable[[int], bytes] = numbered) -> None:
    """Write messages of 100 bytes, each with the value that is made of its number."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0})
    for number in range(messages):
        while True:
            try:
                producer.produce(topic, value=value(number), key=b"%d" % (number % _KEYS))
                break
            except BufferError:
                producer.flush(_PATIENCE)
    producer.flush(_PATIENCE)


def consumed(servers: str, topic: str, messages: int) -> int:
    """Read so many messages with the client alone; return how many bytes they had."""
    consumer = _consumer(servers, topic)
    count = size = 0
    while count < messages:
        for message in consumer.consume(_AT_ONCE, 0.1):
            if message.error() is None:
                count += 1
                size += len(message.value() or b"")
    consumer.close()
    return size


class _Number(dm.DoFn):
    """Number the messages of each key."""

    count = dm.CombiningStateSpec(dm.Count())

    def process(self, pair: tuple[bytes, bytes], count: Any) -> list[tuple[bytes, bytes]]:
        """Give each message its number."""
        key, value = pair
        count.add(value)
        return [(key, _RESULT.pack(*_MESSAGE.unpack(value), count.read()))]


def _number(servers: str, source: str, target: str, checkpoint: str, over: Event) -> None:
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint))
    read = dm.io.ReadKafka(source, bootstrap_servers=servers, event_time=dm.ARRIVAL)
    pairs = p | read | dm.Map(lambda row: (row.key, row.value)).with_output_types(tuple[bytes, bytes])
    write = dm.io.WriteKafka(target, bootstrap_servers=servers, value="bytes")
    _ = pairs | dm.ParDo(_Number()).with_output_types(tuple[bytes, bytes]) | write
    result = p.run()
    over.wait()
    result.stop()
    result.wait_until_finish()


class NumberingProcess:
    """A stream in a process of its own that numbers the messages of each key of a topic, and writes them to another."""

    def __init__(self, servers: str, source: str, target: str, checkpoint: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._over = context.Event()
        arguments = servers, source, target, checkpoint, self._over
        self._process = context.Process(target=_number, args=arguments, daemon=True)
        self._process.start()

    def stop(self) -> None:
        """Stop the stream, and wait for its process."""
        self._over.set()
        self._process.join()


class Traffic:
    """Writes messages and reads their results, by one clock."""

    def __init__(self, servers: str, source: str, target: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all", "log_level": 0})
        self._consumer = _consumer(servers, target)
        self._source = source
        self._written = 0
        self._results: list[tuple[int, int, int]] = []

    @property
    def is_complete(self) -> bool:
        """Whether each message has had one result, and the numbers of each key count up from 1."""
        numbers: dict[int, list[int]] = {}
        for _, key, count in self._results:
            numbers.setdefault(key, []).append(count)
        counted = all(sorted(counts) == list(range(1, len(counts) + 1)) for counts in numbers.values())
        return counted and sorted(number for number, _, _ in self._results) == list(range(self._written))

    def warm_up(self) -> None:
        """Write a message of each key, and wait for their results."""
        for _ in range(_KEYS):
            self._write()
        self._read_until(time.monotonic() + 2 * _PATIENCE)
        if len(self._results) < self._written:
            raise TimeoutError("the results of the first messages are not there in time")

    def measure(self, rate: int, seconds: float) -> list[float]:
        """Write messages at a rate; return after how many seconds each one's result was read."""
        taken: list[float] = []
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            due = int((now - began) * rate)
            while self._written - _KEYS < due:
                self._write()
            self._producer.poll(0)
            taken += self._read(0.001)
        return taken + self._read_until(time.monotonic() + _PATIENCE)

    def _write(self) -> None:
        value = _MESSAGE.pack(self._written, time.time())
        self._producer.produce(self._source, value=value, key=b"%d" % (self._written % _KEYS))
        self._written += 1

    def _read(self, seconds: float) -> list[float]:
        first = self._consumer.poll(seconds)
        taken = []
        for message in () if first is None else (first, *self._consumer.consume(_AT_ONCE, 0)):
            if message.error() is None:
                number, sent, count = _RESULT.unpack(message.value() or b"")
                self._results.append((number, int(message.key() or b""), count))
                taken.append(time.time() - sent)
        return taken

    def _read_until(self, deadline: float) -> list[float]:
        """Read until each message has a result, but no longer than until an instant."""
        taken: list[float] = []
        while len(self._results) < self._written and time.monotonic() < deadline:
            self._producer.poll(0)
            taken += self._read(0.1)
        return taken


def _consumer(servers: str, topic: str) -> Consumer:
    options: dict[str, Any] = {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({**options, "isolation.level": "read_committed", "log_level": 0})
    partitions = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    return consumer
