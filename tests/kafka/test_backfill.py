"""Files, then a topic that had begun before: each row once, on each runner, over restarts and with bad rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.kafka.topics import messages_in, new_topic, send
from tests.support.pipelines import run, streaming
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

COLUMNS = pa.schema({"at": pa.int64(), "n": pa.int64()})
SEAM, LAST = 50, 90
SECOND = 1_000_000
BAD = "none"


def message(number: int, value: Any = None) -> dict[str, Any]:
    row = {"at": number * SECOND, "n": number if value is None else value}
    return {"value": json.dumps(row), "partition": number % 2, "timestamp": number * 1_000}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two files with the rows before the seam, and some behind it."""
    folder = tmp_path / "history"
    folder.mkdir()
    for name, first, last in (("a", 0, 25), ("b", 25, SEAM + 7)):
        numbers = list(range(first, last))
        columns = {"at": [number * SECOND for number in numbers], "n": numbers}
        pq.write_table(pa.table(columns, schema=COLUMNS), folder / f"{name}.parquet")
    return folder


@pytest.fixture
def topic(kafka: str) -> str:
    """A topic that has the rows from some time before the seam on, one of them bad, in transactions."""
    made = new_topic(kafka, partitions=2)
    send(kafka, made, [message(number) for number in range(30, 60)], commits=True)
    send(kafka, made, [message(number) for number in range(60, 70)], commits=False)
    send(kafka, made, [message(number) for number in range(60, 80)] + [message(80, BAD)], commits=True)
    messages_in(kafka, made)  # waits for the end of the transactions
    return made


def build(p: dm.Pipeline, history: Path, servers: str, topic: str, **options: Any) -> None:
    files = dm.io.ReadParquet(history, event_time="at", watermark="30 seconds")
    log = dm.io.ReadKafka(
        topic,
        bootstrap_servers=servers,
        value="json",
        schema=COLUMNS,
        event_time="at",
        watermark="30 seconds",
        **options,
    )
    rows, bad = p | "rows" >> dm.io.Then(files, log, at=dm.EventTime(SEAM * SECOND)).with_exception_handling()
    _ = rows | dm.Map(lambda row: row.n).with_output_types(int) | "n" >> dm.io.Collect()
    _ = bad | dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()


def numbers(result: Any) -> list[int]:
    return sorted(record.value for record in result.collected("n"))


def check(result: Any, last: int = 80) -> None:
    assert numbers(result) == list(range(last))
    [reason] = [record.value for record in result.collected("bad")]
    assert "'n'" in reason


@pytest.mark.parametrize("workers", [None, 2])
def test_a_bounded_run_reads_each_row_once(kafka: str, topic: str, history: Path, workers: int | None) -> None:
    runner = dm.LocalRunner() if workers is None else dm.LocalRunner(workers=workers)
    check(run(runner, lambda p: build(p, history, kafka, topic, end="latest")))


@pytest.mark.parametrize("start", ["earliest", dm.EventTime(40 * SECOND)])
def test_a_restarted_stream_continues_from_the_files_to_the_topic(
    kafka: str, topic: str, history: Path, tmp_path: Path, start: Any
) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=8)
    for least in (10, 40, 55, 80):
        p = dm.Pipeline(runner=runner)
        build(p, history, kafka, topic, start=start)
        result: Any = p.run()
        wait_for(result, lambda result=result, least=least: len(numbers(result)) >= least)  # type: ignore[misc]
        result.stop()
    send(kafka, topic, [message(number) for number in range(80, LAST)], commits=True)
    result = run(runner, lambda p: build(p, history, kafka, topic, start=start))
    check(result, LAST)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_reads_each_row_once(
    kafka: str, topic: str, history: Path, tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    runner = dm.SparkRunner(spark) if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    options = {"end": "latest"} if mode == "batch" else {}
    check(run(runner, lambda p: build(p, history, kafka, topic, **options)))
