"""Stateful DoFns on Spark: a stream does what LocalRunner does, a bounded job what a sorted stream does."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep
from dataflow_model.testing import TestStream
from tests.support.inputs import write_rows
from tests.support.pipelines import counters, difference, draw, run, seen, start, streaming
from tests.support.state import actor
from tests.support.state.drawing import KINDS, fitting
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def drawn_cases(count: int, number: int) -> list[tuple[Any, Any, Any]]:
    """Draw scripts, windowing strategies and kinds of actors."""
    cases = draw(st.tuples(actor.scripts(max_steps=12), actor.strategies(), KINDS), count, number)
    return [(script, fitting(kind, strategy), kind) for script, strategy, kind in cases]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_eighty_drawn_scripts_with_state_give_the_same_outputs_on_spark_streaming_as_in_process(
    spark: SparkSession, tmp_path: Path, number: int, shards: int
) -> None:
    cases = drawn_cases(80, number)
    steps = random.Random(number).randint(150, 400)

    def build(p: dm.Pipeline) -> None:
        for case, (script, strategy, kind) in enumerate(cases):
            actor.build(p, script, strategy, kind(), f" {case}")

    expected = run(dm.LocalRunner(), build)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=steps, shards=shards), build)
    assert sum(counts.get("timers_fired", 0) for counts in counters(expected).values()) > 100
    for case, (script, strategy, kind) in enumerate(cases):
        problem = difference(seen(expected.collected(f"out {case}")), seen(actual.collected(f"out {case}")))
        assert not problem, f"{case}: {kind.__name__} under {strategy}: {problem}\n{script.steps}"
    assert counters(actual) == counters(expected)


@pytest.mark.slow
def test_a_stopped_stream_resumes_with_its_state_and_timers(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 240)

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", processing_time="seen")
        placed = (
            rows
            | "pair" >> dm.Map(lambda row: (row.key, row.n))
            | dm.Window.into(dm.FixedWindows("50 us")).allowed_lateness("9 us")
        )
        _ = placed | dm.GroupIntoBatches(7, max_age="15 us") | "out" >> dm.io.Collect()
        acts = placed | dm.Map(lambda pair: (pair[0], _acts(pair[1]))) | "act" >> dm.ParDo(actor.Mourner())
        _ = acts | "acted" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    first = start(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=40), build)
    wait_for_batch(first, 2)
    first.stop()
    assert 0 < len(first.collected("acted")) < len(expected.collected("acted"))
    second = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build)
    for sink in ("out", "acted"):
        assert not difference(seen(expected.collected(sink)), seen(second.collected(sink)))
    assert counters(second) == counters(expected)


def _acts(number: int) -> tuple[Any, ...]:
    held: tuple[Any, ...] = (("keep", number % 10), ("clock", number % 5 / 1e5, "both"))
    return (*held, ("event", number % 3 / 1e6, "stop", None)) if number % 4 else (("clear", "clock", "both"),)


def bounded(script: TestStream) -> TestStream:
    """Keep the elements, without what waits for a clock: a bounded job has none."""
    steps: list[Any] = []
    for step in script.steps:
        if isinstance(step, AddStep):
            elements = tuple(
                ((key, tuple(action for action in actions if "clock" not in action and "both" not in action)), at)
                for (key, actions), at in step.elements
            )
            steps.append(AddStep(elements))
    return TestStream(steps)


def by_place(records: Any) -> dict[Any, list[tuple[Any, int]]]:
    """Return the outputs of each window in order; the keys are told apart by what `told` says of them."""
    values_by_window: defaultdict[Any, list[tuple[Any, int]]] = defaultdict(list)
    for record in records:
        values_by_window[record.window].append((record.value, int(record.event_time)))
    return {window: sorted(values, key=repr) for window, values in values_by_window.items()}


@pytest.mark.slow
def test_sixty_drawn_scripts_with_state_give_in_a_bounded_job_the_outputs_of_sorted_streams(
    spark: SparkSession,
) -> None:
    cases = [
        (bounded(script), attrs.evolve(strategy, window_fn=dm.GlobalWindows()), actor.Sorter)
        for script, strategy, _ in drawn_cases(60, 3)
    ]

    def build(p: dm.Pipeline) -> None:
        for case, (script, strategy, kind) in enumerate(cases):
            actor.build(p, script, strategy, kind(), f" {case}")

    expected = run(dm.LocalRunner(), build)
    actual = run(dm.SparkRunner(spark), build)
    assert sum(counts.get("timers_fired", 0) for counts in counters(expected).values()) > 50
    for case, (script, *_) in enumerate(cases):
        assert by_place(expected.collected(f"out {case}")) == by_place(actual.collected(f"out {case}")), script.steps
    assert counters(actual) == counters(expected)


def test_an_unsorted_function_sees_event_time_order_and_expiries_in_a_bounded_job(spark: SparkSession) -> None:
    class Gaps(dm.DoFn):
        before = dm.ValueStateSpec[Any]()
        over = dm.TimerSpec()

        def process(
            self,
            pair: Any,
            before: dm.ValueState[Any],
            over: dm.Timer,
            timestamp: dm.EventTime,
            window: dm.IntervalWindow,
        ) -> Any:
            if before.read() is not None:
                yield pair[0], int(timestamp - before.read()) // 1_000_000
            before.write(timestamp)
            over.set(window.end)

        @dm.on_timer(over)
        def at_end(self, key: str) -> Any:
            yield key, "over"

        def on_window_expiry(self, key: str, before: dm.ValueState[Any]) -> Any:
            yield key, f"last at {int(before.read()) // 1_000_000}"

    script = TestStream().bundle([("x", 9), ("y", 2), ("z", 5)], key="a").add("x", 14, key="a").add("y", 1, key="b")
    tens = dm.Window.into(dm.FixedWindows(10)).allowed_lateness(3)

    def build(p: dm.Pipeline) -> None:
        gaps = p | script | tens | "gaps" >> dm.ParDo(Gaps())
        _ = gaps | "out" >> dm.io.Collect()
        _ = p | "more" >> script | "tens" >> tens | dm.GroupIntoBatches(2) | "batches" >> dm.io.Collect()

    result = run(dm.SparkRunner(spark), build)
    outputs = [(record.value, int(record.window.start) // 1_000_000) for record in result.collected("out")]
    assert sorted(outputs, key=repr) == sorted(
        [
            (("a", 3), 0), (("a", 4), 0), (("a", "over"), 0), (("a", "last at 9"), 0),
            (("a", "over"), 10), (("a", "last at 14"), 10),
            (("b", "over"), 0), (("b", "last at 1"), 0),
        ],
        key=repr,
    )  # fmt: skip
    batches = [record.value for record in result.collected("batches")]
    assert sorted(batches) == [("a", ["x"]), ("a", ["x"]), ("a", ["y", "z"]), ("b", ["y"])]
