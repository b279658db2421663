"""What Spark combines in columns before the shuffle gives LocalRunner's answers, also where chunks do not fit."""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.plan.rewrites.lifting import lifts
from tests.support.pipelines import difference, run, streaming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.runner import PipelineResult, Runner

COMBINERS: dict[str, CombineFn[Any, Any, Any]] = {
    "sum": dm.Sum(),
    "count": dm.Count(),
    "mean": dm.Mean(),
    "min": dm.Min(),
    "max": dm.Max(),
}
WINDOWS: dict[str, dm.WindowFn] = {
    "fixed": dm.FixedWindows("10 seconds", offset="3 seconds"),
    "sliding": dm.SlidingWindows("10 seconds", "4 seconds"),
}
SECOND = 1_000_000
ROWS = 600


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write files whose columns fit a kernel, and some in which they do not."""
    folder = tmp_path_factory.mktemp("events")
    draw = random.Random(4)
    for number in range(3):
        rows = range(ROWS)
        times = [(number * 60 + draw.uniform(0, 75)) * SECOND for _ in rows]
        values = [draw.randint(-1000, 1000) for _ in rows]
        floats = [draw.randint(-1000, 1000) / 4 for _ in rows]
        if number == 1:  # this file's sums leave 64 bits, and its floats are not all numbers
            values[10:13] = [2**63 - 1] * 3
            times[10:13] = [times[10]] * 3
            floats[20] = math.nan
        table = pa.table(
            {
                "at": pa.array([int(time) for time in times], pa.timestamp("us", "UTC")),
                "carrier": [draw.choice(["UA", "B6", None, "DL", "ÅÄÖ"]) for _ in rows],
                "flight": pa.array([draw.choice([1, 1, -7, 10**12]) for _ in rows], pa.int64()),
                "delay": pa.array(values, pa.int64()),
                "taxi": pa.array(floats, pa.float64()),
                "maybe": pa.array([value if value % 50 else None for value in values], pa.int64()),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


def cases() -> Iterator[tuple[str, str, str, dm.WindowFn, CombineFn[Any, Any, Any]]]:
    """Yield label, key, value, windows and combiner."""
    for key, value in (("carrier", "delay"), ("flight", "taxi")):
        for where, window_fn in WINDOWS.items():
            for what, combine in COMBINERS.items():
                yield f"{what} {value} {where}", key, value, window_fn, combine


def build(p: dm.Pipeline, events: str, more: dict[str, dm.WindowFn] | None = None, every: int = 1) -> None:
    """Group one source in many ways: straight to sinks, and to further work."""
    watermark = dm.BoundedOutOfOrderness("90 seconds")
    rows = p | dm.io.ReadParquet(events, event_time="at", watermark=watermark)
    for label, key, value, window_fn, combine in itertools.islice(cases(), None, None, every):
        pairs = rows | f"{label} pairs" >> dm.WithKeys(key, value=value)
        placed = pairs | f"{label} windows" >> dm.Window.into(window_fn)
        _ = placed | f"{label} grouped" >> dm.CombinePerKey(combine) | label >> dm.io.Collect()
    for label, window_fn in (more or {}).items():
        pairs = rows | f"{label} pairs" >> dm.WithKeys("carrier", value="delay")
        grouped = pairs | f"{label} windows" >> dm.Window.into(window_fn) | f"{label} grouped" >> dm.Sum.per_key()
        _ = grouped | label >> dm.io.Collect()
    # Behind one grouping a map and another grouping; and the rows go elsewhere too.
    pairs = rows | "chain pairs" >> dm.WithKeys("carrier", value="delay") | dm.Window.into(dm.FixedWindows(20))
    each = pairs | "chain first" >> dm.Count.per_key() | "chain swap" >> dm.Map(lambda pair: (pair[1] % 2, pair[1]))
    _ = each | "chain second" >> dm.Sum.per_key() | "chain" >> dm.io.Collect()
    _ = rows | "rows" >> dm.Filter(lambda row: row.delay > 900) | "filtered" >> dm.io.Collect()


def answers(result: PipelineResult, sinks: list[str]) -> dict[str, list[Any]]:
    """Return what each sink has received; when is another matter on each runner."""
    return {
        label: sorted(
            repr((record.value, record.window, record.pane, int(record.event_time)))
            for record in result.collected(label)
        )
        for label in sinks
    }


def labels(more: dict[str, dm.WindowFn] | None = None, every: int = 1) -> list[str]:
    """Return the sinks."""
    return [*(label for label, *_ in itertools.islice(cases(), None, None, every)), *(more or {}), "chain", "filtered"]


def grouped_counters(result: PipelineResult) -> dict[str, dict[str, int]]:
    """Return the counters of the groupings."""
    return {
        label: {name: count for name, count in counts.items() if count}
        for label, counts in result.metrics().items()
        if label.endswith("grouped")
    }


def assert_same(runner: Runner, events: str, more: dict[str, dm.WindowFn] | None = None, every: int = 1) -> None:
    """Run the pipeline here and there, with one in `every` of the cases."""
    local = run(dm.LocalRunner(), lambda p: build(p, events, more, every))
    there = run(runner, lambda p: build(p, events, more, every))
    expected, actual = (answers(result, labels(more, every)) for result in (local, there))
    wrong = {label: difference(expected[label], actual[label]) for label in expected}
    assert not {label: what for label, what in wrong.items() if what}
    assert grouped_counters(there) == grouped_counters(local)


def test_lifted_groupings_in_spark_batch_give_the_answers_of_the_local_runner(spark: SparkSession, events: str) -> None:
    assert_same(dm.SparkRunner(spark), events, {"sessions": dm.Sessions("200 ms"), "global": dm.GlobalWindows()})


@pytest.mark.slow
@pytest.mark.parametrize(("every", "rows"), [(3, 1_000), (1, 700)])
def test_lifted_groupings_in_spark_streaming_give_the_answers_of_the_local_runner(
    spark: SparkSession, events: str, tmp_path: Path, every: int, rows: int
) -> None:
    assert_same(streaming(spark, tmp_path, max_rows_per_batch=rows), events, every=every)


@pytest.mark.slow
def test_late_rows_are_dropped_and_counted_as_on_the_general_path(
    spark: SparkSession, events: str, tmp_path: Path
) -> None:
    def late(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(events, event_time="at")  # a watermark without delay, and files in no order
        for label, key in (("columns", "flight"), ("elements", "flight")):
            pairs = rows | f"{label} pairs" >> dm.WithKeys(key, value="taxi")
            if label == "elements":
                pairs = pairs | dm.Map(lambda pair: pair)
            windows = pairs | f"{label} windows" >> dm.Window.into(dm.FixedWindows(10))
            _ = windows | f"{label} grouped" >> dm.Count.per_key() | label >> dm.io.Collect()

    result = run(streaming(spark, tmp_path, max_rows_per_batch=300), late)
    columns, elements = (result.metrics()[f"{label} grouped"] for label in ("columns", "elements"))
    assert columns == elements
    assert columns["dropped_because_late"] > 0
    seen = [[(*_sink_view(record),) for record in result.collected(label)] for label in ("columns", "elements")]
    assert not difference(seen[1], seen[0])


def _sink_view(record: Any) -> tuple[Any, ...]:
    return record.value, record.window, record.pane, int(record.event_time), int(record.processing_time)


@pytest.mark.slow
def test_file_sinks_receive_panes_as_columns(spark: SparkSession, events: str, tmp_path: Path) -> None:
    def write(p: dm.Pipeline, folder: Path) -> None:
        rows = p | dm.io.ReadParquet(events, event_time="at", watermark=dm.BoundedOutOfOrderness(90))
        pairs = rows | dm.WithKeys("carrier", value="taxi") | dm.Window.into(dm.FixedWindows(10))
        counts = pairs | dm.Count.per_key()
        schema = pa.schema({"key": pa.string(), "value": pa.int64()})
        _ = counts | "parquet" >> dm.io.WriteParquet(str(folder / "parquet"), schema=schema, panes=True)
        _ = counts | "json" >> dm.io.WriteJson(str(folder / "json"), schema=schema)

    runners: dict[str, Runner] = {
        "local": dm.LocalRunner(),
        "batch": dm.SparkRunner(spark),
        "stream": streaming(spark, tmp_path / "c"),
    }
    tables = {}
    for name, runner in runners.items():
        folder = tmp_path / name
        run(runner, functools.partial(write, folder=folder))
        table = pq.read_table(folder / "parquet")
        lines = [line for file in (folder / "json").glob("*.json") for line in file.read_text().splitlines()]
        tables[name] = table.schema, sorted(map(repr, table.to_pylist())), sorted(lines)
    assert tables["batch"] == tables["local"]
    assert tables["stream"] == tables["local"]


def test_the_expected_groupings_are_lifted(events: str) -> None:
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(events, event_time="at")
    pairs = rows | "pairs" >> dm.WithKeys("carrier", value="delay")
    fixed = pairs | "fixed" >> dm.Window.into(dm.FixedWindows(10))
    _ = fixed | "yes" >> dm.Sum.per_key()
    _ = fixed | "top" >> dm.ToList.per_key()
    _ = pairs | "merging" >> dm.Window.into(dm.Sessions(10)) | "batch only" >> dm.Sum.per_key()
    early = dm.AfterWatermark(early=dm.AfterCount(1))
    _ = pairs | "early" >> dm.Window.into(dm.FixedWindows(10)).trigger(early) | "early panes" >> dm.Sum.per_key()
    _ = pairs | "later" >> dm.Window.into(dm.FixedWindows(10)).allowed_lateness(5) | "late panes" >> dm.Sum.per_key()
    _ = fixed | dm.Map(lambda pair: pair) | "by hand" >> dm.Sum.per_key()
    staged = cut_into_stages(p.plan())
    assert sorted(lifts(staged, streaming=True)) == ["yes"]
    assert sorted(lifts(staged, streaming=False)) == ["batch only", "yes"]
    assert p.explain().count("(lifted)") == 2


def test_under_a_replay_clock_no_grouping_of_a_stream_is_lifted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "seen": [2], "key": ["a"], "value": [3]}), tmp_path / "a.parquet")
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(str(tmp_path), event_time="at", processing_time="seen")
    _ = rows | dm.WithKeys("key", value="value") | dm.Window.into(dm.FixedWindows(10)) | "sums" >> dm.Sum.per_key()
    assert not lifts(cut_into_stages(p.plan()), streaming=True)
    assert list(lifts(cut_into_stages(p.plan()), streaming=False)) == ["sums"]
