"""Spark streaming gives the very panes that LocalRunner gives, however the events are cut and the keys are sharded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.inputs import write_replay
from tests.support.pipelines import counters, difference, draw, run, seen, streaming
from tests.support.replaying import replayed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record


# Drawn scripts, each with a watermark of its own: a hundred in one query.


@pytest.mark.slow
@pytest.mark.parametrize(("number", "count", "shards"), [(0, 15, 2), (1, 100, 2), (2, 100, 3)])
def test_drawn_scripts_give_the_panes_of_the_local_runner_on_spark_streaming(
    spark: SparkSession, tmp_path: Path, number: int, count: int, shards: int
) -> None:
    cases = draw(st.tuples(strategies.test_streams(max_steps=12), strategies.windowing_strategies()), count, number)
    steps = random.Random(number).randint(200, 600)

    def build(p: dm.Pipeline) -> None:
        for case, (stream, strategy) in enumerate(cases):
            placed = p | f"script {case}" >> stream | f"windows {case}" >> dm.Window.into(strategy)
            _ = placed | f"sums {case}" >> dm.Sum.per_key() | f"panes {case}" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=steps, shards=shards), build)
    _assert_same(
        expected, actual, {f"panes {case}": f"{stream.steps}\n{it}" for case, (stream, it) in enumerate(cases)}
    )


def _assert_same(expected: Any, actual: Any, described: dict[str, str]) -> None:
    """Compare what sinks have received, in order, and all counters."""
    for label, description in described.items():
        problem = difference(seen(expected.collected(label)), seen(actual.collected(label)))
        assert not problem, f"{label}: {problem}\n{description}"
    assert counters(actual) == counters(expected)


# Drawn files under a replay clock: late data, shared ticks, one and several files.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "files", "shards", "rows_per_batch"),
    [(1, 3, 2, 701), (2, 1, 3, 397), (3, 4, 1, 211)],
)
def test_a_hundred_replayed_histories_give_the_panes_of_the_local_runner_on_spark(
    spark: SparkSession, tmp_path: Path, number: int, files: int, shards: int, rows_per_batch: int
) -> None:
    rng = random.Random(number)
    cases = 102
    write_replay(tmp_path / "rows", rng, cases=cases, files=files, rows=2_400)
    grouping = draw(strategies.windowing_strategies(), 34, number)
    build = replayed(tmp_path / "rows", grouping, rng.choice([0, 10, 20]))
    expected = run(dm.LocalRunner(), build)
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=rows_per_batch, shards=shards)
    actual = run(runner, build)
    _assert_same(expected, actual, {f"panes {number}": str(strategy) for number, strategy in enumerate(grouping)})


# Batch folds equal (law 1), for cases drawn many to a job.


@pytest.mark.slow
def test_panes_of_spark_streaming_fold_to_the_answer_of_spark_batch(spark: SparkSession, tmp_path: Path) -> None:
    write_replay(tmp_path / "rows", random.Random(4), cases=60, files=2, rows=1_500)
    endless = strategies.windowing_strategies(
        fns=strategies.window_fns(merging=False),
        trees=strategies.triggers(2).map(dm.Repeatedly),
        lateness=st.just("1000 days"),
    )
    grouping = [
        attrs.evolve(strategy, accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS)
        for strategy in draw(endless, 20, 4)
    ]
    build = replayed(tmp_path / "rows", grouping, 10)
    streamed = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=800), build)
    batch = run(dm.SparkRunner(spark), build)
    for number, strategy in enumerate(grouping):
        label = f"panes {number}"
        assert _last_panes(streamed.collected(label)) == _last_panes(batch.collected(label)), strategy


def _last_panes(records: list[Record]) -> dict[Any, Any]:
    last: dict[Any, Any] = {}
    for record in records:
        key, value = record.value
        last[key, record.window] = sorted(value) if isinstance(value, list) else value
    return last
