"""Retractions on Spark: a stream takes back what LocalRunner takes back, a bounded job stands at the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.pipelines import counters, difference, draw, run, seen, streaming
from tests.support.retractions.accounts import Account
from tests.support.retractions.drawing import FIRST, LATER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

pytestmark = AT_THE_END_OF_TIME

SINKS = ("first", "second", "third", "cogrouped", "joined", "flattened", "distinct", "odd", "sets", "looked")
Case = tuple["TestStream", "WindowingStrategy", "WindowingStrategy", "WindowingStrategy"]


def every_way(cases: list[Case]) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline that sends the retractions of each case through everything there is."""

    def build(p: dm.Pipeline) -> None:
        for number, case in enumerate(cases):
            _one_case(p, number, *case)

    return build


def _one_case(
    p: dm.Pipeline,
    number: int,
    script: TestStream,
    first_strategy: WindowingStrategy,
    second_strategy: WindowingStrategy,
    third_strategy: Any,
) -> None:
    def named(label: str, transform: Any) -> Any:
        return f"{number} {label}" >> transform

    def kept(label: str, collection: Any) -> None:
        _ = collection | named(label, dm.io.Collect())

    elements = p | named("script", script)
    first = elements | named("w1", dm.Window.into(first_strategy)) | named("g1", dm.Sum.per_key())
    kept("first", first)
    again = first | named("m1", dm.MapTuple(_by_parity)) | named("w2", dm.Window.into(second_strategy))
    second = again | named("g2", dm.Top.per_key(3))
    kept("second", second)
    flat = second | named("m2", dm.FlatMapTuple(_each)) | named("w3", dm.Window.into(third_strategy))
    kept("third", flat | named("s", dm.Reshuffle()) | named("g3", dm.Together(n=dm.Count(), all=dm.ToSet()).per_key()))
    plain = elements | named("m3", dm.MapTuple(_by_parity)) | named("w4", dm.Window.into(second_strategy))
    kept("cogrouped", {"sums": again, "plain": plain} | named("co", dm.CoGroupByKey()))
    kept("joined", (plain, again) | named("join", dm.Join.left()))
    kept("flattened", (again, plain) | named("flat", dm.Flatten()) | named("g4", dm.GroupByKey()))
    kept("distinct", again | named("values", dm.Values()) | named("distinct ", dm.Distinct()))
    split = again | named("split", dm.FlatMap(_odd_apart).with_outputs("odd", main="all"))
    kept("odd", split.odd | named("g5", dm.Count.per_key()))
    sets = again | named("g6", dm.ToSet.per_key()) | named("m4", dm.MapTuple(lambda _, members: ("all", members)))
    kept("sets", sets | named("g7", dm.GroupByKey()))
    kept(
        "looked",
        elements | named("w5", dm.Window.into(second_strategy)) | named("look", dm.Map(_look, dm.AsIter(again))),
    )


def _by_parity(key: Any, value: Any) -> tuple[str, Any]:
    del key
    return f"{value % 2}", value


def _each(key: str, values: list[int]) -> list[tuple[str, int]]:
    return [("all" if value > 4 else key, value) for value in values]


def _odd_apart(pair: tuple[str, int]) -> Any:
    yield pair
    if pair[1] % 2:
        yield dm.TaggedOutput("odd", pair)


def _look(element: Any, side: list[Any]) -> Any:
    return element, sorted(side)


@pytest.mark.parametrize(
    ("count", "number", "shards", "rows"),
    [
        (3, 1, 2, 12),
        *(pytest.param(8, *case, marks=pytest.mark.slow) for case in [(1, 2, 150), (1, 2, 60), (2, 3, 25)]),
    ],
)
def test_a_stream_on_spark_emits_the_retractions_of_the_local_runner(
    spark: SparkSession, tmp_path: Path, count: int, number: int, shards: int, rows: int
) -> None:
    cases: list[Case] = draw(st.tuples(strategies.test_streams(max_steps=10), FIRST, LATER, LATER), count, number)
    build = every_way(cases)
    expected = run(dm.LocalRunner(), build)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=rows, shards=shards), build)
    for index, case in enumerate(cases):
        for sink in SINKS:
            label = f"{index} {sink}"
            problem = difference(seen(expected.collected(label)), seen(actual.collected(label)))
            assert not problem, f"{label}: {problem}\n{case[0].steps}\n{case[1:]}"
    assert counters(actual) == counters(expected)
    for sink in SINKS[:-1]:
        records = [record for index in range(len(cases)) for record in actual.collected(f"{index} {sink}")]
        assert any(record.is_retraction for record in records), sink


@pytest.mark.slow
def test_a_bounded_job_on_spark_ends_with_the_result_of_the_local_runner(spark: SparkSession) -> None:
    cases: list[Case] = draw(st.tuples(strategies.test_streams(max_steps=10), FIRST, LATER, LATER), 8, 3)
    build = every_way(cases)
    expected = run(dm.LocalRunner(), build)
    actual = run(dm.SparkRunner(spark), build)
    for index, case in enumerate(cases):
        for sink in SINKS[:-1]:
            standing = [_standing(result.collected(f"{index} {sink}")) for result in (expected, actual)]
            assert standing[0] == standing[1], f"{index} {sink}\n{case[0].steps}\n{case[1:]}"


def _standing(records: list[Record]) -> list[str]:
    """Return what stands, lists sorted: theirs is the order of arrival, which a bounded job does not know."""
    return sorted(repr((record.window, _sorted(record.value))) for record in Account().book(records).standing)


def _sorted(value: Any) -> Any:
    if isinstance(value, list | set):
        return sorted((_sorted(part) for part in value), key=repr)
    if isinstance(value, dict):
        return {name: _sorted(part) for name, part in value.items()}
    return tuple(map(_sorted, value)) if isinstance(value, tuple) else value
