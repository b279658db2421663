"""Fan-out on Spark: the final answers of a batch job, and the very panes of the local runner in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.laws.hot_keys import (
    COMBINERS,
    DIRECT,
    FANNED,
    combine_both_ways,
    final_answers,
    parts_of_a,
    windowings,
)
from tests.support.pipelines import difference, draw, run, seen, streaming

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.runner import PipelineResult

WINDOWS = (dm.Window.into(dm.FixedWindows(10)), dm.Window.into(dm.Sessions(3)))


def test_a_batch_job_gives_the_same_answers_with_and_without_fanout(spark: SparkSession) -> None:
    elements = [dm.TimestampedValue(("hot" if n % 10 else "cold", n % 7), 3 * n % 50) for n in range(60)]
    cases = {f"{index} {number}": (windows, combining)
             for index, windows in enumerate(WINDOWS) for number, combining in enumerate(COMBINERS)}  # fmt: skip

    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.Create(elements)
        for name, (windows, combining) in cases.items():
            _ = pairs | name >> _BothWays(windows, combining, 4)

    result = run(dm.SparkRunner(spark), build)
    check_batch(result, cases)


def check_batch(result: PipelineResult, cases: dict[str, Any]) -> None:
    """Compare the answers of a batch job with and without fan-out, by case."""
    for name, (windows, combining) in cases.items():
        direct, fanned = (
            {(record.value[0], record.window): sorted_or_all(record.value[1])
             for record in result.collected(f"{name}/{side} panes")}
            for side in (DIRECT, FANNED)
        )  # fmt: skip
        assert len(direct) > 5
        assert fanned == direct, (windows, combining)


def test_a_batch_job_gives_the_same_answers_after_a_retracting_grouping(spark: SparkSession) -> None:
    elements = [dm.TimestampedValue((n % 7, n % 5), 3 * n % 50) for n in range(60)]
    early = dm.Window.into(dm.FixedWindows(5)).trigger(dm.AfterWatermark(early=dm.AfterCount(2)))
    plain = [combining for combining in COMBINERS if combining.fold is not None]
    windows = WINDOWS[0].accumulating()
    cases = {f"{number}": (windows, combining) for number, combining in enumerate(plain)}

    def build(p: dm.Pipeline) -> None:
        sums = p | dm.Create(elements) | early.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        pairs = sums | dm.Map(lambda pair: ("hot" if pair[0] % 3 else "cold", pair[1] % 7))
        for name, (windows, combining) in cases.items():
            _ = pairs | name >> _BothWays(windows, combining, 4)

    check_batch(run(dm.SparkRunner(spark), build), cases)


@pytest.mark.slow
def test_drawn_scripts_with_fanout_give_the_panes_of_the_local_runner(spark: SparkSession, tmp_path: Path) -> None:
    fanouts = st.sampled_from([2, 5, parts_of_a])
    # Mean and Together hold a NaN for nothing, which is unequal to itself.
    combinings = st.sampled_from([candidate for candidate in COMBINERS if candidate.fold is not None])
    cases = draw(st.tuples(strategies.test_streams(max_steps=12), windowings(), combinings, fanouts), 40, 5)

    def build(p: dm.Pipeline) -> None:
        for number, (script, windows, combining, fanout) in enumerate(cases):
            _ = p | f"script {number}" >> script | f"{number}" >> _BothWays(dm.Window.into(windows), combining, fanout)

    expected = run(dm.LocalRunner(), build)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=300, shards=3), build)
    for number, (_, windows, combining, _) in enumerate(cases):
        labels = [f"{number}/{side} panes" for side in (DIRECT, FANNED)]
        for label in labels:
            assert difference(seen(expected.collected(label)), seen(actual.collected(label))) == ""
        direct, fanned = (final_answers(actual.collected(label), windows, combining) for label in labels)
        assert fanned == direct


def sorted_or_all(value: Any) -> Any:
    """Return an output, a list without its order."""
    return sorted(value) if isinstance(value, list) else value


class _BothWays(dm.PTransform):
    """Windows, and a combiner with and without fan-out, each with a sink."""

    def __init__(self, windows: Any, combining: Any, fanout: Any) -> None:
        self.windows = windows
        self.combining = combining
        self.fanout = fanout

    def expand(self, pcoll: dm.PCollection) -> None:
        """Apply them."""
        combine_both_ways(pcoll | self.windows, self.combining, self.fanout)
