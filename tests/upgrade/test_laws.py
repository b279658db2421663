"""The law of upgrades: a run that is carried over, to any number of shards after any step, gives the same panes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.laws.chains import many, side_by_side, sinks_of
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, draw, run, seen

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("count", "number", "shards", "more"),
    [
        (15, 2, 3, 1),
        *(pytest.param(40, *case, marks=pytest.mark.slow) for case in [(2, 3, 1), (1, 2, 3), (3, 1, 4)]),
    ],
)
def test_drawn_scripts_give_the_same_panes_wherever_they_are_upgraded(
    tmp_path: Path, count: int, number: int, shards: int, more: int
) -> None:
    cases = draw(st.tuples(strategies.test_streams(max_steps=10), strategies.windowing_strategies()), count, number)

    def build(p: dm.Pipeline) -> None:
        for case, (stream, strategy) in enumerate(cases):
            placed = p | f"script {case}" >> stream | f"windows {case}" >> dm.Window.into(strategy)
            _ = placed | f"lists {case}" >> dm.GroupByKey() | f"panes {case}" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    whole = Run(build, tmp_path / "whole", rows=10_000).finish()
    old = Run(build, tmp_path / "old", rows=40, shards=shards)
    cuts = 0
    while not old.steps(1).offset.last:
        cuts += 1
        new = old.upgraded(build, more).finish()
        for case, (stream, strategy) in enumerate(cases):
            problem = difference(seen(expected.collected(f"panes {case}")), seen(new.collected(f"panes {case}")))
            assert not problem, f"{old.offset.step}: {problem}\n{stream.steps}\n{strategy}"
        assert new.metrics() == whole.metrics()
    assert cuts >= 2


# Drawn chains count refinements again, and take panes back at elements' event times: every runner does it alike.
@pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")
@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards", "more"), [(1, 2, 5), (2, 3, 1), (3, 1, 2)])
def test_chains_give_the_same_panes_wherever_they_are_upgraded(
    tmp_path: Path, number: int, shards: int, more: int
) -> None:
    cases = many(number, scripts=6, chains=4)
    build = side_by_side(cases)
    expected = run(dm.LocalRunner(), build)
    whole = Run(build, tmp_path / "whole", rows=10_000).finish()
    old = Run(build, tmp_path / "old", rows=25, shards=shards)
    cuts = 0
    while not old.steps(1).offset.last:
        cuts += 1
        new = old.upgraded(build, more).finish()
        for name, (stream, groupings) in cases.items():
            for _, sink in sinks_of(name, groupings):
                problem = difference(seen(expected.collected(sink)), seen(new.collected(sink)))
                assert not problem, f"{old.offset.step}, {sink}: {problem}\n{stream.steps}\n{groupings}"
        assert new.metrics() == whole.metrics()
    assert cuts >= 2
