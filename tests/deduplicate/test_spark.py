"""Deduplicate on Spark: a stream does what LocalRunner does, a bounded job passes each record once."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import CrashPoint, TestStream
from tests.support.deduplicate.redelivery import HORIZONS, build, numbered, redelivered
from tests.support.laws.drawing import windowing_strategies
from tests.support.pipelines import counters, difference, draw, run, seen, start, streaming
from tests.support.waiting import wait_for, wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.runner import PipelineResult


def drawn_cases(count: int, number: int) -> list[tuple[TestStream, TestStream, Any, str]]:
    """Draw scripts, each also with a hundredth or a half of its elements delivered again."""
    cases = st.tuples(numbered(max_steps=12), windowing_strategies(retracting=False), HORIZONS).flatmap(
        lambda case: st.tuples(
            st.just(case[0]),
            redelivered(case[0], (0.01, 0.5)[len(case[0].steps) % 2]),
            st.just(case[1]),
            st.just(case[2]),
        )
    )
    return draw(cases, count, number)


def all_of(cases: list[tuple[TestStream, TestStream, Any, str]], which: int) -> Callable[[dm.Pipeline], None]:
    def build_all(p: dm.Pipeline) -> None:
        for number, case in enumerate(cases):
            script = case[which]
            assert isinstance(script, TestStream)
            build(p, script, case[2], case[3], f" {number}")

    return build_all


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_forty_drawn_scripts_with_redelivered_records_change_no_pane_of_a_stream(
    spark: SparkSession, tmp_path: Path, number: int, shards: int
) -> None:
    cases = drawn_cases(40, number)
    expected = run(dm.LocalRunner(), all_of(cases, 0))
    steps = random.Random(number).randint(50, 90)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=steps, shards=shards), all_of(cases, 1))
    local = counters(run(dm.LocalRunner(), all_of(cases, 1)))
    counts = counters(actual)
    total: Counter[str] = Counter()
    for case, (_, again, strategy, _) in enumerate(cases):
        for sink in ("panes", "passed"):
            problem = difference(seen(expected.collected(f"{sink} {case}")), seen(actual.collected(f"{sink} {case}")))
            assert not problem, f"{case}: {strategy}: {problem}\n{again.steps}"
        for name in ("duplicates", "dropped_because_late", "elements_in", "ids", "id_bytes"):
            assert counts.get(f"once {case}", {}).get(name) == local.get(f"once {case}", {}).get(name), (case, name)
        total.update(counts.get(f"once {case}", {}))
    assert total["duplicates"] > 60
    assert total["dropped_because_late"]
    assert total["bloom_hits"]  # known from segments, in a later micro-batch
    assert not total["ids"]


@pytest.mark.slow
def test_twenty_drawn_scripts_with_redelivered_records_change_no_pane_of_a_bounded_job(spark: SparkSession) -> None:
    cases = drawn_cases(20, 3)
    expected = run(dm.SparkRunner(spark), all_of(cases, 0))
    actual = run(dm.SparkRunner(spark), all_of(cases, 1))
    for case, (_, again, strategy, _) in enumerate(cases):
        for sink in ("panes", "passed"):
            expected_panes, actual_panes = (
                [entry[:4] for entry in seen(result.collected(f"{sink} {case}"))] for result in (expected, actual)
            )
            assert not difference(sorted(expected_panes, key=repr), sorted(actual_panes, key=repr)), (
                case,
                strategy,
                again.steps,
            )
    assert sum(counts.get("duplicates", 0) for counts in counters(actual).values()) > 20


# Files: rows that a producer has written twice.


def write_rows(folder: Path, count: int) -> None:
    """Write rows of which each third comes again later, with the same number and time."""
    shuffler = random.Random(5)
    rows = [(at, number) for at, number in zip(range(count), range(count), strict=True)]
    rows += [(at + shuffler.randint(0, 40), number) for at, number in rows if not number % 3]
    rows.sort()
    folder.mkdir()
    columns = {"at": [n for _, n in rows], "seen": [at for at, _ in rows], "n": [n for _, n in rows]}
    pq.write_table(pa.table(columns), folder / "a.parquet")


def summing(folder: Path) -> Callable[[dm.Pipeline], None]:
    def sums(p: dm.Pipeline) -> None:
        read = dm.io.ReadParquet(
            folder, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("50 us")
        )
        once = p | "rows" >> read | "once" >> dm.Deduplicate(lambda row: row.n, horizon="64 us")
        windows = once | dm.Map(lambda row: (row.n % 5, row.n)) | dm.Window.into(dm.FixedWindows("20 us"))
        _ = windows | dm.Sum.per_key() | "sums" >> dm.io.Collect()

    return sums


@pytest.mark.slow
def test_a_stopped_stream_resumes_with_its_ids(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 300)
    build_sums = summing(tmp_path / "rows")
    expected = run(dm.LocalRunner(), build_sums)
    assert sum(record.value[1] for record in expected.collected("sums")) == sum(range(300))
    first = start(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=40), build_sums)
    wait_for_batch(first, 2)
    first.stop()
    assert 0 < len(first.collected("sums")) < len(expected.collected("sums"))
    second = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=70), build_sums)
    assert not difference(seen(expected.collected("sums")), seen(second.collected("sums")))
    assert second.metrics()["once"]["duplicates"] == expected.metrics()["once"]["duplicates"] == 100


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after_state", "after_publishing"])
def test_a_killed_stream_resumes_with_its_ids(spark: SparkSession, tmp_path: Path, point: str) -> None:
    write_rows(tmp_path / "rows", 300)
    build_sums = summing(tmp_path / "rows")
    with CrashPoint(point, micro_batch=3) as crash:
        with pytest.raises(Exception, match=r"(?s)crash|exited|EOF|terminated|failed"):
            run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build_sums)
        assert crash.was_reached
    resumed = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build_sums)
    expected = run(dm.LocalRunner(), build_sums)
    assert not difference(seen(expected.collected("sums")), seen(resumed.collected("sums")))
    assert resumed.metrics()["once"]["duplicates"] == 100


# Ids made at the source.


BROKER = "at long, topic string, partition int, offset long, value long"


@pytest.fixture
def delivered_twice(tmp_path: Path) -> Path:
    """Return a folder of what a broker has delivered: 40 rows, 15 of them twice."""
    rows = [(n * 1_000_000, "clicks", n % 2, n // 2, n) for n in range(40)]
    folder = tmp_path / "rows"
    folder.mkdir()
    names = [part.split()[0] for part in BROKER.split(", ")]
    for number, delivery in enumerate(
        [rows[:25], rows[10:40]]
    ):  # the second delivery begins before the first one ended
        table = pa.table(dict(zip(names, zip(*delivery, strict=True), strict=True)))
        table = table.set_column(2, "partition", table["partition"].cast(pa.int32()))
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def keep_once(frame: Any, **options: Any) -> Callable[[dm.Pipeline], None]:
    def values(p: dm.Pipeline) -> None:
        read = dm.io.ReadDataFrame(frame, event_time="at", **options)
        _ = p | "rows" >> read | "once" >> dm.Deduplicate(horizon="1 hour") | "kept" >> dm.io.Collect()

    return values


def check_that_each_was_kept_once(result: PipelineResult) -> None:
    assert sorted(record.value.value for record in result.collected("kept")) == list(range(40))
    assert result.metrics()["once"]["duplicates"] == 15


BY_OFFSET = {"id_columns": ("topic", "partition", "offset")}


def test_redelivered_rows_of_a_broker_are_recognised_by_their_offsets_in_a_bounded_job(
    spark: SparkSession, delivered_twice: Path
) -> None:
    frame = spark.read.parquet(str(delivered_twice))
    check_that_each_was_kept_once(run(dm.SparkRunner(spark), keep_once(frame, **BY_OFFSET)))
    with pytest.raises(dm.PlanError, match=r"the rows of 'rows' have no ids\nHint: .*dm.io.ReadDataFrame"):
        run(dm.SparkRunner(spark), keep_once(frame))


@pytest.mark.slow
def test_redelivered_rows_of_a_broker_are_recognised_by_their_offsets_in_a_stream(
    spark: SparkSession, delivered_twice: Path, tmp_path: Path
) -> None:
    stream = spark.readStream.schema(BROKER).option("maxFilesPerTrigger", 1).parquet(str(delivered_twice))
    bounded = spark.read.parquet(str(delivered_twice))
    result = start(streaming(spark, tmp_path / "checkpoint"), keep_once(stream, **BY_OFFSET))
    wait_for(result, lambda: result.metrics()["rows"].get("elements_out") == 55)
    result.drain()
    by_origin = run(dm.SparkRunner(spark), keep_once(bounded, origin="partition", sequence="offset"))
    collected = run(streaming(spark, tmp_path / "other"), keep_once(bounded, **BY_OFFSET))
    for ran in (result, by_origin, collected):
        check_that_each_was_kept_once(ran)


def test_an_id_column_that_does_not_exist_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "at long")
    with pytest.raises(dm.InvalidArgument, match="`id_columns` names the column 'offset', which does not exist"):
        dm.io.ReadDataFrame(frame, event_time="at", id_columns=("at", "offset"))
