"""Beam's transforms for Kafka, which run in Java elsewhere, on `ReadKafka` and `WriteKafka`."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.demo.broker import running_broker
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.waiting import wait_for

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import external, window
from apache_beam.transforms.external import ExternalTransform

from dataflow_model.beam import LocalRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore")]  # Beam's own
JAVA = "org.apache.kafka.common.serialization."


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("noida_db", reason="noida-db, a small broker, has no build for this platform")
    with running_broker(tmp_path_factory.mktemp("broker")) as servers:
        yield servers


@pytest.fixture(
    params=["small_broker", pytest.param("kafka", marks=[pytest.mark.connectors, pytest.mark.slow])],
)
def servers(request: pytest.FixtureRequest) -> str:
    """The address of a broker from PyPI, or of one of Apache Kafka."""
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture(autouse=True)
def no_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a question to an expansion service fail, which would start Java."""

    def ask(service: Any) -> None:
        raise AssertionError(f"{service} was asked")

    monkeypatch.setattr(ExternalTransform, "service", ask)
    # It starts Java and Docker, only to see whether they are there, and closes no pipe.
    monkeypatch.setattr(external, "_maybe_use_transform_service", lambda service, options: service)


def started(checkpoint: Path, build: Callable[[Any], Any]) -> Any:
    """Start a pipeline as a stream; return the run."""
    options = PipelineOptions([f"--dm_checkpoint={checkpoint}"])
    pipeline = beam.Pipeline(runner=LocalRunner(), options=options)
    build(pipeline)
    return pipeline.run()


def written(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((message.key(), message.value()) for message in messages_in(servers, topic))


def has_written(servers: str, topic: str, expected: list[Any]) -> bool:
    return written(servers, topic) == expected


def earliest(servers: str) -> dict[str, str]:
    return {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}


def twice(pair: Any) -> Any:
    return pair[0], pair[1] * 2


def test_a_stream_from_topic_to_topic_writes_each_message_once_over_its_starts(servers: str, tmp_path: Path) -> None:
    first, second = new_topic(servers, partitions=2), new_topic(servers)

    def copies(pipeline: Any) -> None:
        pairs = pipeline | ReadFromKafka(earliest(servers), [first]) | beam.Map(twice)
        _ = pairs | WriteToKafka({"bootstrap.servers": servers}, second)

    for numbers in (range(5), range(5, 9)):
        send(servers, first, [{"key": f"{n}", "value": f"{n}", "partition": n % 2} for n in numbers])
        result = started(tmp_path / "checkpoint", copies)
        expected = [(f"{n}".encode(), f"{n}{n}".encode()) for n in range(numbers.stop)]
        wait_for(result.ours, partial(has_written, servers, second, expected))
        assert result.cancel() == "CANCELLED"


def test_keys_and_values_are_decoded_and_encoded_as_javas_classes_do(servers: str, tmp_path: Path) -> None:
    first, second = new_topic(servers), new_topic(servers)
    send(servers, first, [{"key": "ä".encode(), "value": struct.pack(">q", -7)}, {"key": b"gone", "value": None}])

    def copies(pipeline: Any) -> None:
        read = ReadFromKafka(
            earliest(servers),
            [first],
            key_deserializer=f"{JAVA}StringDeserializer",
            value_deserializer=f"{JAVA}LongDeserializer",
        )
        negated = pipeline | read | beam.MapTuple(lambda key, value: (None if value is None else value - 1, key + "!"))
        _ = negated | WriteToKafka(
            {"bootstrap.servers": servers},
            second,
            key_serializer=f"{JAVA}IntegerSerializer",
            value_serializer=f"{JAVA}StringSerializer",
        )

    result = started(tmp_path, copies)
    keys = [(struct.pack(">i", -8), "ä!".encode()), (None, b"gone!")]
    wait_for(result.ours, lambda: set(_unsorted(servers, second)) == set(keys))
    result.cancel()


def _unsorted(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key(), message.value()) for message in messages_in(servers, topic)]


def test_a_value_that_cannot_be_decoded_is_named_with_its_offset(servers: str, tmp_path: Path) -> None:
    topic = new_topic(servers)
    send(servers, topic, [{"value": struct.pack(">q", 1)}, {"value": b"short"}])
    read = ReadFromKafka(earliest(servers), [topic], value_deserializer=f"{JAVA}LongDeserializer")
    result = started(tmp_path, lambda pipeline: pipeline | read)
    with pytest.raises(dm.InvalidArgument, match=rf"the value of {topic}/0, offset 1, cannot be decoded"):
        result.wait_until_finish(60_000)


def test_rows_with_metadata_and_headers(servers: str, tmp_path: Path) -> None:
    first, second = new_topic(servers), new_topic(servers)
    message = {"key": b"k", "value": b"v", "headers": [("h", b"1")], "timestamp": 1_000}
    send(servers, first, [message, message])

    def row(given: Any, at: Any = beam.DoFn.TimestampParam) -> Any:
        [header] = given.headers
        assert (given.key, given.timestamp, at.micros) == (b"k", 1_000, 1_000_000)
        where = f"{given.topic}/{given.partition}/{given.offset}"
        return beam.Row(key=where.encode(), value=given.value, headers=[beam.Row(key="again", value=header.value)])

    def copies(pipeline: Any) -> None:
        read = ReadFromKafka(
            earliest(servers), [first], with_metadata=True, timestamp_policy=ReadFromKafka.create_time_policy
        )
        rows = pipeline | read | beam.Map(row)
        _ = rows | WriteToKafka({"bootstrap.servers": servers}, second, with_headers=True)

    result = started(tmp_path, copies)
    wait_for(
        result.ours,
        partial(has_written, servers, second, [(f"{first}/0/{offset}".encode(), b"v") for offset in range(2)]),
    )
    assert ("again", b"1") in (messages_in(servers, second)[0].headers() or [])
    result.cancel()


def test_managed_kafka_reads_and_writes_bytes(servers: str, tmp_path: Path) -> None:
    first, second = new_topic(servers), new_topic(servers)
    send(servers, first, [{"value": b"a"}, {"value": b"b"}])
    config = {"bootstrap_servers": servers, "format": "RAW"}

    def copies(pipeline: Any) -> None:
        from_start = {"topic": first, "auto_offset_reset_config": "earliest"}
        rows = pipeline | beam.managed.Read(beam.managed.KAFKA, config=config | from_start)
        again = rows | beam.Map(lambda row: beam.Row(payload=row.payload * 2))
        _ = again | beam.managed.Write(beam.managed.KAFKA, config=config | {"topic": second})

    result = started(tmp_path, copies)
    wait_for(result.ours, partial(has_written, servers, second, [(None, b"aa"), (None, b"bb")]))
    result.cancel()


def test_windows_of_creation_times_end_as_later_messages_arrive(servers: str, tmp_path: Path) -> None:
    first, second = new_topic(servers), new_topic(servers)
    send(servers, first, [{"key": b"k", "value": b"x", "timestamp": at} for at in (1_000, 2_000, 11_000, 25_000)])

    def counts(pipeline: Any) -> None:
        read = ReadFromKafka(earliest(servers), [first], timestamp_policy=ReadFromKafka.create_time_policy)
        ones = pipeline | read | beam.Map(lambda pair: (pair[0], 1)) | beam.WindowInto(window.FixedWindows(10))
        summed = ones | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, number: (key, str(number).encode()))
        _ = summed | WriteToKafka({"bootstrap.servers": servers}, second)

    result = started(tmp_path, counts)
    wait_for(result.ours, partial(has_written, servers, second, [(b"k", b"1"), (b"k", b"2")]))
    result.cancel()


def test_without_a_checkpoint_messages_are_read_live(servers: str, tmp_path: Path) -> None:
    def note(pair: Any) -> None:
        with (tmp_path / "notes").open("a") as file:
            file.write(pair[1].decode())

    topic = new_topic(servers)
    send(servers, topic, [{"value": b"a"}])
    pipeline = beam.Pipeline(runner=LocalRunner())
    _ = pipeline | ReadFromKafka(earliest(servers), [topic]) | beam.Map(note)
    result = pipeline.run()
    for value, noted in ((b"b", "a"), (b"c", "ab")):
        wait_for(result.ours, partial(has_text, tmp_path / "notes", noted))
        send(servers, topic, [{"value": value}])
    assert result.cancel() == "CANCELLED"


def has_text(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def test_offsets_are_noted_in_the_group_that_commits_are_asked_for(servers: str, tmp_path: Path) -> None:
    topic, group = new_topic(servers), f"group-{tmp_path.name}"
    send(servers, topic, [{"value": b"a"}, {"value": b"b"}])
    read = ReadFromKafka(earliest(servers) | {"group.id": group}, [topic], commit_offset_in_finalize=True)
    result = started(tmp_path, lambda pipeline: pipeline | read)
    wait_for(result.ours, lambda: noted(servers, group, topic) == 2)
    result.cancel()


def noted(servers: str, group: str, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        [partition] = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    finally:
        consumer.close()
    return int(partition.offset)


BROKER = {"bootstrap.servers": "localhost:1"}


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (lambda: ReadFromKafka(BROKER, ["t"], max_num_records=3), "max_num_records=3"),
        (lambda: ReadFromKafka(BROKER, ["t"], max_read_time=3), "max_read_time=3"),
        (lambda: ReadFromKafka(BROKER, ["t"], consumer_factory_fn_class="a.B"), "consumer_factory_fn_class='a.B'"),
        (lambda: ReadFromKafka(BROKER, ["t"], key_deserializer="a.Own"), "key_deserializer='a.Own'"),
        (lambda: ReadFromKafka(BROKER, ["t"], value_deserializer="a.LongDeserializer"), "value_deserializer='a.Long"),
        (lambda: ReadFromKafka(BROKER | {"group.id": "g"}, ["t"]), "group.id='g'"),
        (lambda: ReadFromKafka(BROKER | {"group.id": "g"}, ["t"], commit_offset_in_finalize=True), "group.id='g'"),
        (lambda: ReadFromKafka(BROKER, ["t"], commit_offset_in_finalize=True), "commit_offset_in_finalize=True"),
        (lambda: ReadFromKafka(BROKER | {"enable.auto.commit": "true"}, ["t"]), "enable.auto.commit=True"),
        (lambda: ReadFromKafka(BROKER | {"auto.offset.reset": "none"}, ["t"]), "auto.offset.reset='none'"),
        (lambda: ReadFromKafka(BROKER | {"isolation.level": "read_uncommitted"}, ["t"]), "isolation.level='read_un"),
        (lambda: ReadFromKafka(BROKER | {"ssl.truststore.location": "a.jks"}, ["t"]), "ssl.truststore.location='a"),
        (lambda: ReadFromKafka({}, ["t"]), "bootstrap.servers=None"),
        (lambda: beam.managed.Read("kafka", config={"topic": "t"}), "bootstrap_servers=None"),
        (
            lambda: beam.managed.Read("kafka", config={"topic": "t", "bootstrap_servers": "b", "format": "JSON"}),
            "format='JSON'",
        ),
        (
            lambda: beam.managed.Read("kafka", config={"topic": "t", "bootstrap_servers": "b", "message_name": "m"}),
            "message_name='m'",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "transform",
)
def test_an_argument_without_equivalent_is_rejected_by_name_when_the_pipeline_is_built(
    transform: Callable[[], Any], name: str
) -> None:
    with pytest.raises(dm.UnsupportedOnRunner) as rejected:
        _ = beam.Pipeline(runner=LocalRunner()) | "from kafka" >> transform()
    assert f"'from kafka' has {name}" in str(rejected.value)
    assert "Hint: " in str(rejected.value)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (lambda: WriteToKafka(BROKER, "t", key_serializer="a.Own"), "key_serializer='a.Own'"),
        (lambda: WriteToKafka(BROKER | {"transactional.id": "x"}, "t"), "transactional.id='x'"),
        (lambda: WriteToKafka(BROKER | {"value.serializer": "x"}, "t"), "value.serializer='x'"),
        (
            lambda: beam.managed.Write("kafka", config={"topic": "t", "bootstrap_servers": "b", "format": "AVRO"}),
            "format",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "transform",
)
def test_an_argument_of_a_sink_without_equivalent_is_rejected_too(transform: Callable[[], Any], name: str) -> None:
    with pytest.raises(dm.UnsupportedOnRunner) as rejected:
        _ = beam.Pipeline(runner=LocalRunner()) | beam.Create([(b"k", b"v")]) | "to kafka" >> transform()
    assert f"'to kafka' has {name}" in str(rejected.value)


def test_an_override_of_kafka_that_is_switched_off_asks_beams_expansion_service() -> None:
    options = PipelineOptions(["--dm_without_override=ReadFromKafka"])
    with pytest.raises(AssertionError, match="was asked"):
        _ = beam.Pipeline(runner=LocalRunner(), options=options) | ReadFromKafka(BROKER, ["t"])


def test_the_login_of_javas_clients_becomes_that_of_librdkafka() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="an\\"na" password="p;w=1";'
    config = BROKER | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
    options = options_of(ReadFromKafka(config, ["t"]))
    assert options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'an"na',
        "sasl.password": "p;w=1",
    }
    with pytest.raises(dm.UnsupportedOnRunner, match=r"sasl\.jaas\.config") as rejected:
        options_of(ReadFromKafka(BROKER | {"sasl.jaas.config": 'a.Krb5LoginModule required secret="s";'}, ["t"]))
    assert '"s"' not in str(rejected.value)


def options_of(read: Any) -> dict[str, Any]:
    from dataflow_model.beam.kafka import read_from_kafka

    source: Any = read_from_kafka(read, "read").read.source
    options: dict[str, Any] = source.options
    return options
