"""Spark streaming gives the panes of LocalRunner for the whole space of strategies: every trigger, mode and merge."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import panes_of, strategies
from tests.support.laws.answers import batch_answer
from tests.support.laws.drawing import AT_THE_END_OF_TIME, BUSY, ENDLESS, FOREVER, scripts, windowing_strategies
from tests.support.laws.retracting import by_parity, standing
from tests.support.pipelines import counters, difference, draw, run, seen, streaming

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

# Drawn strategies take panes back at elements' event times as well; all runners drop what is late then alike.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* which emits retractions at the event time of:dataflow_model.PlanWarning"),
    AT_THE_END_OF_TIME,
]

SCRIPTS = scripts(max_steps=14).filter(lambda script: len(script.steps) > 4)
LIVELY: dict[str, Any] = {
    "trees": st.one_of(BUSY, ENDLESS, strategies.triggers()),
    "lateness": st.sampled_from([0, 5, 40, 1_000]),
}
SINGLE, CHAINED = 4, 1
"""Cases of one grouping and of two in a row for each script."""


@attrs.frozen
class Case:
    """The strategy of a grouping, and of the one behind it, if there is one."""

    first: WindowingStrategy
    second: WindowingStrategy | None = None

    def build(self, pairs: Any, name: str) -> None:
        """Add the case to a pipeline; its sinks are `panes …` and `second …`."""
        sums = pairs | f"windows {name}" >> dm.Window.into(self.first) | f"sums {name}" >> dm.Sum.per_key()
        _ = sums | f"panes {name}" >> dm.io.Collect()
        if self.second is not None:
            again = sums | f"rekey {name}" >> dm.MapTuple(by_parity)
            again = again | f"more windows {name}" >> dm.Window.into(self.second)
            _ = again | f"more sums {name}" >> dm.Sum.per_key() | f"second {name}" >> dm.io.Collect()

    def sinks(self, name: str) -> list[str]:
        return [f"panes {name}"] + ([] if self.second is None else [f"second {name}"])


@attrs.frozen
class Story:
    """A script, and what is done with it."""

    script: TestStream
    cases: list[Case]


@st.composite
def chained(draw_: st.DrawFn) -> Case:
    """Draw two groupings; the second can mend all that the first takes back."""
    first = draw_(windowing_strategies(retracting=True, **LIVELY))
    second = draw_(windowing_strategies(**LIVELY, fns=strategies.window_fns(merging=False)))
    lateness = max(first.allowed_lateness, second.allowed_lateness)
    return Case(first, attrs.evolve(second, allowed_lateness=lateness))


def stories(count: int, number: int) -> list[Story]:
    """Draw the cases of a job: few scripts and many strategies, as a job's cost is the product of the two."""
    policies = st.sampled_from(dm.LateData)
    single = st.builds(Case, windowing_strategies(**LIVELY, late_data=policies))
    singles, doubles = draw(single, count * SINGLE, number), draw(chained(), count * CHAINED, number)
    return [
        Story(script, [*singles[index::count], *doubles[index::count]])
        for index, script in enumerate(draw(SCRIPTS, count, number))
    ]


def built(stories: list[Story]) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        for number, story in enumerate(stories):
            pairs = p | f"script {number}" >> story.script
            for index, case in enumerate(story.cases):
                case.build(pairs, f"{number}.{index}")

    return build


@pytest.mark.slow
@pytest.mark.parametrize(("number", "count", "shards"), [(11, 40, 2), pytest.param(12, 80, 3, marks=pytest.mark.slow)])
def test_two_hundred_cases_of_every_kind_give_the_panes_of_the_local_runner(
    spark: SparkSession, tmp_path: Path, number: int, count: int, shards: int
) -> None:
    drawn = stories(count, number)
    assert sum(len(story.cases) for story in drawn) >= 200
    expected = run(dm.LocalRunner(), built(drawn))
    cut = random.Random(number).randint(100, 300)
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=cut, shards=shards), built(drawn))
    for at, story in enumerate(drawn):
        for index, case in enumerate(story.cases):
            for sink in case.sinks(f"{at}.{index}"):
                problem = difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
                assert not problem, f"{sink}: {problem}\n{case}\n{story.script.steps}"
    assert counters(actual) == counters(expected)


@pytest.mark.slow
def test_final_values_on_spark_streaming_equal_the_batch_answer(spark: SparkSession, tmp_path: Path) -> None:
    """Law 1 under retractions, through any merges."""
    retracting = windowing_strategies(retracting=True, trees=st.one_of(BUSY, ENDLESS), lateness=FOREVER)
    cases = [Case(strategy) for strategy in draw(retracting, 60, 13)]
    drawn = [Story(script, cases[index::12]) for index, script in enumerate(draw(SCRIPTS, 12, 13))]
    result = run(streaming(spark, tmp_path, max_rows_per_batch=50, shards=2), built(drawn))
    for at, story in enumerate(drawn):
        for index, case in enumerate(story.cases):
            stands = standing(panes_of(result.collected(f"panes {at}.{index}")))
            assert stands == batch_answer(story.script, case.first.window_fn), case
