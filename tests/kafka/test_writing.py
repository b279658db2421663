"""`WriteKafka` on a broker: each row once for readers of committed messages, whatever is killed or hangs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import dataflow_model as dm
from dataflow_model.io.topics import producing
from dataflow_model.io.topics import transactions as kafka_transactions
from dataflow_model.io.topics.sink import KafkaSink
from tests.support.exactly_once.tables import PAIRS, record
from tests.support.kafka.broker import running_broker
from tests.support.kafka.commits import commit, start
from tests.support.kafka.job import SINK, STEPS, build_job, run_job
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(600)]

SUMS = [("AA", 2), ("UA", 5)]


@pytest.fixture(autouse=True)
def _no_producers_are_left() -> Iterator[None]:
    yield
    while kafka_transactions._open:
        kafka_transactions._open.popitem()[1].close()


def values(servers: str, topic: str, isolation: str = "read_committed") -> list[Any]:
    return [json.loads(message.value() or b"") for message in messages_in(servers, topic, isolation=isolation)]


def build(p: dm.Pipeline, servers: str, topic: str) -> None:
    elements = p | dm.Create([("UA", 2), ("AA", 2), ("UA", 3)])
    _ = elements | dm.Sum.per_key() | "out" >> dm.io.WriteKafka(topic, bootstrap_servers=servers, keys="key")


def sums_in(servers: str, topic: str) -> list[tuple[str, int]]:
    return sorted((row["key"], row["value"]) for row in values(servers, topic))


def keys(servers: str, topic: str) -> list[str]:
    return [row["key"] for row in values(servers, topic)]


@pytest.fixture(params=["group", "topic"])
def sink(kafka: str, request: pytest.FixtureRequest) -> KafkaSink:
    return KafkaSink(topic=new_topic(kafka), servers=kafka, schema=PAIRS, marks=request.param)


# Runners.


@pytest.mark.parametrize("workers", [None, 2])
def test_a_bounded_run_writes_its_result(kafka: str, workers: int | None) -> None:
    topic = new_topic(kafka, partitions=3)
    run(dm.LocalRunner() if workers is None else dm.LocalRunner(workers=workers), lambda p: build(p, kafka, topic))
    assert sums_in(kafka, topic) == SUMS
    [ua] = [message for message in messages_in(kafka, topic) if message.key() == b"UA"]
    headers = dict(ua.headers() or [])
    assert set(headers) == {"dataflow_model.commit", "dataflow_model.ordinal"}


def test_a_completed_stream_writes_nothing_when_it_is_restarted(kafka: str, tmp_path: Path) -> None:
    topic = new_topic(kafka, partitions=3)
    for _ in range(2):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: build(p, kafka, topic))
        assert sums_in(kafka, topic) == SUMS


def test_spark_writes_the_result_of_a_batch_job(kafka: str, spark: SparkSession) -> None:
    topic = new_topic(kafka, partitions=3)
    run(dm.SparkRunner(spark, mode="batch"), lambda p: build(p, kafka, topic))
    assert sums_in(kafka, topic) == SUMS


def test_spark_writes_the_result_of_a_stream_once(kafka: str, spark: SparkSession, tmp_path: Path) -> None:
    topic = new_topic(kafka, partitions=3)
    for _ in range(2):
        runner = dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path)
        run(runner, lambda p: build(p, kafka, topic))
        assert sums_in(kafka, topic) == SUMS


# Messages.


def test_equal_keys_are_in_the_partition_in_which_clients_for_java_would_put_them(kafka: str) -> None:
    topic = new_topic(kafka, partitions=8)
    written = ["departures", "UA", "AA", "kafka", "EWR", "x" * 9, "é", ""]

    def build_pairs(p: dm.Pipeline) -> None:
        pairs = p | dm.Create([(key, "value") for key in written])
        _ = pairs | dm.io.WriteKafka(topic, bootstrap_servers=kafka, value="bytes")

    run(dm.LocalRunner(), build_pairs)
    found = {message.key(): message.partition() for message in messages_in(kafka, topic)}
    assert found == {key.encode(): java_partition(key.encode(), 8) for key in written}
    assert java_partition(b"21", 2**31) == 0x7FFFFFFF & -973932308  # as a test of Kafka's own says


def java_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key by the definition of MurmurHash2 with Kafka's seed."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    digest = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for index in range(0, whole, 4):
        part = int.from_bytes(key[index : index + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        digest = digest * factor & mask ^ part
    if len(key) > whole:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * factor & mask
    digest = (digest ^ digest >> 13) * factor & mask
    return ((digest ^ digest >> 15) & 0x7FFFFFFF) % partitions


def test_an_event_time_that_is_ahead_of_the_clock_is_replaced_by_the_time_of_writing(kafka: str) -> None:
    topic = new_topic(kafka)
    times = [dm.EventTime(0), dm.EventTime(1_357_034_400_000_000), dm.EventTime(2**53)]
    before = int(time.time() * 1_000)

    def build_times(p: dm.Pipeline) -> None:
        elements = p | dm.Create([dm.TimestampedValue(str(n), at) for n, at in enumerate(times)])
        _ = elements | dm.io.WriteKafka(topic, bootstrap_servers=kafka, value="bytes")

    run(dm.LocalRunner(), build_times)
    found = {message.value(): message.timestamp()[1] for message in messages_in(kafka, topic)}
    assert found[b"1"] == 1_357_034_400_000
    assert before <= min(found[b"0"], found[b"2"]) <= max(found.values()) <= time.time() * 1_000


def test_a_retraction_is_a_tombstone_in_an_upsert_topic_and_marked_in_another(kafka: str) -> None:
    topics = {upsert: new_topic(kafka) for upsert in (True, False)}
    for upsert, topic in topics.items():
        sink = KafkaSink(topic=topic, servers=kafka, keys="key", schema=PAIRS, upsert=upsert, retractions=not upsert)
        commit(start(sink, 1), 0, record(1, ("UA", 1)), record(2, ("UA", 1), is_retraction=True))
    assert [message.value() for message in messages_in(kafka, topics[True])] == [b'{"key": "UA", "value": 1}', None]
    assert [row["is_retraction"] for row in values(kafka, topics[False])] == [False, True]
    for topic in topics.values():
        kept, taken_back = (dict(message.headers() or []) for message in messages_in(kafka, topic))
        assert "dataflow_model.is_retraction" not in kept
        assert taken_back["dataflow_model.is_retraction"] == b"true"
        assert taken_back["dataflow_model.ordinal"] == b"1"


# Once each.


@pytest.mark.parametrize("marks", [pytest.param("group", marks=pytest.mark.sample), "topic"])
def test_a_stream_from_topic_to_topic_that_is_killed_at_each_step_writes_each_row_once_with_random_values(
    kafka: str, tmp_path: Path, marks: str
) -> None:
    source, target = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)
    rows = 18 * len(STEPS)
    for part in range(0, rows, 9):  # each in a transaction, whose marker leaves a gap
        send(kafka, source, [{"value": str(n), "partition": n % 2} for n in range(part, part + 9)], commits=True)
    for step in STEPS:
        assert run_job(kafka, source, target, tmp_path, step, marks=marks) != 0, step
    assert run_job(kafka, source, target, tmp_path, marks=marks) == 0
    assert sorted(row["n"] for row in values(kafka, target)) == list(range(rows))
    assert len(values(kafka, target, "read_uncommitted")) > rows


@pytest.mark.parametrize("marks", ["group", "topic"])
def test_a_sink_that_an_upgrade_has_renamed_writes_each_row_once_although_it_is_killed(
    kafka: str, tmp_path: Path, marks: str
) -> None:
    source, target = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    send(kafka, source, [{"value": str(n), "partition": n % 2} for n in range(20)])
    assert run_job(kafka, source, target, old, "before the commit", marks=marks) != 0
    refused = renamed(old, new)
    assert "start the old pipeline again, which finishes publishing first" in refused.stderr
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=old / "checkpoint"))
    build_job(p, kafka, source, target, old, marks, SINK)
    result: Any = p.run()
    wait_for(result, lambda: len(values(kafka, target)) == 20)
    result.stop()
    assert not renamed(old, new).returncode
    rows = 20
    for step in ("before_publishing", "before the commit", "after the commit", "after_publishing"):
        send(kafka, source, [{"value": str(n), "partition": n % 2} for n in range(rows, rows + 18)])
        rows += 18
        assert run_job(kafka, source, target, new, step, marks=marks, label="published") != 0, step
    assert run_job(kafka, source, target, new, marks=marks, label="published") == 0
    assert sorted(row["n"] for row in values(kafka, target)) == list(range(rows))


def renamed(old: Path, new: Path) -> subprocess.CompletedProcess[str]:
    """Upgrade the checkpoint of a run in a folder, with another label of its sink, into that in another folder."""
    command = [sys.executable, "-m", "dataflow_model", "upgrade", str(old / "checkpoint"), str(new / "checkpoint")]
    return subprocess.run([*command, "--rename", f"{SINK}=published"], capture_output=True, text=True, check=False)


def test_a_commit_that_is_repeated_changes_nothing_although_its_rows_are_others(sink: KafkaSink) -> None:
    first = start(sink, 1)
    commit(first, 0, record(1, ("a", 1)))
    commit(first, 0, record(1, ("b", 1)))
    commit(start(sink, 2), 0, record(1, ("c", 1)), start=1)
    assert keys(sink.servers, sink.topic) == ["a"]
    assert sink.commits_of("run").published == ["run-000000000001-00000000"]


def test_a_commit_without_rows_writes_nothing(sink: KafkaSink) -> None:
    first = start(sink, 1)
    commit(first, 0, record(1, ("a", 1)))
    commit(first, 1)
    assert sink.commits_of("run").published == ["run-000000000001-00000000"]


def test_a_start_that_commits_after_a_newer_one_has_begun_fails_as_superseded(sink: KafkaSink) -> None:
    older = start(sink, 1)
    commit(older, 0, record(1, ("a", 1)))
    held = dict(kafka_transactions._open)
    kafka_transactions._open.clear()  # as in another process
    newer = start(sink, 2)
    commit(newer, 1, record(1, ("b", 1)))
    kafka_transactions._open.clear()
    kafka_transactions._open.update(held)
    with pytest.raises(dm.SupersededRun, match=f"the topic '{sink.topic}' was taken over"):
        commit(older, 1, record(1, ("c", 1)))
    assert keys(sink.servers, sink.topic) == ["a", "b"]


def test_a_start_that_claims_after_a_newer_one_fails_as_superseded_and_the_newer_one_can_commit(
    sink: KafkaSink,
) -> None:
    start(sink, 1)
    kafka_transactions._open.clear()
    newer = start(sink, 2)
    held = dict(kafka_transactions._open)
    kafka_transactions._open.clear()
    with pytest.raises(dm.SupersededRun):
        start(sink, 1)  # whose producer has fenced that of the newer one
    kafka_transactions._open.update(held)
    commit(newer, 0, record(1, ("a", 1)))
    assert keys(sink.servers, sink.topic) == ["a"]


def test_a_start_whose_transaction_has_expired_writes_its_rows_again(
    sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = start(attrs.evolve(sink, options={"transaction.timeout.ms": 1_000}), 1)
    produce, calls = producing.produce, list[str]()

    def late(producer: Producer, sink: KafkaSink, commit: str, messages: Any) -> None:
        produce(producer, sink, commit, messages)
        calls.append(commit)
        if len(calls) == 1:
            time.sleep(13)  # the broker looks for expired transactions every ten seconds

    monkeypatch.setattr(kafka_transactions, "produce", late)
    commit(slow, 0, record(1, ("a", 1)))
    commit(slow, 1, record(1, ("b", 1)))
    assert len(calls) == 3
    assert keys(sink.servers, sink.topic) == ["a", "b"]


def forget_mark(sink: KafkaSink) -> None:
    """Remove the mark of a run, as the brokers do with the offsets of groups after some days."""
    admin = AdminClient({"bootstrap.servers": sink.servers})
    if sink.marks == "group":
        [future] = admin.delete_consumer_groups([f"dataflow_model-run-{sink.label}"]).values()
    else:
        [future] = admin.delete_topics([f"{sink.topic}-marks"]).values()
    future.result(30)
    kafka_transactions._open.clear()  # as in another process
    while sink.marks == "topic" and f"{sink.topic}-marks" in admin.list_topics(timeout=30).topics:
        time.sleep(0.05)


def remove_messages(sink: KafkaSink) -> None:
    admin = AdminClient({"bootstrap.servers": sink.servers})
    [future] = admin.delete_records([TopicPartition(sink.topic, 0, -1)]).values()
    future.result(30)


@pytest.mark.parametrize("was_published", [True, False])
def test_a_start_without_a_mark_looks_for_the_commit_in_the_topic(sink: KafkaSink, was_published: bool) -> None:
    older = start(sink, 1)
    if was_published:
        commit(older, 3, record(1, ("a", 1)))
    forget_mark(sink)
    start(sink, 2)  # which is killed before it has published anything
    kafka_transactions._open.clear()
    newer = start(sink, 3)
    commit(newer, 3, record(1, ("a", 1)), start=1)
    commit(newer, 4, record(1, ("b", 1)))
    assert keys(sink.servers, sink.topic) == ["a", "b"]


def test_a_commit_is_found_behind_a_transaction_that_another_program_has_open(sink: KafkaSink) -> None:
    other = Producer({"bootstrap.servers": sink.servers, "transactional.id": sink.topic})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(sink.topic, "{}")
    other.flush(30)
    commit(start(sink, 1), 3, record(1, ("a", 1)))
    forget_mark(sink)
    end = threading.Timer(2, other.abort_transaction)
    end.start()
    commit(start(sink, 2), 3, record(1, ("a", 1)), start=1)
    end.join()
    assert keys(sink.servers, sink.topic) == ["a"]


@pytest.mark.parametrize("cause", ["messages have been removed", "it is compacted"])
def test_a_start_without_a_mark_refuses_to_guess_where_messages_may_have_been_removed(
    sink: KafkaSink, cause: str
) -> None:
    commit(start(sink, 1), 3, record(1, ("a", 1)))
    if cause == "it is compacted":
        compacted = new_topic(sink.servers, cleanup_policy="compact")
        sink = attrs.evolve(sink, topic=compacted, keys="key", upsert=True)
        start(sink, 1)
    else:
        remove_messages(sink)
    forget_mark(sink)
    newer = start(sink, 2)
    with pytest.raises(dm.SinkError, match=f"cannot tell whether commit run-000000000001-00000003 .*{cause}"):
        commit(newer, 3, record(1, ("a", 1)), start=1)
    assert keys(sink.servers, sink.topic) == []


def test_a_start_whose_marks_were_never_lost_does_not_search_a_topic_from_which_messages_were_removed(
    sink: KafkaSink,
) -> None:
    send(sink.servers, sink.topic, [{"value": "{}"}])
    remove_messages(sink)
    start(sink, 1)  # which is killed before it has published its first commit
    kafka_transactions._open.clear()
    commit(start(sink, 2), 0, record(1, ("a", 1)), start=1)
    assert keys(sink.servers, sink.topic) == ["a"]


def test_the_last_mark_is_found_among_those_of_other_runs(kafka: str) -> None:
    topic = new_topic(kafka)
    sink = KafkaSink(topic=topic, servers=kafka, schema=PAIRS, marks="topic")
    commit(start(sink, 1), 0, record(1, ("a", 1)))
    send(kafka, f"{topic}-marks", [{"key": f"other-{n}", "value": "{}"} for n in range(2_500)], commits=True)
    kafka_transactions._open.clear()
    assert sink.commits_of("run").published == ["run-000000000001-00000000"]
    newer = start(sink, 2)
    commit(newer, 0, record(1, ("a", 1)), start=1)
    assert keys(kafka, topic) == ["a"]


def test_a_commit_waits_for_a_broker_that_is_killed_and_restarted(
    java_home: str, kafka_jars: Path, tmp_path: Path
) -> None:
    with running_broker(tmp_path, java_home, kafka_jars) as broker:
        sink = KafkaSink(topic=new_topic(broker.servers), servers=broker.servers, schema=PAIRS)
        started = start(sink, 1)
        commit(started, 0, record(1, ("a", 1)))
        assert keys(broker.servers, sink.topic) == ["a"]
        broker.kill()
        broker.start()
        commit(started, 1, record(1, ("b", 1)))
        assert keys(broker.servers, sink.topic) == ["a", "b"]


# At least once.


def test_without_transactions_a_stream_writes_at_least_once_and_says_so(kafka: str, tmp_path: Path) -> None:
    topic = new_topic(kafka, partitions=3)

    def build_repeated(p: dm.Pipeline) -> None:
        sums = p | dm.Create([("UA", 2), ("AA", 2), ("UA", 3)]) | dm.Sum.per_key()
        options: dict[str, Any] = {"keys": "key", "delivery": "at_least_once"}
        _ = sums | "out" >> dm.io.WriteKafka(topic, bootstrap_servers=kafka, **options)

    result = run(dm.LocalRunner(checkpoint=tmp_path), build_repeated)
    assert sums_in(kafka, topic) == SUMS
    assert result.metrics()["out"]["rows_at_least_once"] == 2
    groups = AdminClient({"bootstrap.servers": kafka}).list_consumer_groups().result(30).valid
    assert not any(group.group_id.startswith(f"dataflow_model-{topic}") for group in groups)


def test_a_commit_that_is_repeated_at_least_once_has_the_same_headers(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka), servers=kafka, schema=PAIRS, delivery="at_least_once")
    for sequencer in (1, 2):
        commit(start(sink, sequencer), 0, record(1, ("a", 1)), record(2, ("b", 1)), start=1)
    assert keys(kafka, sink.topic) == ["a", "b", "a", "b"]
    first, second, *repeated = [dict(message.headers() or []) for message in messages_in(kafka, sink.topic)]
    assert repeated == [first, second]


def test_a_message_that_is_too_large_for_at_least_once_is_an_error_and_later_ones_are_written(kafka: str) -> None:
    topic = new_topic(kafka, max_message_bytes=2_000)
    sink = KafkaSink(topic=topic, servers=kafka, value="bytes", delivery="at_least_once")
    large = "".join(random.choices("0123456789", k=9_000))
    with pytest.raises(dm.SinkError, match="MSG_SIZE_TOO_LARGE"):
        commit(start(sink, 1), 0, record(1, large))
    commit(start(sink, 1), 1, record(1, "small"))
    assert [message.value() for message in messages_in(kafka, topic)] == [b"small"]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_weak_productions_are_written_at_least_once_and_the_result_says_so(
    kafka: str, spark: SparkSession, tmp_path: Path, delivery: Any
) -> None:
    topic = new_topic(kafka, partitions=3)

    def build_weak(p: dm.Pipeline) -> None:
        sums = p | dm.Create([("UA", 2), ("AA", 2), ("UA", 3)]) | dm.Sum.per_key()
        _ = sums | "out" >> dm.io.WriteKafka(topic, bootstrap_servers=kafka, keys="key", delivery=delivery)

    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path, productions="weak")
    result = run(runner, build_weak)
    assert sums_in(kafka, topic) == SUMS
    assert result.metrics()["out"]["rows_at_least_once"] == result.metrics()["out"]["rows"] == 2
    commits = {str(dict(message.headers() or [])["dataflow_model.commit"]) for message in messages_in(kafka, topic)}
    assert all("-stage-" in commit for commit in commits)  # the part, since each counts its messages from 0


# What cannot be written.


def test_elements_that_do_not_fit_are_in_a_topic_of_their_own_and_are_counted(kafka: str, tmp_path: Path) -> None:
    topic, bad = new_topic(kafka), new_topic(kafka)

    def build_bad(p: dm.Pipeline) -> None:
        elements = p | dm.Create([("UA", 4), ("AA", "four"), (None, 2)])
        options: dict[str, Any] = {"schema": PAIRS, "keys": "key", "upsert": True, "dead_letters": bad}
        _ = elements | "out" >> dm.io.WriteKafka(topic, bootstrap_servers=kafka, **options)

    result = run(dm.LocalRunner(checkpoint=tmp_path), build_bad)
    assert keys(kafka, topic) == ["UA"]
    assert sorted(letter["row"] for letter in values(kafka, bad)) == ["('AA', 'four')", "(None, 2)"]
    assert {letter["label"] for letter in values(kafka, bad)} == {"out"}
    counts = result.metrics()["out"]
    assert (counts["rows"], counts["dead_letters"]) == (1, 2)


def test_a_topic_for_dead_letters_that_does_not_exist_is_an_error_before_anything_runs(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka), servers=kafka, schema=PAIRS, dead_letters="none")
    with pytest.raises(dm.SinkError, match=r"'none'.*UNKNOWN_TOPIC_OR_PART"):
        sink.check()


def test_a_value_without_a_key_that_a_compacted_topic_refuses_is_an_error_that_says_what_to_change(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka, cleanup_policy="compact"), servers=kafka, value="bytes")
    with pytest.raises(dm.SinkError, match="give each value a key, which compacted topics need"):
        commit(start(sink, 1), 0, record(1, "no key"))


def test_a_timestamp_that_the_topic_refuses_is_an_error_that_says_what_to_change(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka, message_timestamp_before_max_ms=60_000), servers=kafka, value="bytes")
    old = attrs.evolve(record(1, "old"), event_time=dm.EventTime(1_357_034_400_000_000))
    with pytest.raises(dm.SinkError, match=r"INVALID_TIMESTAMP(.|\n)*message.timestamp.before.max.ms"):
        commit(start(sink, 1), 0, old)
    assert messages_in(kafka, sink.topic) == []


def test_headers_of_the_user_are_beside_those_of_the_commit(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka), servers=kafka, schema=PAIRS, headers="key")
    commit(start(sink, 1), 0, record(1, ("a", 1)))
    [message] = messages_in(kafka, sink.topic)
    assert message.headers() == [
        ("key", b"a"),
        ("dataflow_model.commit", b"run-000000000001-00000000"),
        ("dataflow_model.ordinal", b"0"),
    ]


def test_a_topic_that_does_not_exist_is_an_error_before_anything_runs(kafka: str) -> None:
    with pytest.raises(dm.SinkError, match=r"'out' cannot write to the topic 'none'.*UNKNOWN_TOPIC_OR_PART") as raised:
        run(dm.LocalRunner(), lambda p: build(p, kafka, "none"))
    assert str(raised.value).endswith("Hint: create the topic, or fix its name")


def test_a_message_that_is_too_large_for_the_topic_fails_the_commit_and_leaves_no_row(kafka: str) -> None:
    sink = KafkaSink(topic=new_topic(kafka, max_message_bytes=2_000), servers=kafka, value="bytes")
    started = start(sink, 1)
    with pytest.raises(dm.SinkError, match="MSG_SIZE_TOO_LARGE") as raised:
        commit(started, 0, record(1, "small"), record(2, "".join(random.choices("0123456789", k=9_000))))
    assert "increase max.message.bytes of the topic" in str(raised.value)
    commit(started, 1, record(1, "small"))
    assert [message.value() for message in messages_in(kafka, sink.topic)] == [b"small"]
