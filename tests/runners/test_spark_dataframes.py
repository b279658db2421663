"""DataFrames as sources on Spark, bounded and streaming, and how runs over unbounded sources end."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import dataflow_model as dm
from dataflow_model.errors import CheckpointMismatch, InvalidArgument, SourceError, UnsupportedOnRunner
from dataflow_model.runners.sharded.tasks import rows
from dataflow_model.runners.spark import collected
from dataflow_model.runners.spark.dataframes import ROW_TYPE
from dataflow_model.runners.spark.deployment.session import settings_of
from tests.support.pipelines import difference, run, seen, start, streaming
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND = 1_000_000
SCHEMA = "at long, key string, value long, position long"
ROWS = [(number * SECOND, "abc"[number % 3], number, 1_000 - number) for number in range(100)]


def sums(frame: Any, **options: Any) -> Callable[[dm.Pipeline], None]:
    """Return the pipeline: sums per key and ten seconds, and the rows as they come."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadDataFrame(frame, event_time="at", **options)
        _ = rows | "values" >> dm.Map(lambda row: row.value) | "kept" >> dm.io.Collect()
        windows = rows | dm.Map(lambda row: (row.key, row.value)) | dm.Window.into(dm.FixedWindows(10))
        _ = windows | dm.Sum.per_key() | "sums" >> dm.io.Collect()

    return build


def expected_sums(rows: Any = ROWS) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for at, key, value, *_ in rows:
        sums[key, at // (10 * SECOND)] += value
    return sums


def actual_sums(result: Any) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for record in result.collected("sums"):
        key, value = record.value
        sums[key, int(record.window.start) // (10 * SECOND)] += value
    return sums


def write(folder: Path, number: int, rows: list[tuple[Any, ...]]) -> None:
    columns = dict(zip(("at", "key", "value", "position"), zip(*rows, strict=True), strict=True))
    folder.mkdir(exist_ok=True)
    pq.write_table(
        pa.table({name: list(values) for name, values in columns.items()}), folder / f"part-{number}.parquet"
    )


def test_rows_have_the_same_columns_for_spark_as_for_arrow() -> None:
    assert to_arrow_schema(ROW_TYPE, timezone="UTC") == rows.SCHEMA


# Bounded jobs.


def test_a_dataframe_is_read_by_a_bounded_job(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(3)
    result = run(dm.SparkRunner(spark), sums(frame, origin="key", sequence="position"))
    assert actual_sums(result) == expected_sums()
    # In order of origin, then of sequence, which runs backwards here.
    values = [record.value for record in result.collected("kept")]
    assert values == [number for key in range(3) for number in reversed(range(100)) if number % 3 == key]
    assert result.metrics()["rows"] == {"elements_out": 100, "dead_letters": 0}


@pytest.mark.slow
def test_a_row_without_event_time_goes_to_the_dead_letters_or_stops_the_job(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(5, "a"), (None, "b")], "at long, key string").coalesce(1)

    def build(p: dm.Pipeline) -> None:
        rows, letters = p | "rows" >> dm.io.ReadDataFrame(frame, event_time="at").with_exception_handling()
        _ = rows | "good" >> dm.io.Collect()
        _ = letters | "bad" >> dm.io.Collect()

    result = run(dm.SparkRunner(spark), build)
    assert [record.value.key for record in result.collected("good")] == ["a"]
    assert "column 'at' is null" in result.collected("bad")[0].value.reason
    with pytest.raises(SourceError, match="'rows' cannot read row 1 of partition 000"):
        run(
            dm.SparkRunner(spark),
            sums(spark.createDataFrame([(5, "a", 1), (None, "b", 2)], "at long, key string, value long").coalesce(1)),
        )


@pytest.mark.slow
def test_rows_with_arrival_as_event_time_have_one_event_time_in_a_bounded_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "rows", 0, ROWS)
    frame = spark.createDataFrame(ROWS, SCHEMA)

    def build(p: dm.Pipeline) -> None:
        _ = p | "file" >> dm.io.ReadParquet(tmp_path / "rows", event_time=dm.ARRIVAL) | "from file" >> dm.io.Collect()
        _ = p | "frame" >> dm.io.ReadDataFrame(frame, event_time=dm.ARRIVAL) | "from frame" >> dm.io.Collect()

    before = time.time_ns() // 1_000
    result = run(dm.SparkRunner(spark), build)
    times = {int(record.event_time) for label in ("from file", "from frame") for record in result.collected(label)}
    assert len(times) == 1
    assert before <= times.pop() <= time.time_ns() // 1_000


def test_rows_are_ordered_by_the_sequence_column_although_some_are_null(spark: SparkSession) -> None:
    texts = [
        "2013-11-03T06:30:00Z",
        "2013-11-03T05:40:00Z",
        None,
        "2013-11-03T05:30:00Z",
        None,
    ]  # 01:30, 01:40 and 01:30 there
    rows = [(number, text) for number, text in enumerate(texts)]
    ordered = [2, 4, 3, 1, 0]  # those without a sequence first, as they come
    for zone, kind in (("America/New_York", "timestamp"), ("GMT+5", "timestamp"), ("UTC", "string"), ("UTC", "binary")):
        with settings_of(spark, {"spark.sql.session.timeZone": zone}):
            frame = spark.createDataFrame(rows, "number int, text string").selectExpr(
                "0L at", "number", f"cast(text as {kind}) sequence"
            )
            with dm.Pipeline(runner=dm.SparkRunner(spark)) as p:
                read = dm.io.ReadDataFrame(frame.coalesce(1), event_time="at", sequence="sequence")
                pairs = p | "rows" >> read | dm.Map(lambda row: ("all", row.number))
                _ = pairs | dm.GroupByKey() | "groups" >> dm.io.Collect()
        assert [list(record.value[1]) for record in p.result.collected("groups")] == [ordered], (zone, kind)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_columns_whose_names_contain_dots_or_differ_only_in_case_are_kept_separate(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    names = ["at", "user", "user.id", "User", "a`b"]
    frame = spark.createDataFrame([(5, (-1,), 1, "U", 7)], "at long, user struct<id: long>, d long, u string, b long")
    frame = frame.toDF(*names)

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.io.ReadDataFrame(frame, event_time="at") | "rows" >> dm.io.Collect()

    runner = dm.SparkRunner(spark) if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    [record] = run(runner, build).collected("rows")
    assert tuple(record.value) == (5, {"id": -1}, 1, "U", 7)


def test_timestamps_without_a_zone_are_read_from_a_dataframe_unchanged(spark: SparkSession) -> None:
    columns = pa.schema({"local": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC")})
    local = dt.datetime(2013, 3, 10, 2, 30)  # noqa: DTZ001 - the clocks in New York skip this time of day
    instant = dt.datetime(2013, 3, 10, 7, 30, tzinfo=dt.UTC)
    with settings_of(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        with dm.Pipeline(runner=dm.SparkRunner(spark)) as p:
            _ = p | dm.Create([{"local": local, "instant": instant}]) | "made" >> dm.io.ToDataFrame(schema=columns)
        frame = p.result.dataframe("made")
        assert frame.dtypes == [("local", "timestamp_ntz"), ("instant", "timestamp")]
        [row] = frame.selectExpr("cast(local as string)", "unix_seconds(instant)").collect()
    assert tuple(row) == ("2013-03-10 02:30:00", int(instant.timestamp()))


@pytest.mark.parametrize("kind", [pa.uint64(), pa.float16(), pa.decimal256(50, 3), pa.decimal128(5, -2)])
def test_a_dataframe_with_a_type_that_spark_does_not_have_is_refused_before_the_job_runs(
    spark: SparkSession, kind: pa.DataType
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([{"n": 1}]) | "made" >> dm.io.ToDataFrame(schema=pa.schema({"n": kind}))

    with pytest.raises(InvalidArgument, match=r"^'made' has a column 'n' of type .*, which Spark does not have\nHint"):
        start(dm.SparkRunner(spark), build)


# Streams.


@pytest.mark.slow
def test_a_streaming_dataframe_is_read_until_it_is_drained(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / "rows", number, ROWS[50 * number :][:50])
    names = spark.createDataFrame([("a", "Ay"), ("b", "Bee")], "key string, name string")
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))

    def build(p: dm.Pipeline) -> None:
        sums(frame, watermark=dm.BoundedOutOfOrderness("1 hour"))(p)
        _ = p | "names" >> dm.io.ReadDataFrame(names, event_time=dm.ARRIVAL) | "named" >> dm.io.Collect()
        arrived = p | "arrived" >> dm.io.ReadDataFrame(frame, event_time=dm.ARRIVAL)
        windows = arrived | "minutes" >> dm.Window.into(dm.FixedWindows("1 minute"))
        _ = windows | "ones" >> dm.Map(lambda row: (row.key, 1)) | dm.Count.per_key() | "counts" >> dm.io.Collect()

    before = time.time_ns() // 1_000
    result = start(streaming(spark, tmp_path / "checkpoint"), build)
    wait_for(result, lambda: all(result.metrics()[label].get("elements_out") == 100 for label in ("rows", "arrived")))
    assert not result.collected("sums")
    result.drain()
    assert result.state is dm.RunnerState.DRAINED
    assert actual_sums(result) == expected_sums()
    assert sorted(record.value for record in result.collected("kept")) == list(range(100))
    assert sorted(record.value.name for record in result.collected("named")) == ["Ay", "Bee"]
    counts = result.collected("counts")
    assert sum(record.value[1] for record in counts) == 100
    assert all(
        before - 60 * SECOND <= int(record.event_time) <= time.time_ns() // 1_000 + 60 * SECOND for record in counts
    )
    with pytest.raises(CheckpointMismatch, match="was drained"):
        start(streaming(spark, tmp_path / "checkpoint"), build)


def test_a_streaming_dataframe_with_a_replay_clock_gives_the_panes_and_the_dead_letters_of_the_local_runner(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(3)
    ticks = sorted(random.randrange(300) for _ in range(120))
    rows: list[tuple[Any, ...]] = [
        ((tick - random.choice([0, 0, 5, 40])) * SECOND, tick * SECOND, "kafka", number, random.choice("ab"), number)
        for number, tick in enumerate(ticks)
    ]
    undated = [
        number for number in range(1, 119) if number % 7 == 0 and ticks[number - 1] < ticks[number] < ticks[number + 1]
    ]
    assert undated  # each alone in its tick
    rows = [(None, *row[1:]) if row[3] in undated else row for row in rows]
    rows += [(None, 300 * SECOND, "kafka", None, "a", number) for number in (120, 121)]
    columns = ["at", "seen", "origin", "number", "key", "value"]
    tables = [
        pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows[part : part + 50]])
        for part in (0, 50, 100)
    ]
    (tmp_path / "rows").mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "rows" / f"{number}.parquet")
        os.utime(tmp_path / "rows" / f"{number}.parquet", (number, number))  # Spark takes the oldest first
    pq.write_table(pa.concat_tables(tables), tmp_path / "all.parquet")
    frame = (
        spark.readStream.schema("at long, seen long, origin string, number long, key string, value long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "rows"))
    )
    watermark = dm.BoundedOutOfOrderness("10 seconds")

    def build(source: Any) -> Callable[[dm.Pipeline], None]:
        def grouped(p: dm.Pipeline) -> None:
            good, letters = p | "rows" >> source.with_exception_handling()
            rows = good | dm.WithKeys("key", value="value")
            bad = letters | "bad" >> dm.Map(lambda letter: ("bad", letter.element["value"]))
            _ = bad | "minutes" >> dm.Window.into(dm.FixedWindows(60)) | dm.GroupByKey() | "letters" >> dm.io.Collect()
            trigger = dm.AfterWatermark(early=dm.AfterProcessingTime(5), late=dm.AfterCount(1))
            windows = rows | dm.Window.into(dm.FixedWindows(20)).trigger(trigger).allowed_lateness(30).accumulating()
            _ = windows | dm.Sum.per_key() | "sums" >> dm.io.Collect()

        return grouped

    files = dm.io.ReadParquet(tmp_path / "all.parquet", event_time="at", processing_time="seen", watermark=watermark)
    expected = run(dm.LocalRunner(), build(files))
    live = dm.io.ReadDataFrame(
        frame, event_time="at", processing_time="seen", watermark=watermark, origin="origin", sequence="number"
    )
    result = start(streaming(spark, tmp_path / "checkpoint"), build(live))
    wait_for(
        result, lambda: sum(result.metrics()["rows"].get(name, 0) for name in ("elements_out", "dead_letters")) == 122
    )
    result.drain()
    for label in ("sums", "letters"):
        problem = difference(seen(expected.collected(label)), seen(result.collected(label)))
        assert not problem, problem
    assert sorted(value for record in result.collected("letters") for value in record.value[1]) == [*undated, 120, 121]
    assert {record.pane.timing for record in result.collected("sums")} >= {dm.PaneTiming.EARLY, dm.PaneTiming.LATE}


@pytest.mark.slow
def test_rows_of_the_same_instant_are_ordered_by_origin_in_jobs_and_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(9,), (10,), (1,)], "partition int")

    def build(p: dm.Pipeline) -> None:
        rows = frame.selectExpr("0L at", "partition", "map('partition', partition) origin", "0 sequence")
        read = dm.io.ReadDataFrame(rows, event_time="at", processing_time="at", origin="origin", sequence="sequence")
        pairs = p | "rows" >> read | dm.Map(lambda row: ("all", row.partition))
        _ = pairs | dm.GroupByKey() | "groups" >> dm.io.Collect()

    for runner in (dm.SparkRunner(spark), streaming(spark, tmp_path / "checkpoint", shards=1)):
        groups = run(runner, build).collected("groups")
        assert [list(record.value[1]) for record in groups] == [[1, 9, 10]], runner  # in natural order


@pytest.mark.slow
def test_a_bounded_dataframe_is_replayed_in_the_order_of_instants_and_not_of_their_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = [("2013-01-01T10:00+02:00", "first"), ("2013-01-01T09:00Z", "third"), ("2013-01-01T08:30Z", "second")]
    frame = spark.createDataFrame([*texts, (None, "undated")], "seen string, key string")

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadDataFrame(frame, event_time=dm.ARRIVAL, processing_time="seen")
        rows, letters = p | "rows" >> read.with_exception_handling()
        _ = letters | "bad" >> dm.io.Collect()
        _ = rows | dm.WithKeys("key", value="seen") | dm.Count.per_key() | "counts" >> dm.io.Collect()
        _ = rows | dm.Map(lambda row: row.key) | "keys" >> dm.io.Collect()

    result = run(streaming(spark, tmp_path / "checkpoint", shards=1, max_rows_per_batch=1), build)
    assert [record.value for record in result.collected("keys")] == ["first", "second", "third"]
    assert [int(record.event_time) // (60 * SECOND) % 1_440 for record in result.collected("keys")] == [480, 510, 540]
    assert [record.value.element["key"] for record in result.collected("bad")] == ["undated"]
    assert result.metrics()["Count.PerKey"].get("behind_clock", 0) == 0


def test_uses_of_dataframes_that_a_stream_does_not_support_are_refused_when_it_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = spark.readStream.format("rate").load()
    runner = streaming(spark, tmp_path / "checkpoint")

    def reading(**options: Any) -> Callable[[dm.Pipeline], None]:
        def build(p: dm.Pipeline) -> None:
            _ = p | "live" >> dm.io.ReadDataFrame(live, event_time="timestamp", **options) | dm.io.Collect()

        return build

    with pytest.raises(UnsupportedOnRunner, match=r"'live' needs .* which .* does not support: only Spark knows"):
        start(runner, reading(), until="drained")

    def making(p: dm.Pipeline) -> None:
        _ = p | dm.Create([("a", 1)]) | "made" >> dm.io.ToDataFrame()

    with pytest.raises(
        UnsupportedOnRunner, match=r"'made' needs `ToDataFrame`, which .* does not support: a DataFrame is complete"
    ):
        start(runner, making)
    monkeypatch.setattr(collected, "MOST_BYTES", 100)
    with pytest.raises(UnsupportedOnRunner, match=r"'rows', which reads 0 MB, needs .* more than 64 MB"):
        start(runner, sums(spark.createDataFrame(ROWS, SCHEMA)))


@pytest.mark.slow
def test_streaming_dataframes_resume_even_if_the_program_lists_them_in_another_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    def counting(rows: int) -> Any:
        """Return a stream of the numbers from 0 on, some in each micro-batch."""
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
        return stream.selectExpr("value at", "value")

    def build(names: str, **frames: Any) -> Callable[[dm.Pipeline], None]:
        def reading(p: dm.Pipeline) -> None:
            for name in names:
                frame = frames.get(name) or counting({"a": 5, "b": 1}[name])
                _ = p | name >> dm.io.ReadDataFrame(frame, event_time="at") | f"{name}s" >> dm.io.Collect()

        return reading

    def values(result: Any, name: str) -> list[int]:
        return sorted(record.value.value for record in result.collected(f"{name}s"))

    def has_read(result: Any, least: int) -> bool:
        return len(values(result, "b")) >= least

    for names, least in (("ab", 3), ("ba", 6)):
        result = start(streaming(spark, tmp_path / "checkpoint"), build(names))
        wait_for(result, partial(has_read, result, least))
        result.stop()
        for name in names:
            assert values(result, name) == list(range(len(values(result, name))))
    bounded = spark.createDataFrame([(0, 0)], "at long, value long")
    with pytest.raises(
        CheckpointMismatch, match="'b' was: a streaming DataFrame; it is: a bounded DataFrame"
    ) as caught:
        start(streaming(spark, tmp_path / "checkpoint"), build("ab", b=bounded))
    assert "start the new pipeline with a new checkpoint, and the DataFrames where this run stopped" in str(
        caught.value
    )


@pytest.mark.slow
def test_a_followed_source_can_be_read_to_its_current_end(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / "rows", number, ROWS[50 * number :][:50])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True)
        windows = rows | dm.Map(lambda row: (row.key, row.value)) | dm.Window.into(dm.FixedWindows(10))
        _ = windows | dm.Sum.per_key() | "sums" >> dm.io.Collect()

    result = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build, until="drained")
    assert result.state is dm.RunnerState.DRAINED
    assert actual_sums(result) == expected_sums()
    with pytest.raises(CheckpointMismatch, match="was drained"):
        start(streaming(spark, tmp_path / "checkpoint"), build)
