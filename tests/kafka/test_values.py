"""`ReadKafka` with decoded values on a broker: rows, tombstones and dead letters, on each runner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.kafka.apicurio import register
from tests.support.kafka.registry import DELAYS, encoded
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

NEW_YEAR = 1_357_002_000_000
COLUMNS = pa.schema({"carrier": pa.string(), "delay": pa.int64(), "at": pa.int64()})


class Delay(NamedTuple):
    """A row of the topic, with the place of its message."""

    carrier: str
    delay: int
    partition: int
    offset: int


def message(delay: Any, place: int) -> dict[str, Any]:
    value = {"carrier": "UA", "delay": delay, "at": NEW_YEAR + place * 1_000}
    return {"value": json.dumps(value), "key": "UA", "partition": place % 2, "timestamp": NEW_YEAR}


@pytest.fixture
def topic(kafka: str) -> str:
    """A topic of two partitions with 20 delays, of which two are no numbers; the first ten are in a transaction."""
    made = new_topic(kafka, partitions=2)
    send(kafka, made, [message("none" if index == 3 else index, index) for index in range(10)], commits=True)
    messages_in(kafka, made)  # waits for the end of the transaction, which takes an offset
    send(kafka, made, [message("none" if index == 16 else index, index) for index in range(10, 20)])
    return made


def build(p: dm.Pipeline, servers: str, topic: str, **options: Any) -> None:
    read = dm.io.ReadKafka(
        topic,
        bootstrap_servers=servers,
        value="json",
        schema=COLUMNS,
        event_time="at",
        event_time_unit="ms",
        **options,
    )
    rows, bad = p | "in" >> read.with_exception_handling()
    _ = bad | dm.Map(lambda letter: (letter.reason, letter.element)) | "bad" >> dm.io.Collect()
    _ = (
        rows
        | dm.Map(lambda row: (row.carrier, row.delay)).with_output_types(tuple[str, int])
        | dm.Window.into(dm.FixedWindows("10 seconds"))
        | dm.Sum.per_key()
        | "sums" >> dm.io.Collect()
    )


def check(result: Any, topic: str) -> None:
    values = sorted(record.value[1] for record in result.collected("sums"))
    assert values == [sum(range(10)) - 3, sum(range(10, 20)) - 16]
    reasons = sorted(record.value[0] for record in result.collected("bad"))
    assert reasons == [
        f"{topic}/0, offset 9: column 'delay' is int64 and cannot hold 'none'",
        f"{topic}/1, offset 1: column 'delay' is int64 and cannot hold 'none'",
    ]
    assert all(json.loads(record.value[1])["delay"] == "none" for record in result.collected("bad"))
    counters = result.report().transforms["in"].counters
    assert (counters["elements_out"], counters["dead_letters"]) == (18, 2)


@pytest.mark.parametrize("workers", [None, 2])
def test_a_bounded_run_reads_fields_and_sends_what_does_not_fit_to_the_dead_letters(
    kafka: str, topic: str, workers: int | None
) -> None:
    runner = dm.LocalRunner() if workers is None else dm.LocalRunner(workers=workers)
    check(run(runner, lambda p: build(p, kafka, topic, end="latest")), topic)


def test_a_stream_reads_fields_and_sends_what_does_not_fit_to_the_dead_letters(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=3)
    check(run(runner, lambda p: build(p, kafka, topic)), topic)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_reads_fields_and_sends_what_does_not_fit_to_the_dead_letters(
    kafka: str, topic: str, spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    options: dict[str, Any] = {} if mode == "batch" else {"checkpoint": tmp_path, "max_rows_per_batch": 16}
    end = "latest" if mode == "batch" else None
    check(run(dm.SparkRunner(spark, mode=mode, **options), lambda p: build(p, kafka, topic, end=end)), topic)


def test_without_an_output_for_dead_letters_a_bad_value_ends_the_run_with_its_offset(kafka: str, topic: str) -> None:
    def build_rows(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(topic, bootstrap_servers=kafka, end="latest", value="json", schema=COLUMNS)
        _ = p | "in" >> read | dm.io.Collect()

    with pytest.raises(dm.SourceError, match=rf"'in' cannot read offset \d of {topic}/\d: column 'delay'"):
        run(dm.LocalRunner(), build_rows)


def test_tombstones_pass_as_rows_of_nulls(kafka: str) -> None:
    topic = new_topic(kafka)
    send(kafka, topic, [{"value": b'{"delay": 4}', "key": b"UA"}, {"value": None, "key": b"UA"}, {"value": b"{}"}])

    def build_rows(p: dm.Pipeline) -> None:
        columns = pa.schema({"delay": pa.int64()})
        read = dm.io.ReadKafka(topic, bootstrap_servers=kafka, end="latest", value="json", schema=columns)
        _ = p | read | "out" >> dm.io.Collect()

    rows = [record.value for record in run(dm.LocalRunner(), build_rows).collected("out")]
    assert [(row.key, row.delay, row.is_tombstone) for row in rows] == [
        (b"UA", 4, False),
        (b"UA", None, True),
        (None, None, False),
    ]


def test_rows_may_be_instances_of_a_class_with_fields_of_the_value_and_of_the_message(kafka: str, topic: str) -> None:
    def build_rows(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(topic, bootstrap_servers=kafka, end="latest", value="json", row_type=Delay)
        rows, bad = p | read.with_exception_handling()
        _ = rows | "out" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build_rows)
    found = sorted(record.value for record in result.collected("out"))
    assert found[:2] == [Delay("UA", 0, 0, 0), Delay("UA", 1, 1, 0)]
    assert len(found) == 18
    assert len(result.collected("bad")) == 2


LATER = {**DELAYS, "fields": [*DELAYS["fields"], {"name": "gate", "type": ["null", "string"], "default": None}]}


@pytest.mark.parametrize("host", ["bounded", "workers", "stream", pytest.param("spark", marks=pytest.mark.spark)])
def test_avro_is_read_with_the_schemas_of_a_registry(
    kafka: str, schema_registry: str, tmp_path: Path, host: str, request: pytest.FixtureRequest
) -> None:
    topic = new_topic(kafka)
    old, new = (register(schema_registry, f"{topic}-value", schema) for schema in (DELAYS, LATER))
    values = [
        encoded(old, DELAYS, {"carrier": "UA", "delay": 4}),
        encoded(new, LATER, {"carrier": "AA", "delay": None, "gate": "B7"}),
        None,
        encoded(987_654, DELAYS, {"carrier": "UA", "delay": 4}),
        b"not avro",
        encoded(old, DELAYS, {"carrier": "UA", "delay": 5}),
    ]
    send(kafka, topic, [{"value": value} for value in values])

    def build_rows(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(
            topic,
            bootstrap_servers=kafka,
            value="avro",
            schema=pa.schema({"carrier": pa.string(), "delay": pa.int64(), "gate": pa.string()}),
            schema_registry=schema_registry,
            end=None if host == "stream" else "latest",
        )
        rows, bad = p | read.with_exception_handling()
        _ = rows | dm.Map(lambda row: (row.offset, row.carrier, row.delay, row.gate)) | "out" >> dm.io.Collect()
        _ = bad | dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()

    runners: dict[str, Callable[[], Any]] = {
        "bounded": dm.LocalRunner,
        "workers": lambda: dm.LocalRunner(workers=2),
        "stream": lambda: dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=2),
        "spark": lambda: dm.SparkRunner(request.getfixturevalue("spark"), mode="batch"),
    }
    result = run(runners[host](), build_rows)
    assert sorted(record.value for record in result.collected("out")) == [
        (0, "UA", 4, None),
        (1, "AA", None, "B7"),
        (2, None, None, None),
        (5, "UA", 5, None),
    ]
    assert sorted(record.value for record in result.collected("bad")) == [
        f"{topic}/0, offset 3: the schema registry {schema_registry} has no schema with the id 987654",
        f"{topic}/0, offset 4: it does not begin with a zero byte and the id of a schema",
    ]


def test_a_registry_that_cannot_be_reached_is_named_at_the_start(kafka: str, topic: str, tmp_path: Path) -> None:
    def build_rows(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(
            topic, bootstrap_servers=kafka, value="avro", schema=COLUMNS, schema_registry="http://127.0.0.1:1"
        )
        _ = p | read | dm.io.Collect()

    with pytest.raises(dm.SourceError, match=r"http://127\.0\.0\.1:1 does not answer"):
        run(dm.LocalRunner(checkpoint=tmp_path), build_rows)


def test_a_function_reads_values_of_any_form(kafka: str, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    send(kafka, topic, [{"value": b"UA,4"}, {"value": b"UA"}, {"value": None}])

    def parse(value: bytes) -> dict[str, Any]:
        carrier, delay = value.decode().split(",")
        return {"carrier": carrier, "delay": int(delay)}

    def build_rows(p: dm.Pipeline) -> None:
        columns = pa.schema({"carrier": pa.string(), "delay": pa.int64()})
        read = dm.io.ReadKafka(topic, bootstrap_servers=kafka, value=parse, schema=columns)
        rows, bad = p | read.with_exception_handling()
        _ = rows | dm.Map(lambda row: (row.carrier, row.delay)) | "out" >> dm.io.Collect()
        _ = bad | dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()

    result = run(dm.LocalRunner(checkpoint=tmp_path), build_rows)
    assert [record.value for record in result.collected("out")] == [("UA", 4), (None, None)]
    [reason] = [record.value for record in result.collected("bad")]
    assert reason.startswith(f"{topic}/0, offset 1: the function raised ValueError: not enough values")
