"""Pipelines of every shape on Spark: chains, branches, joins, side inputs, several sinks, all in one query or job."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.inputs import write_replay
from tests.support.pipelines import counters, difference, run, seen, streaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

# Some shapes group accumulating panes: all runners must count their refinements alike, however seldom that is meant.
pytestmark = pytest.mark.filterwarnings("ignore:.* groups the accumulating panes of:dataflow_model.PlanWarning")

EARLY_AND_LATE = dm.AfterWatermark(early=dm.AfterProcessingTime(3), late=dm.AfterCount(1))
PANES = (
    "summed",
    "chain",
    "joined",
    "both",
    "shuffled",
    "large",
    "small",
    "scaled",
    "named",
    "sessions",
    "created",
    "partition",
)


def every_shape(rows: Path, out: Path | None = None) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline with a sink for each shape."""

    def build(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(
            rows, event_time="at", processing_time="known_at", watermark=dm.BoundedOutOfOrderness(10)
        )
        sizes = p | "sizes" >> dm.Create([(key, 10 * number) for number, key in enumerate("abc")])
        factor = p | "factor" >> dm.Create([3])
        windowed = (
            read
            | "pairs" >> dm.Map(lambda row: (row.key, row.value))
            | "windows"
            >> dm.Window.into(dm.FixedWindows(10)).trigger(EARLY_AND_LATE).allowed_lateness(15).accumulating()
        )
        summed = windowed | "sums" >> dm.Sum.per_key().with_output_types(tuple[str, int])
        _ = summed | "summed" >> dm.io.Collect()
        _ = (
            summed
            | "by parity" >> dm.Map(lambda pair: (pair[1] % 2, pair[1]))
            | "wider" >> dm.Window.into(dm.FixedWindows(20))
            | "chained" >> dm.GroupByKey()
            | "thirds" >> dm.Map(lambda pair: (pair[0], sum(pair[1]) % 3))
            | "third grouping" >> dm.Count.per_key()
            | "chain" >> dm.io.Collect()
        )
        counted = windowed | "counts" >> dm.Count.per_key()
        _ = {"sum": summed, "count": counted} | "join" >> dm.CoGroupByKey() | "joined" >> dm.io.Collect()
        _ = (summed, counted) | "flat" >> dm.Flatten() | "both" >> dm.io.Collect()
        _ = read | "spread" >> dm.Reshuffle() | dm.Map(lambda row: row.value) | "shuffled" >> dm.io.Collect()
        small, large = windowed | "by size" >> dm.FlatMap(_by_size).with_outputs("large", main="small")
        _ = small | "small counts" >> dm.Count.per_key() | "small" >> dm.io.Collect()
        _ = large | "large maxima" >> dm.Max.per_key() | "large" >> dm.io.Collect()
        scaled = windowed | "scale" >> dm.Map(_scale, dm.AsSingleton(factor), dm.AsDict(sizes))
        _ = scaled | "scaled sums" >> dm.Sum.per_key() | "scaled" >> dm.io.Collect()
        _ = scaled | "names" >> dm.Map(_with_sizes, dm.AsIter(sizes)) | "named" >> dm.io.Collect()
        _ = (
            read
            | "session pairs" >> dm.Map(lambda row: (row.case, row.value))
            | "session windows" >> dm.Window.into(dm.Sessions(4)).allowed_lateness(30)
            | "session lists" >> dm.ToList.per_key()
            | "sessions" >> dm.io.Collect()
        )
        _ = sizes | "sizes summed" >> dm.Sum.per_key() | "created" >> dm.io.Collect()
        odd = (windowed | "parts" >> dm.Partition(lambda pair, _: pair[1] % 2, 2))[1]
        _ = odd | "odd means" >> dm.Mean.per_key() | "partition" >> dm.io.Collect()
        if out is not None:
            _ = summed | "parquet" >> dm.io.WriteParquet(out, panes=True)

    return build


def _by_size(pair: Any) -> Iterator[Any]:
    yield pair if pair[1] < 500 else dm.TaggedOutput("large", pair)


def _scale(pair: Any, factor: int, sizes: dict[str, int]) -> Any:
    return pair[0], pair[1] * factor + sizes[pair[0]]


def _with_sizes(pair: Any, sizes: Any) -> Any:
    return pair, sorted(sizes)


@pytest.mark.parametrize(
    ("shards", "rows"), [(2, 600), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(3, 350), (1, 97)])]
)
def test_every_shape_of_pipeline_gives_the_same_result_in_streaming_as_in_process(
    spark: SparkSession, tmp_path: Path, shards: int, rows: int
) -> None:
    write_replay(tmp_path / "rows", random.Random(7), cases=5, files=2, rows=1_000)
    expected = run(dm.LocalRunner(), every_shape(tmp_path / "rows"))
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=rows, shards=shards)
    actual = run(runner, every_shape(tmp_path / "rows", tmp_path / "out"))
    for label in PANES:
        assert expected.collected(label), label
        problem = difference(seen(expected.collected(label)), seen(actual.collected(label)))
        assert not problem, f"{label}: {problem}"
    assert actual.state is dm.RunnerState.DONE
    assert {label: counts for label, counts in counters(actual).items() if label != "parquet"} == counters(expected)
    assert set(actual.watermarks().values()) == {dm.MAX_TIMESTAMP}
    written = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    by_hand = sorted(
        (record.value[0], record.value[1], record.pane.index, int(record.window.start))
        for record in expected.collected("summed")
    )
    assert (
        sorted((row["key"], row["value"], row["pane_index"], _micros(row["window_start"])) for row in written)
        == by_hand
    )


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def test_every_shape_of_pipeline_runs_as_a_bounded_job(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is late in a job, and nothing early: what an unhurried stream without lateness gives in the end."""
    write_replay(tmp_path / "rows", random.Random(7), cases=5, files=2, rows=1_000)
    result = run(dm.SparkRunner(spark), every_shape(tmp_path / "rows"))
    values: Counter[str] = Counter()
    rows = pq.read_table(tmp_path / "rows").to_pylist()
    for row in rows:
        values[row["key"]] += row["value"]
    for label in ("shuffled", "named"):
        assert len(result.collected(label)) == len(rows)
    small = sum(record.value[1] for record in result.collected("small"))
    assert small == sum(row["value"] < 500 for row in rows)
    assert max(record.value[1] for record in result.collected("large")) == max(row["value"] for row in rows)
    assert sum(len(record.value[1]) for record in result.collected("sessions")) == len(rows)
    assert sorted(record.value for record in result.collected("created")) == [("a", 0), ("b", 10), ("c", 20)]
    joined: Counter[str] = Counter()
    for record in result.collected("joined"):
        key, sides = record.value
        joined[key] += sides["sum"][0]
        assert len(sides["sum"]) == len(sides["count"]) == 1
    assert joined == values
    scaled: Counter[str] = Counter()
    for record in result.collected("scaled"):
        scaled[record.value[0]] += record.value[1]
    assert scaled == Counter(
        {key: sum(3 * row["value"] + 10 * "abc".index(key) for row in rows if row["key"] == key) for key in "abc"}
    )
    assert {record.pane.timing for record in result.collected("joined")} == {dm.PaneTiming.ON_TIME}


@pytest.mark.slow
def test_a_script_and_static_elements_share_a_query(spark: SparkSession, tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        names = p | "names" >> dm.Create([("k", "Kay")])
        script = TestStream().add(1, 1, key="k").watermark(10).add(2, 11, key="k").processing_time(5)
        pairs = p | script | "windows" >> dm.Window.into(dm.FixedWindows(10))
        named = pairs | "named" >> dm.Map(lambda pair, names: (names[pair[0]], pair[1]), dm.AsDict(names))
        _ = named | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
        _ = names | "static" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=100), build)
    for label in ("panes", "static"):
        assert not difference(seen(expected.collected(label)), seen(actual.collected(label)))
    assert [record.value for record in actual.collected("panes")] == [("Kay", 1), ("Kay", 2)]


def test_asking_for_an_unknown_label_of_collected_records_on_spark_names_the_known_ones(spark: SparkSession) -> None:
    p = dm.Pipeline(dm.SparkRunner(spark, mode="batch"))
    _ = p | dm.Create([1]) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    with pytest.raises(dm.InvalidArgument, match=r"has the label 'keep'\nHint: .*\['kept'\]"):
        result.collected("keep")


@pytest.mark.slow
def test_a_pipeline_without_a_grouping_runs_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    write_replay(tmp_path / "rows", random.Random(8), cases=5, files=1, rows=100)

    def build(p: dm.Pipeline) -> None:
        read = p | dm.io.ReadParquet(tmp_path / "rows", event_time="at", processing_time="known_at")
        doubled = read | dm.Map(lambda row: row.value * 2)
        _ = doubled | "kept" >> dm.io.Collect()
        _ = doubled | "text" >> dm.Map(str) | dm.io.WriteJson(tmp_path / "out")

    expected = run(dm.LocalRunner(), build)
    for path in (tmp_path / "out").rglob("*.json"):
        path.unlink()
    actual = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build)
    assert [record.value for record in actual.collected("kept")] == [
        record.value for record in expected.collected("kept")
    ]
    lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    assert len(lines) == 100
