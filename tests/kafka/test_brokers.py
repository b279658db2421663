"""`ReadKafka` and `WriteKafka` on three brokers: each row once, while brokers and the stream are killed by turns."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.support.kafka.broker import running_brokers
from tests.support.kafka.job import job_command, run_job
from tests.support.kafka.topics import messages_in, new_topic
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 3
FAILOVER = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
SETTINGS = {**FAILOVER, "controller.quorum.fetch.timeout.ms": 2_000}


@attrs.define
class Feeder:
    """Writes numbers to a topic from a thread of its own, and knows which the brokers have acknowledged."""

    servers: str
    topic: str
    acknowledged: set[int] = attrs.field(factory=set)
    refused: list[Any] = attrs.field(factory=list)
    _is_over: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        assert self._thread is not None
        self._thread.join()

    def _feed(self) -> None:
        options: dict[str, Any] = {"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0}
        producer, number = Producer(options), 0
        while not self._is_over.wait(0.01):
            note = self._note(number)
            producer.produce(self.topic, str(number), partition=number % PARTITIONS, on_delivery=note)
            producer.poll(0)
            number += 1
        assert producer.flush(120) == 0

    def _note(self, number: int) -> Any:
        def noted(error: Any, _: Any) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.refused.append(error)

        return noted


@attrs.define
class Stream:
    """A stream in a process of its own, which is started again whenever it has ended."""

    command: list[str]
    log: Path
    failures: int = 0
    _is_over: threading.Event = attrs.field(factory=threading.Event)
    _process: subprocess.Popen[bytes] | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        self._is_over.set()
        assert self._thread is not None
        self._thread.join()

    def _keep(self) -> None:
        with self.log.open("ab") as log:
            while not self._is_over.is_set():
                self._process = subprocess.Popen(self.command, cwd=REPOSITORY, stdout=log, stderr=log)
                while self._process.poll() is None and not self._is_over.wait(0.05):
                    pass
                self.failures += (self._process.returncode or 0) > 0
            assert self._process is not None
            self._process.kill()
            self._process.wait()


def await_replicas(servers: str, topics: list[str], count: int) -> None:
    """Wait until all brokers have all rows, so that the next one may be killed."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + 120
    while True:
        try:
            found = [future.result(20) for future in admin.describe_topics(TopicCollection(topics)).values()]
            if all(len(partition.isr) == count for topic in found for partition in topic.partitions):
                return
        except KafkaException:
            pass
        assert time.monotonic() < deadline, "a replica does not catch up"
        time.sleep(0.2)


def kill_by_turns(java_home: str, jars: Path, folder: Path, kills: int, marks: str, seed: int) -> None:
    """Kill brokers and a stream of random draws from topic to topic, each so many times, and check what is there."""
    draw = random.Random(seed)
    (folder / "brokers").mkdir()
    with running_brokers(folder / "brokers", java_home, jars, 3, SETTINGS) as brokers:
        servers = ",".join(broker.servers for broker in brokers)
        source, target = (new_topic(servers, partitions=PARTITIONS, replicas=3) for _ in range(2))
        checkpoint = folder / "run"
        feeder = Feeder(servers, source)
        stream = Stream(job_command(servers, source, target, checkpoint, "follow", marks), folder / "stream.log")
        feeder.start()
        stream.start()
        time.sleep(8)  # until it writes
        turns = [*["broker"] * kills, *["stream"] * kills]
        draw.shuffle(turns)
        for turn in turns:
            if turn == "stream":
                time.sleep(draw.uniform(2, 7))
                stream.kill()
                continue
            broker = draw.choice(brokers)
            broker.kill()
            time.sleep(draw.uniform(1, 4))
            broker.start()
            await_replicas(servers, [source, target, "__consumer_offsets", "__transaction_state"], 3)
        time.sleep(5)
        feeder.stop()
        stream.stop()
        assert run_job(servers, source, target, checkpoint, marks=marks) == 0
        written = [json.loads(message.value() or b"")["n"] for message in messages_in(servers, target)]
        assert not feeder.refused
        assert len(written) == len(set(written)), "rows are there twice"
        assert feeder.acknowledged == set(written)
        assert len(written) > 100 * kills
        assert not stream.failures, stream.log.read_text()[-3000:]


@pytest.mark.connectors
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_row_is_written_once_while_brokers_and_the_stream_are_killed(
    java_home: str, kafka_jars: Path, tmp_path: Path
) -> None:
    kill_by_turns(java_home, kafka_jars, tmp_path, 3, "group", seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("marks", ["group", "topic"])
def test_each_row_is_written_once_while_brokers_and_the_stream_are_killed_many_times(
    java_home: str, kafka_jars: Path, tmp_path: Path, marks: str
) -> None:
    kill_by_turns(java_home, kafka_jars, tmp_path, 20, marks, seed=2)
