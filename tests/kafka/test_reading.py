"""`ReadKafka` on a broker: each committed row once, on each runner, over restarts, gaps, growth and what is lost."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import dataflow_model as dm
from dataflow_model.io.topics import client, offsets
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka.broker import Broker

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
def test_a_restarted_stream_continues_at_its_offsets_and_reads_partitions_that_were_added(
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


def test_partitions_that_are_added_while_a_stream_runs_are_read_from_their_first_row(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    send(kafka, topic, rows(range(30, 36), partitions=3))
    await_numbers(result, len(COMMITTED) + 6)
    result.stop()
    assert numbers(result) == [*COMMITTED, *range(30, 36)]


def test_two_topics_are_read_together(kafka: str) -> None:
    topics = [new_topic(kafka), new_topic(kafka)]
    for number, name in enumerate(topics):
        send(kafka, name, rows(range(number, number + 1), partitions=1))
    assert numbers(run(dm.LocalRunner(), lambda p: build(p, kafka, topics, end="latest"))) == [0, 1]


def test_rows_have_the_key_value_headers_and_offset_of_their_message(kafka: str) -> None:
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


def test_instants_select_rows_by_their_timestamps_and_not_by_their_offsets(kafka: str, topic: str) -> None:
    send(kafka, topic, rows(range(4, 6)))  # later rows with earlier timestamps
    begin, end = (dm.EventTime((NEW_YEAR + second * 1_000) * 1_000) for second in (5, 22))
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, topic, start=begin, end=end))
    assert numbers(result) == [5, 5, 6, 7, 8, 9, 20, 21]


def test_offsets_select_rows_and_partitions_that_they_do_not_name_are_read_whole(kafka: str, topic: str) -> None:
    def read(**places: Any) -> list[int]:
        return numbers(run(dm.LocalRunner(), lambda p: build(p, kafka, topic, **places)))

    odd = [1, 3, 5, 7, 9, 21, 23, 25, 27, 29]
    # Five rows, the end of a transaction, five rows and the end of an aborted one, and five rows.
    assert read(start={(topic, 0): 3}, end="latest") == sorted([6, 8, 20, 22, 24, 26, 28, *odd])
    assert read(end={(topic, 0): 3}) == sorted([0, 2, 4, *odd])
    assert read(start={(topic, 0): 3, (topic, 1): 5}, end={(topic, 0): 13, (topic, 1): 12}) == [6, 8, 20]
    assert read(start={(topic, 0): 3, (topic, 1): 5}, end={(topic, 0): 3, (topic, 1): 5}) == []


@pytest.mark.parametrize(
    ("places", "problem"),
    [
        ({"start": 1_000}, "`start` of ReadKafka is offset 1000 of {topic}/0, which has rows up to offset 17 "),
        ({"end": 1_000}, "`end` of ReadKafka is offset 1000 of {topic}/0, which has committed rows up to offset 17 "),
        ({"start": 5, "partition": 7}, "`start` of ReadKafka has an offset of {topic}/7, and the topic has 2 part"),
    ],
)
def test_offsets_that_do_not_exist_are_errors_before_anything_is_read(
    kafka: str, topic: str, places: dict[str, int], problem: str
) -> None:
    partition = places.pop("partition", 0)
    options: dict[str, Any] = {name: {(topic, partition): offset} for name, offset in places.items()}
    with pytest.raises(dm.SourceError) as raised:
        run(dm.LocalRunner(), lambda p: build(p, kafka, topic, **{"end": "latest", **options}))
    assert problem.format(topic=topic) in str(raised.value)


def test_a_stream_uses_its_start_offsets_once_and_then_those_of_its_checkpoint(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    start = {(topic, 0): 15, (topic, 1): 15}
    for _ in range(2):
        result = start_stream(tmp_path, 2, kafka, topic, start=start)
        await_numbers(result, 4)
        result.stop()
        assert numbers(result) == [26, 27, 28, 29]


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


# Topics by their names.


def test_topics_that_come_to_match_a_pattern_are_read_while_the_stream_runs(kafka: str, tmp_path: Path) -> None:
    prefix = new_topic(kafka)
    first = new_topic(kafka, exactly=f"{prefix}-first")
    send(kafka, first, rows(range(2), partitions=1))
    result = start_stream(tmp_path, 100, kafka, None, pattern=f"{prefix}-.*", start="latest")
    deadline = time.monotonic() + 30
    while not result.report().commits:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    send(kafka, prefix, rows(range(9, 10), partitions=1))  # only a part of the pattern
    second = new_topic(kafka, exactly=f"{prefix}-second", partitions=2)
    send(kafka, second, rows(range(2, 4)))
    send(kafka, first, rows(range(4, 6), partitions=1))
    await_numbers(result, 4)
    result.stop()
    assert numbers(result) == [2, 3, 4, 5]  # of the first topic from its end on, of the second from its start
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, None, pattern=f"{prefix}-.*", end="latest"))
    assert numbers(result) == [0, 1, 2, 3, 4, 5]


def test_a_pattern_that_no_topic_matches_is_an_error_before_anything_runs(kafka: str) -> None:
    with pytest.raises(dm.SourceError, match=r"cannot read topics that match 'none-\.\*' on .*: there are none"):
        run(dm.LocalRunner(), lambda p: build(p, kafka, None, pattern="none-.*", end="latest"))


def test_a_topic_that_is_deleted_just_after_it_was_listed_does_not_match(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = new_topic(kafka)
    send(kafka, kept, rows(range(2), partitions=1))
    lists = [[f"{kept}-gone", kept], [kept], [kept], [kept]]
    monkeypatch.setattr(offsets, "matching", lambda *_: lists.pop(0))
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, None, pattern=f"{kept}.*", end="latest"))
    assert numbers(result) == [0, 1]
    assert len(lists) < 3


@pytest.mark.parametrize("on_loss", ["error", "skip"])
def test_a_topic_of_a_pattern_that_is_deleted_is_an_error_unless_losses_are_skipped(
    kafka: str, tmp_path: Path, on_loss: str
) -> None:
    prefix = new_topic(kafka)
    kept, gone = (new_topic(kafka, exactly=f"{prefix}-{name}") for name in ("kept", "gone"))
    send(kafka, kept, rows(range(2), partitions=1))
    send(kafka, gone, rows(range(2, 3), partitions=1))
    options: dict[str, Any] = {"pattern": f"{prefix}-.*", "on_loss": on_loss}
    result = start_stream(tmp_path, 100, kafka, None, **options)
    await_numbers(result, 3)
    result.stop()
    delete(kafka, gone)
    send(kafka, kept, rows(range(3, 4), partitions=1))
    if on_loss == "error":
        with pytest.raises(dm.SourceError, match=f"the topic of {gone}/0 was deleted since the run began"):
            run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, None, **options))
        return
    result = run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, None, **options))
    assert numbers(result) == [0, 1, 2, 3]


# What is lost.


def truncate(kafka: str, topic: str, partition: int, offset: int) -> None:
    """Delete the rows of a partition before an offset."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result(30)


def delete(kafka: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)


def lost(result: Any) -> int:
    return int(result.report().transforms["in"].counters.get("rows_lost", 0))


def test_rows_that_compaction_has_removed_are_gaps_and_not_lost(kafka: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"segment_ms": 1_000, "min_cleanable_dirty_ratio": 0.01, "max_compaction_lag_ms": 1}
    topic = new_topic(kafka, cleanup_policy="compact", **settings)

    def of_few_keys(numbers: range) -> list[dict[str, Any]]:
        return [{**row, "key": f"k{n % 3}"} for n, row in zip(numbers, rows(numbers, partitions=1), strict=True)]

    send(kafka, topic, of_few_keys(range(10)))
    result = start_stream(tmp_path, 4, kafka, topic)
    await_numbers(result, 10)
    result.stop()
    send(kafka, topic, of_few_keys(range(10, 30)))
    send(kafka, topic, [{"value": "99", "key": "last", "timestamp": NEW_YEAR + 99_000}])
    deadline = time.monotonic() + 120
    while len(left := [int(message.value() or b"") for message in messages_in(kafka, topic)]) > 6:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert 10 not in left  # where the stream goes on
    runner = dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=4)
    assert numbers(run(runner, lambda p: build(p, kafka, topic))) == [*range(10), *left]
    result = run(dm.LocalRunner(), lambda p: build(p, kafka, topic, end="latest"))
    assert numbers(result) == left
    assert lost(result) == 0


def test_lost_rows_are_skipped_and_counted_if_the_source_says_so(kafka: str, topic: str, tmp_path: Path) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic, on_loss="skip")
    await_numbers(result, len(COMMITTED))
    result.stop()
    assert lost(result) == 0
    send(kafka, topic, rows(range(30, 50)))
    truncate(kafka, topic, 0, 22)  # 30, 32, 34 and 36 were at 18 to 21
    runner = dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=2)
    result = run(runner, lambda p: build(p, kafka, topic, on_loss="skip"))
    left = [number for number in range(30, 50) if number not in {30, 32, 34, 36}]
    assert numbers(result) == [*COMMITTED, *left]
    assert lost(result) == 4


@pytest.mark.parametrize("partition_is_gone", [False, True])
def test_a_bounded_run_counts_the_rows_after_its_start_that_were_deleted(
    kafka: str, topic: str, *, partition_is_gone: bool
) -> None:
    truncate(kafka, topic, 0, 18 if partition_is_gone else 4)
    options: dict[str, Any] = {"start": {(topic, 0): 1, (topic, 1): 15}, "end": "latest", "on_loss": "skip"}
    for runner in (dm.LocalRunner(), dm.LocalRunner(workers=2)):
        result = run(runner, lambda p: build(p, kafka, topic, **options))
        assert numbers(result) == ([27, 29] if partition_is_gone else [8, 20, 22, 24, 26, 27, 28, 29])
        assert lost(result) == (17 if partition_is_gone else 3)


def test_spark_counts_lost_rows(kafka: str, topic: str, spark: SparkSession, tmp_path: Path) -> None:
    truncate(kafka, topic, 0, 4)
    options: dict[str, Any] = {"start": {(topic, 0): 1, (topic, 1): 15}, "on_loss": "skip"}
    batch = dm.SparkRunner(spark, mode="batch")
    stream = dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path, max_rows_per_batch=16)
    for runner, end in ((batch, "latest"), (stream, None)):
        result = run(runner, lambda p, end=end: build(p, kafka, topic, end=end, **options))  # type: ignore[misc]
        assert numbers(result) == [8, 20, 22, 24, 26, 27, 28, 29]
        assert lost(result) == 3


def test_rows_that_were_deleted_before_they_were_read_are_an_error_with_their_number(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    result.stop()
    send(kafka, topic, rows(range(30, 40)))
    truncate(kafka, topic, 0, 20)
    with pytest.raises(dm.SourceError, match=rf"{topic}/0 from offset 18 on, .* offsets 20 to 22: 2 offsets are lost"):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))


def test_rows_that_are_deleted_while_a_stream_reads_are_read_once_or_counted(kafka: str, tmp_path: Path) -> None:
    topic, count = new_topic(kafka), 400
    producer = Producer({"bootstrap.servers": kafka, "batch.num.messages": 5})
    for row in rows(range(count), partitions=1):
        producer.produce(topic, **row)
    assert producer.flush(30) == 0
    few: dict[str, Any] = {"queued.min.messages": 1, "fetch.message.max.bytes": 100}  # few rows are read ahead
    result = start_stream(tmp_path, 40, kafka, topic, on_loss="skip", options=few)
    await_numbers(result, 4)
    truncate(kafka, topic, 0, 390)  # each micro-batch finds out anew
    await_all(result, count)
    result.stop()
    read = numbers(result)
    assert len(read) == len(set(read))
    assert set(range(390, count)) <= set(read)
    assert lost(result) > 0


def await_all(result: Any, count: int) -> None:
    """Wait until each row has been read or counted as lost."""
    deadline = time.monotonic() + 60
    while len(numbers(result)) + lost(result) < count:
        assert time.monotonic() < deadline, (numbers(result), lost(result))
        time.sleep(0.05)
    assert len(numbers(result)) + lost(result) == count


def test_a_topic_that_is_deleted_and_created_anew_while_a_stream_reads_it_is_an_error(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    delete(kafka, topic)
    new_topic(kafka, partitions=2, exactly=topic)
    send(kafka, topic, rows(range(20)))
    with pytest.raises(dm.SourceError, match=f"{topic}.*(was deleted and made again|UNKNOWN_TOPIC_OR_PART|_UNKNOWN)"):
        result.wait_until_finish()
    assert set(numbers(result)) <= set(COMMITTED)


def test_a_topic_that_was_deleted_and_created_anew_is_an_error(kafka: str, topic: str, tmp_path: Path) -> None:
    result = start_stream(tmp_path, 1_000, kafka, topic)
    await_numbers(result, len(COMMITTED))
    result.stop()
    delete(kafka, topic)
    new_topic(kafka, partitions=2, exactly=topic)
    with pytest.raises(dm.SourceError, match=f"the topic of {topic}/0 was deleted and made again"):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))


OTHER = 1_000
"""The first number in a topic that was made again."""
HELD = 6
"""The number of the row at which a function stops until the test goes on."""


def make_again(kafka: str, topic: str, count: int) -> None:
    """Delete a topic, and create one with its name at once, with many rows in each partition."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)
    while True:
        try:
            new_topic(kafka, partitions=2, exactly=topic)
        except KafkaException as error:
            assert error.args[0].name() == "TOPIC_ALREADY_EXISTS"  # noqa: PT017 - until it is deleted
        else:
            break
    send(kafka, topic, rows(range(OTHER, OTHER + count)))


is_held, goes_on = threading.Event(), threading.Event()


def number_held(row: Any) -> int:
    """Return the number in a row; hold that number up until the test goes on."""
    if int(row.value) == HELD:
        is_held.set()
        assert goes_on.wait(120)
    return int(row.value)


@pytest.mark.parametrize("attempt", range(4))
def test_rows_of_a_topic_that_is_made_again_while_a_micro_batch_runs_are_never_committed(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    if attempt == 0:
        monkeypatch.setattr(offsets, "_FRESH", 1e9)  # the ids of topics are not looked for again
    is_held.clear()
    goes_on.clear()
    topic = new_topic(kafka, partitions=2)
    send(kafka, topic, rows(range(HELD)))

    def start() -> Any:
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=7))
        read = p | "in" >> dm.io.ReadKafka(topic, bootstrap_servers=kafka)
        _ = read | dm.Map(number_held) | "out" >> dm.io.Collect()
        return p.run()

    result = start()
    await_numbers(result, HELD)
    send(kafka, topic, rows(range(HELD, HELD + 1)))
    assert is_held.wait(60)
    make_again(kafka, topic, 300)
    goes_on.set()
    with pytest.raises(dm.SourceError, match=f"the topic of {topic}/. was deleted and made again"):
        wait_for(result, lambda: max(numbers(result)) >= OTHER)
    assert numbers(result) == list(range(HELD))
    with pytest.raises(dm.SourceError, match=f"the topic of {topic}/. was deleted and made again"):
        start().wait_until_finish()


def test_rows_of_a_topic_that_is_made_again_in_a_tight_loop_are_never_committed(kafka: str, tmp_path: Path) -> None:
    for attempt in range(6):
        topic = new_topic(kafka, partitions=2)
        send(kafka, topic, rows(range(HELD)))
        result = start_stream(tmp_path / str(attempt), 7, kafka, topic)
        await_numbers(result, HELD)
        make_again(kafka, topic, 100)
        with pytest.raises(dm.SourceError, match=topic):
            result.wait_until_finish()
        assert numbers(result) == list(range(HELD))


@pytest.mark.parametrize("runner", ["local", "workers", "spark", "checkpoint"])
def test_a_bounded_run_does_not_read_a_topic_that_was_made_again_after_it_was_listed(
    kafka: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    lists, is_made = offsets.listed, list[bool]()

    def listed(*arguments: Any) -> Any:
        origins = lists(*arguments)
        if not is_made:
            is_made.append(True)
            make_again(kafka, topic, 200)
        return origins

    makes: dict[str, Any] = {
        "local": dm.LocalRunner,
        "workers": lambda: dm.LocalRunner(workers=2),
        "checkpoint": lambda: dm.LocalRunner(checkpoint=tmp_path),
        "spark": lambda: dm.SparkRunner(request.getfixturevalue("spark"), mode="batch"),
    }
    made = makes[runner]()
    monkeypatch.setattr(offsets, "listed", listed)
    with pytest.raises(dm.SourceError, match=f"the topic of {topic}/. was deleted and made again"):
        run(made, lambda p: build(p, kafka, topic, end="latest"))


def test_a_topic_that_does_not_exist_is_an_error_before_anything_runs(kafka: str) -> None:
    with pytest.raises(dm.SourceError, match=r"cannot read the topic 'none' on .*UNKNOWN_TOPIC_OR_PART"):
        run(dm.LocalRunner(), lambda p: build(p, kafka, "none", end="latest"))


def test_a_stream_continues_after_a_restart_of_the_broker(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 120.0)  # on a busy machine, a broker takes longer than 20 s to start
    topic = new_topic(broker.servers, partitions=2)
    send(broker.servers, topic, rows(range(4)))
    result = start_stream(tmp_path, 100, broker.servers, topic)
    await_numbers(result, 4)
    broker.kill()
    broker.start()
    send(broker.servers, topic, rows(range(4, 10)))
    wait_for(result, lambda: len(numbers(result)) == 10)
    result.stop()
    assert numbers(result) == list(range(10))


# How far a stream has come.


def level(result: Any, name: str) -> dict[str, int]:
    return dict(result.report().transforms["in"].levels.get(name, {}))


def test_a_report_says_how_much_of_each_partition_is_unread_and_held_back(kafka: str, tmp_path: Path) -> None:
    topic = new_topic(kafka, partitions=2)
    send(kafka, topic, rows(range(4)))
    result = start_stream(tmp_path, 100, kafka, topic)
    await_numbers(result, 4)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for row in rows(range(4, 10)):
        if row["partition"] == 1:
            producer.produce(topic, **row)
    producer.flush(30)
    held = {f"{topic}/0": 0, f"{topic}/1": 3}
    wait_for(result, lambda: level(result, "held_back") == held and level(result, "lag") == held)
    producer.commit_transaction(30)
    await_numbers(result, 7)
    none = dict.fromkeys(held, 0)
    wait_for(result, lambda: level(result, "held_back") == none and level(result, "lag") == none)
    result.stop()
    assert level(result, "lag") == {}


def noted(kafka: str, group: str, topic: str) -> list[int]:
    """Return the offsets of the partitions in a consumer group."""
    admin = AdminClient({"bootstrap.servers": kafka})
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    places = future.result(30).topic_partitions
    return [place.offset for place in sorted(places, key=lambda place: place.partition) if place.topic == topic]


@pytest.mark.parametrize("host", ["process", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_group_says_how_far_a_stream_has_read(
    kafka: str, topic: str, tmp_path: Path, host: str, request: pytest.FixtureRequest
) -> None:
    group = f"readers-of-{topic}"
    if host == "process":
        runner: Any = dm.LocalRunner(checkpoint=tmp_path)
    else:
        spark = request.getfixturevalue("spark")
        runner = dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path, max_rows_per_batch=16)
    run(runner, lambda p: build(p, kafka, topic, group=group))
    assert noted(kafka, group, topic) == [18, 18]
