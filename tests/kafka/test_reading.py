"""`ReadKafka` on a broker: each committed row once, on each runner, over restarts, gaps, growth and what is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import dataflow_model as dm
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

NEW_YEAR = 1_357_002_000_000
COMMITTED = [*range(10), *range(20, 30)]


def rows(numbers: range, partitions: int = 2) -> list[dict[str, Any]]:
    """Return messages with numbers, one a second, in all partitions."""
    return [
        {"value": str(n), "key": f"k{n}", "timestamp": NEW_YEAR + n * 1_000, "partition": n % partitions}
        for n in numbers
    ]


@pytest.fixture
def topic(kafka: str) -> str:
    """A topic whose second ten rows are aborted, so that offsets have gaps."""
    made = new_topic(kafka, partitions=2)
    for start, commits in ((0, True), (10, False), (20, True)):
        send(kafka, made, rows(range(start, start + 10)), commits=commits)
    assert len(messages_in(kafka, made)) == len(COMMITTED)
    return made


def build(p: dm.Pipeline, servers: str, topics: Any, **options: Any) -> None:
    read = p | "in" >> dm.io.ReadKafka(topics, bootstrap_servers=servers, **options)
    numbers = read | dm.Map(lambda row: ("sum", int(row.value))).with_output_types(tuple[str, int])
    _ = numbers | dm.MapTuple(lambda key, number: number) | "out" >> dm.io.Collect()
    _ = numbers | dm.Window.into(dm.FixedWindows("10 seconds")) | dm.Sum.per_key() | "sums" >> dm.io.Collect()


def numbers(result: Any, label: str = "out") -> list[int]:
    return sorted(record.value for record in result.collected(label))


def sums(result: Any) -> list[int]:
    return sorted(record.value[1] for record in result.collected("sums"))


def start_stream(checkpoint: Path, rows_per_batch: int, *arguments: Any, **options: Any) -> Any:
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint, max_rows_per_batch=rows_per_batch))
    build(p, *arguments, **options)
    return p.run()


def await_numbers(result: Any, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(numbers(result)) < count:
        assert time.monotonic() < deadline, numbers(result)
        time.sleep(0.05)


# Runners.


@pytest.mark.parametrize("workers", [None, 2])
def test_a_bounded_run_reads_each_committed_row_once(kafka: str, topic: str, workers: int | None) -> None:
    runner = dm.LocalRunner() if workers is None else dm.LocalRunner(workers=workers)
    result = run(runner, lambda p: build(p, kafka, topic, end="latest"))
    assert numbers(result) == COMMITTED
    assert sums(result) == [45, 245]


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_reads_each_committed_row_once(
    kafka: str, topic: str, spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    options: dict[str, Any] = {} if mode == "batch" else {"checkpoint": tmp_path, "max_rows_per_batch": 16}
    end = "latest" if mode == "batch" else None
    result = run(dm.SparkRunner(spark, mode=mode, **options), lambda p: build(p, kafka, topic, end=end))
    assert numbers(result) == COMMITTED
    assert sums(result) == [45, 245]


@pytest.mark.sample
@pytest.mark.parametrize("rows_per_batch", [3, 1_000])
def test_a_stream_goes_on_where_it_was_stopped_and_reads_partitions_that_are_added(
    kafka: str, topic: str, tmp_path: Path, rows_per_batch: int
) -> None:
    result = start_stream(tmp_path, rows_per_batch, kafka, topic)
    await_numbers(result, len(COMMITTED))
    send(kafka, topic, rows(range(30, 34)))
    await_numbers(result, len(COMMITTED) + 4)
    result.stop()
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    send(kafka, topic, rows(range(34, 40), partitions=3), commits=True)
    messages_in(kafka, topic)
    result = run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))
    assert numbers(result) == [*COMMITTED, *range(30, 40)]
    assert sums(result) == [45, 245, 345]


def test_two_topics_are_read_together(kafka: str) -> None:
    topics = [new_topic(kafka), new_topic(kafka)]
    for number, name in enumerate(topics):
        send(kafka, name, rows(range(number, number + 1), partitions=1))
    assert numbers(run(dm.LocalRunner(), lambda p: build(p, kafka, topics, end="latest"))) == [0, 1]


def test_the_parts_of_a_message_are_columns(kafka: str) -> None:
    topic = new_topic(kafka)
    headers = [("a", b"1"), ("a", b"2"), ("b", None)]
    send(kafka, topic, [{"value": None, "key": b"k", "timestamp": NEW_YEAR, "headers": headers}])

    def build_rows(p: dm.Pipeline) -> None:
        _ = p | dm.io.ReadKafka(topic, bootstrap_servers=kafka, end="latest") | "out" >> dm.io.Collect()

    [row] = [record.value for record in run(dm.LocalRunner(), build_rows).collected("out")]
    assert (row.key, row.value, row.topic, row.partition, row.offset) == (b"k", None, topic, 0, 0)
    assert row.origin == f"{topic}/0"
    assert row.timestamp.timestamp() * 1_000 == NEW_YEAR
    assert [(header["name"], header["value"]) for header in row.headers] == headers


# From where, to where.


def test_instants_select_rows_by_their_timestamps_wherever_they_are(kafka: str, topic: str) -> None:
    send(kafka, topic, rows(range(4, 6)))  # later rows with earlier timestamps
    begin, end = (dm.EventTime((NEW_YEAR + second * 1_000) * 1_000) for second in (5, 22))
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, topic, start=begin, end=end))
    assert numbers(result) == [5, 5, 6, 7, 8, 9, 20, 21]


def test_a_run_from_the_latest_row_on_reads_what_is_written_after_its_start(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    result = start_stream(tmp_path, 100, kafka, topic, start="latest")
    deadline = time.monotonic() + 30
    while not result.report().commits:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    send(kafka, topic, rows(range(30, 34)))
    await_numbers(result, 4)
    result.stop()
    assert numbers(result) == [30, 31, 32, 33]


def test_rows_of_a_transaction_that_is_open_are_read_once_it_is_committed(kafka: str, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    topic = new_topic(kafka)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "1")
    producer.flush(30)
    send(kafka, topic, rows(range(2, 3), partitions=1))
    result = run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic, event_time=None))
    assert numbers(result) == []
    producer.commit_transaction(30)
    messages_in(kafka, topic)
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, topic, event_time=None, end="latest"))
    assert numbers(result) == [1, 2]


# What is lost.


def test_rows_that_were_deleted_before_they_were_read_are_an_error_with_their_number(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    result.stop()
    send(kafka, topic, rows(range(30, 40)))
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, 0, 20)]).values():
        future.result(30)
    with pytest.raises(dm.SourceError, match=rf"{topic}/0 from offset \d+ on, .* \d+ offsets are lost"):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))


def test_a_topic_that_was_made_again_is_an_error(kafka: str, topic: str, tmp_path: Path) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    result.stop()
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)
    new_topic(kafka, partitions=2, exactly=topic)
    with pytest.raises(dm.SourceError, match=f"the topic of {topic}/0 was deleted and made again"):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))


def test_a_topic_that_does_not_exist_is_an_error_before_anything_runs(kafka: str) -> None:
    with pytest.raises(dm.SourceError, match=r"cannot read the topic 'none' on .*UNKNOWN_TOPIC_OR_PART"):
        run(dm.LocalRunner(), lambda p: build(p, kafka, "none", end="latest"))
