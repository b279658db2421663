"""A stream on Spark from topic to topic with random values: each row once, wherever one of its processes is killed."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.testing import CrashPoint
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run, start, streaming

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 60
SCHEMA = pa.schema({"n": pa.int64(), "draw": pa.float64()})


def build(p: dm.Pipeline, servers: str, source: str, target: str, marks: Any) -> None:
    rows = p | dm.io.ReadKafka(source, bootstrap_servers=servers)
    drawn = rows | dm.Map(lambda row: {"n": int(row.value), "draw": random.random()})
    _ = drawn | "out" >> dm.io.WriteKafka(target, bootstrap_servers=servers, schema=SCHEMA, marks=marks)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "marks"),
    [
        pytest.param("after_publishing", "group", marks=pytest.mark.connectors),
        pytest.param("before_publishing", "topic", marks=pytest.mark.connectors),
        ("after_writing", "group"),
        ("before_publishing", "group"),
        ("after_publishing", "topic"),
        ("after_progress", "group"),
    ],
)
def test_a_stream_on_spark_that_is_killed_writes_each_row_once_with_random_values(
    kafka: str, spark: SparkSession, tmp_path: Path, point: str, marks: str
) -> None:
    source, target = new_topic(kafka, partitions=2), new_topic(kafka, partitions=2)
    for first in range(0, ROWS, 20):  # each in a transaction, whose marker leaves a gap
        send(kafka, source, [{"value": str(n), "partition": n % 2} for n in range(first, first + 20)], commits=True)
    messages_in(kafka, source)  # waits for the end of the transactions
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=12)
    with CrashPoint(point, micro_batch=2) as crash:
        result: Any = start(runner, lambda p: build(p, kafka, source, target, marks), until="drained")
        with contextlib.suppress(Exception):  # Spark says in several ways that a process has ended
            result.wait_until_finish()
    assert crash.was_reached
    run(runner, lambda p: build(p, kafka, source, target, marks))
    written = [json.loads(message.value() or b"") for message in messages_in(kafka, target)]
    assert sorted(row["n"] for row in written) == list(range(ROWS))
