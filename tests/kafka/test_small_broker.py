"""`ReadKafka` and `WriteKafka` on a small broker from PyPI: what `make test` has of Kafka, which needs nothing else."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import Producer

import dataflow_model as dm
from dataflow_model.cli.command import main
from dataflow_model.demo.broker import running_broker
from dataflow_model.io.topics import transactions
from dataflow_model.io.topics.sink import KafkaSink
from tests.support.exactly_once.tables import PAIRS, record
from tests.support.kafka.commits import commit, start
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("noida_db", reason="noida-db, a small broker, has no build for this platform")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("broker")) as servers:
        yield servers


def test_the_broker_in_one_process_supports_transactions_headers_and_timestamps(small_broker: str) -> None:
    topic = new_topic(small_broker, partitions=2)
    send(
        small_broker,
        topic,
        [{"value": b"kept", "key": b"k", "headers": [("h", b"1")], "timestamp": 1_000}],
        commits=True,
    )
    send(small_broker, topic, [{"value": b"aborted"}], commits=False)
    [message] = messages_in(small_broker, topic)
    assert (message.value(), message.key(), message.headers()) == (b"kept", b"k", [("h", b"1")])
    assert message.timestamp()[1] == 1_000
    older, newer = (
        Producer({"bootstrap.servers": small_broker, "transactional.id": topic, "log_level": 0}) for _ in range(2)
    )
    older.init_transactions(30)
    older.begin_transaction()
    older.produce(topic, b"of the older")
    newer.init_transactions(30)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        older.commit_transaction(30)
    assert fenced.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert len(messages_in(small_broker, topic)) == 1


def test_the_broker_ends_with_the_block(tmp_path: Path) -> None:
    with running_broker(tmp_path) as servers:
        host, _, port = servers.partition(":")
        socket.create_connection((host, int(port))).close()
    deadline = time.monotonic() + 30
    while not is_free(int(port)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_free(int(port))


def is_free(port: int) -> bool:
    """Return whether a server could listen there."""
    with contextlib.closing(socket.socket()) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def copies(p: dm.Pipeline, servers: str, source: str, target: str, **read: Any) -> None:
    """Copy the numbers of a topic to another, ten times as large."""
    numbers = p | dm.io.ReadKafka(source, bootstrap_servers=servers, **read)
    tenfold = numbers | dm.Map(lambda row: {"n": 10 * int(row.value)})
    _ = tenfold | "out" >> dm.io.WriteKafka(target, bootstrap_servers=servers, schema=pa.schema({"n": pa.int64()}))


def numbers_in(servers: str, topic: str) -> list[int]:
    return sorted(json.loads(message.value() or b"")["n"] for message in messages_in(servers, topic))


def has_numbers(servers: str, topic: str, numbers: list[int]) -> bool:
    return numbers_in(servers, topic) == numbers


def test_a_bounded_run_reads_the_rows_that_another_has_written(small_broker: str) -> None:
    first, second = (new_topic(small_broker, partitions=2) for _ in range(2))
    send(small_broker, first, [{"value": str(n), "partition": n % 2} for n in range(20)], commits=True)
    send(small_broker, first, [{"value": b"99"}], commits=False)
    run(dm.LocalRunner(), lambda p: copies(p, small_broker, first, second, end="latest"))
    assert numbers_in(small_broker, second) == [10 * n for n in range(20)]

    def build(p: dm.Pipeline) -> None:
        written = p | dm.io.ReadKafka(second, bootstrap_servers=small_broker, end="latest")
        _ = written | dm.Map(lambda row: json.loads(row.value)["n"]) | dm.Sum.globally() | "out" >> dm.io.Collect()

    assert [record.value for record in run(dm.LocalRunner(), build).collected("out")] == [1_900]


def test_a_restarted_stream_writes_only_new_rows(small_broker: str, tmp_path: Path) -> None:
    first, second = (new_topic(small_broker) for _ in range(2))
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=2))
    copies(p, small_broker, first, second)
    for numbers in (range(5), range(5, 9)):
        send(small_broker, first, [{"value": str(n)} for n in numbers], commits=True)
        expected = [10 * n for n in range(numbers.stop)]
        result = p.run()
        wait_for(result, partial(has_numbers, small_broker, second, expected))
        result.stop()


def test_a_start_that_was_superseded_writes_nothing(small_broker: str) -> None:
    sink = KafkaSink(topic=new_topic(small_broker), servers=small_broker, schema=PAIRS)
    older = start(sink, 1)
    commit(older, 0, record(1, ("a", 1)))
    producers = dict(transactions._open)
    transactions._open.clear()  # as in another process
    commit(start(sink, 2), 1, record(1, ("b", 1)))
    transactions._open.clear()
    transactions._open.update(producers)
    with pytest.raises(dm.SupersededRun):
        commit(older, 1, record(1, ("c", 1)))
    rows = [json.loads(message.value() or b"") for message in messages_in(small_broker, sink.topic)]
    assert [row["key"] for row in rows] == ["a", "b"]


def test_the_demo_with_kafka_counts_each_departure_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--kafka", "--rows", "400", "--rate", "2000"]) == 0
    said = capsys.readouterr().out
    assert "Sending 400 departures, 2,000 a second" in said
    assert "The last of each hour and carrier count" in said


def test_a_demo_without_the_broker_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert main(["demo", "--kafka", "--rows", "4"]) == 1
    assert "Hint: pip install 'dataflow-model[demo]'" in capsys.readouterr().err
