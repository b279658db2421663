"""The clients of a source stay connected, and whatever they are in the midst of, each row is read once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import dataflow_model as dm
from dataflow_model.io.topics import client, offsets, reading
from dataflow_model.io.topics.source import KafkaSource
from tests.support.kafka.topics import messages_in, new_topic, send

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

PARTITIONS = 3
ROWS = 300


class CountingConsumer(confluent_kafka.Consumer):
    """Counts assignments; `interrupts` is how many calls of `consume` are interrupted once rows have been taken."""

    assigned: list[str]
    interrupts: int

    def incremental_assign(self, partitions: Any) -> None:
        self.assigned += [f"{partition.topic}/{partition.partition}" for partition in partitions]
        super().incremental_assign(partitions)

    def consume(self, *arguments: Any, **options: Any) -> Any:
        messages = super().consume(*arguments, **options)
        if type(self).interrupts:
            type(self).interrupts -= 1
            raise KeyboardInterrupt
        return messages


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> type[CountingConsumer]:
    CountingConsumer.assigned, CountingConsumer.interrupts = [], 0
    monkeypatch.setattr(confluent_kafka, "Consumer", CountingConsumer)
    return CountingConsumer


@pytest.fixture
def source(kafka: str) -> KafkaSource:
    """A topic with rows in each of its partitions, a marker of a transaction behind every tenth row."""
    topic = new_topic(kafka, partitions=PARTITIONS)
    for first in range(0, ROWS, 10 * PARTITIONS):
        numbers = range(first, first + 10 * PARTITIONS)
        send(kafka, topic, [{"value": str(n), "partition": n % PARTITIONS} for n in numbers], commits=True)
    messages_in(kafka, topic)  # waits for the end of the transactions
    return KafkaSource(topics=topic, servers=kafka, end="latest", watermark=dm.Monotonic()).bound()


def ranges(source: KafkaSource, rows: int) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of each partition with so many offsets."""
    return {
        origin.name: list(itertools.pairwise([*range(0, origin.row_count, rows), origin.row_count]))
        for origin in source.origins()
    }


def numbers(batches: Iterator[Any]) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


def test_a_partition_stays_assigned_while_its_ranges_follow_each_other(
    source: KafkaSource, consumers: type[CountingConsumer]
) -> None:
    parts = ranges(source, 7)
    read = [
        number
        for bounds in zip(*parts.values(), strict=True)
        for origin, (start, stop) in zip(parts, bounds, strict=True)
        for number in numbers(source.read(origin, start, stop))
    ]
    assert sorted(read) == list(range(ROWS))
    assert sorted(consumers.assigned) == sorted(parts)


@pytest.mark.parametrize("waiting", [0, 2_000, 8 * 2**20])
def test_ranges_that_are_read_by_turns_have_each_row_once(
    source: KafkaSource, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr(reading, "_WAITING_BYTES", waiting)
    monkeypatch.setattr(reading, "_ROWS", 5)
    parts = ranges(source, 1_000)
    open_reads = [
        source.read(origin, start, stop) for origin, bounds in parts.items() for start, stop in bounds for _ in range(2)
    ]
    read: list[list[int]] = [[] for _ in open_reads]
    for batches in itertools.zip_longest(*open_reads):
        for place, batch in enumerate(batches):
            read[place] += [] if batch is None else numbers(iter([batch]))
    for partition in range(PARTITIONS):
        expected = list(range(partition, ROWS, PARTITIONS))
        assert read[2 * partition] == read[2 * partition + 1] == expected


def test_a_range_after_one_that_was_interrupted_has_each_row(
    source: KafkaSource, consumers: type[CountingConsumer]
) -> None:
    parts = ranges(source, 30)
    read = []
    for origin, bounds in parts.items():
        for start, stop in bounds:
            consumers.interrupts = 1
            with pytest.raises(KeyboardInterrupt):
                numbers(source.read(f"{origin.rpartition('/')[0]}/{PARTITIONS - 1}", 0, 5))
            read += numbers(source.read(origin, start, stop))
    assert sorted(read) == list(range(ROWS))


@pytest.mark.parametrize("by", ["topics", "pattern"])
def test_brokers_are_asked_about_topics_and_offsets_by_one_client(
    kafka: str, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    topic, made, make = new_topic(kafka), list[Any](), confluent_kafka.admin.AdminClient.__init__

    def noted(admin: Any, options: Any) -> None:
        made.append(options)
        make(admin, options)

    monkeypatch.setattr(confluent_kafka.admin.AdminClient, "__init__", noted)
    monkeypatch.setattr(offsets, "_FRESH", 0.0)
    monkeypatch.setattr(client, "_admins", {})
    names: dict[str, Any] = {by: topic}
    source = KafkaSource(**names, servers=kafka, end="latest", watermark=dm.Monotonic()).bound()
    for _ in range(3):
        assert [origin.name for origin in source.origins()] == [f"{topic}/0"]
    assert len(made) == 1
