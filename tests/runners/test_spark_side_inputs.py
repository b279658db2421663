"""Changing side inputs on Spark streaming: what LocalRunner gives, however events are cut and elements spread."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.spark import ahead
from dataflow_model.testing import strategies
from tests.support.inputs import write_replay
from tests.support.pipelines import counters, difference, draw, run, seen, streaming

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def look(element: Any, side: Any) -> Any:
    """Give pairs that can be grouped again; two of them, so that outputs of one cause have an order."""
    shown = sorted(side.items()) if isinstance(side, dict) else side
    yield element[0], (element[1], shown)
    if element[1] % 3 == 0:
        yield dm.TaggedOutput("thirds", (element[0], 1))


# Singletons are sums of drawn panes, accumulating ones among them: all runners must count their refinements alike.
pytestmark = pytest.mark.filterwarnings("ignore:.* groups the .*panes of:dataflow_model.PlanWarning")

BLIND = [
    dm.AfterCount,
    dm.AfterProcessingTime,
    dm.AfterEventTime,
    dm.AtPeriod,
    dm.AfterWatermark,
    dm.DefaultTrigger,
    dm.AfterAll,
    dm.AfterAny,
    dm.AfterEach,
    dm.Repeatedly,
]
"""Triggers that look at no element: what is grouped behind the side input are no numbers."""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards"), [(1, 3), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_drawn_scripts_with_changing_side_inputs_give_the_panes_of_the_local_runner(
    spark: SparkSession, tmp_path: Path, number: int, shards: int
) -> None:
    scripts = strategies.test_streams(max_steps=12)
    windows = strategies.windowing_strategies()
    blind = strategies.windowing_strategies(trees=strategies.triggers(only=BLIND))
    cases = draw(st.tuples(scripts, blind, scripts, windows), 40, number)

    def build(p: dm.Pipeline) -> None:
        for case, (main, main_windows, side, side_windows) in enumerate(cases):
            other = p | f"side {case}" >> side | f"side windows {case}" >> dm.Window.into(_retracting(side_windows))
            sums = other | f"side sums {case}" >> dm.Sum.per_key()
            elements = p | f"main {case}" >> main | f"main windows {case}" >> dm.Window.into(main_windows)
            view = (dm.AsIter, dm.AsDict, _total)[case % 3](sums)
            looked = elements | f"look {case}" >> dm.FlatMap(look, view).with_outputs("thirds", main="all")
            _ = looked.all | f"seen {case}" >> dm.io.Collect()
            _ = looked.all | f"lists {case}" >> dm.GroupByKey() | f"panes {case}" >> dm.io.Collect()
            _ = looked.thirds | f"counts {case}" >> dm.Sum.per_key() | f"thirds {case}" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    steps = random.Random(number).randint(100, 400)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=steps, shards=shards), build)
    for case, described in enumerate(cases):
        for label in (f"seen {case}", f"panes {case}", f"thirds {case}"):
            problem = difference(seen(expected.collected(label)), seen(actual.collected(label)))
            assert not problem, f"{label}: {problem}\n{described}"
    assert counters(actual) == counters(expected)
    assert any(expected.collected(f"seen {case}") for case in range(len(cases)))


def _retracting(strategy: dm.WindowingStrategy) -> dm.WindowingStrategy:
    """Return a strategy that takes back what merged windows replace, without which such side inputs are rejected."""
    if not strategy.merges:
        return strategy
    return attrs.evolve(strategy, accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS, retracting=True)


def _total(sums: Any) -> Any:
    label = sums.ref.label
    # Accumulating, whatever was drawn: of several panes a singleton is the newest.
    one_value = f"{label} one value" >> dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    total = sums | f"{label} values" >> dm.Values() | one_value | f"{label} total" >> dm.Sum.globally()
    return dm.AsSingleton(total, default=None)


@pytest.mark.slow
def test_followed_files_as_a_side_input_give_the_same_panes_in_any_cut(spark: SparkSession, tmp_path: Path) -> None:
    write_replay(tmp_path / "main", random.Random(1), cases=3, files=2, rows=300)
    write_replay(tmp_path / "side", random.Random(2), cases=3, files=1, rows=300)

    def build(p: dm.Pipeline) -> None:
        def read(label: str) -> Any:
            options: Any = {"event_time": "at", "processing_time": "known_at", "follow": True}
            rows = p | label >> dm.io.ReadParquet(tmp_path / label, watermark=dm.BoundedOutOfOrderness(20), **options)
            return rows | f"{label} pairs" >> dm.Map(lambda row: (row.key, row.value))

        early = dm.AfterWatermark(early=dm.AfterCount(5), late=dm.AfterCount(1))
        windows = dm.Window.into(dm.FixedWindows(10)).trigger(early).allowed_lateness(30).accumulating()
        sums = read("side") | "side windows" >> windows | "side sums" >> dm.Sum.per_key()
        main = read("main") | "main windows" >> windows
        looked = main | "look" >> dm.FlatMap(look, dm.AsDict(sums)).with_outputs("thirds", main="all")
        _ = looked.all | "seen" >> dm.io.Collect()
        _ = looked.thirds | "counts" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    whole = run(streaming(spark, tmp_path / "whole", max_rows_per_batch=10_000, shards=1), build)
    cut = run(streaming(spark, tmp_path / "cut", max_rows_per_batch=90, shards=2), build)
    assert whole.state is cut.state is dm.RunnerState.DRAINED
    for label in ("seen", "panes"):
        assert whole.collected(label)
        assert not difference(seen(whole.collected(label)), seen(cut.collected(label)))


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.slow)])
def test_large_static_side_inputs_are_computed_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(ahead, "MOST_BYTES", 100)
    write_replay(tmp_path / "rows", random.Random(3), cases=3, files=2, rows=100)
    names = spark.createDataFrame([("a", "Ay"), ("b", "Bee"), ("c", "Cee")], "key string, name string")

    def build(p: dm.Pipeline, *, local: bool = False) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at")
        sums = rows | "pairs" >> dm.Map(lambda row: (row.key, row.value)) | "sums" >> dm.Sum.per_key()
        called = p | "names" >> (
            dm.Create(names.collect()) if local else dm.io.ReadDataFrame(names, event_time=dm.ARRIVAL)
        )
        sides = dm.AsDict(sums), dm.AsDict(called | "named" >> dm.Map(lambda row: (row.key, row.name)))
        keys = p | "keys" >> dm.Create(["a", "b", "c"])
        _ = keys | dm.Map(lambda key, sums, names: (names[key], sums[key]), *sides) | "seen" >> dm.io.Collect()

    runner = dm.SparkRunner(spark) if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    expected = run(dm.LocalRunner(), lambda p: build(p, local=True)).collected("seen")
    actual = run(runner, build).collected("seen")
    assert sorted(record.value for record in actual) == sorted(record.value for record in expected)
    assert len(actual) == 3


@pytest.mark.parametrize("most_bytes", [0, 64 << 20])
@pytest.mark.parametrize(("mode", "expected"), [("batch", 5), pytest.param("streaming", 1, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:'sums' feeds a static side input and other transforms:dataflow_model.PlanWarning")
def test_static_side_inputs_of_any_size_have_the_values_that_other_readers_see(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, expected: int, most_bytes: int
) -> None:
    monkeypatch.setattr(ahead, "MOST_BYTES", most_bytes)
    # The last row arrives when its window has expired on the replay clock, which a bounded job ignores.
    at, seen_at = ([second * 1_000_000 for second in seconds] for seconds in ((1, 70, 2), (100, 101, 102)))
    table = pa.table({"at": at, "seen": seen_at, "key": ["a"] * 3, "n": [1, 2, 4]})
    pq.write_table(table, tmp_path / "rows.parquet")

    def build(p: dm.Pipeline) -> None:
        minutes = dm.Window.into(dm.FixedWindows("1 minute"))
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="seen")
        pairs = rows | dm.WithKeys("key", value="n")
        sums = pairs | "minutes" >> minutes | "sums" >> dm.Sum.per_key()
        start = p | "start" >> dm.Create([dm.TimestampedValue("x", 10)]) | "of start" >> minutes
        _ = start | dm.Map(lambda _, sums: sums["a"], dm.AsDict(sums)) | "side" >> dm.io.Collect()
        _ = sums | dm.Values() | "sink" >> dm.io.Collect()

    runner = dm.SparkRunner(spark) if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    result = run(runner, build)
    assert [record.value for record in result.collected("side")] == [expected]
    assert sorted(record.value for record in result.collected("sink")) == sorted([expected, 2])
