"""Law 4 for `LocalRunner(workers=n)`: whatever the number of workers, the panes are the same, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from tests.support.inputs import write_history
from tests.support.laws.chains import of_seed, on_local, outcome_of
from tests.support.pipelines import counters, difference, run, seen
from tests.support.runners.shard_threads import ThreadedRunner
from tests.support.upgrade.pipelines import PIPELINES, Build, history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# Drawn chains count refinements again, and take panes back at elements' event times: every runner does it alike.
pytestmark = pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")


def check_chains(seeds: Iterable[int], workers: Callable[[int], Iterable[int]]) -> None:
    for seed in seeds:
        drawn = of_seed(seed)
        local = on_local(drawn)
        for count in workers(seed):
            result = ThreadedRunner(count).run(drawn.plan())
            result.wait_until_finish()
            outcome = outcome_of(drawn, result)
            for number, (expected, actual) in enumerate(zip(local.panes, outcome.panes, strict=True), 1):
                problem = difference(expected, actual)
                assert not problem, f"seed {seed}, {count} workers, grouping {number}: {problem}"
            assert outcome.dropped == local.dropped, f"seed {seed}, {count} workers"


def test_chains_over_scripts_give_the_same_panes_with_any_number_of_workers() -> None:
    check_chains(range(24), lambda seed: [2 + seed % 2])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 9))
def test_many_chains_over_scripts_give_the_same_panes_with_any_number_of_workers(part: int) -> None:
    check_chains(range(part * 1_000, part * 1_000 + 250), lambda _: [2, 3])


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("workers", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 5))])
def test_pipelines_over_a_replayed_history_give_the_same_panes_with_any_number_of_workers(
    tmp_path: Path, pipeline: Callable[[Path], Build], workers: int
) -> None:
    for name in (1, 2):
        write_history(tmp_path / "rows" / f"{name}.parquet", history(name))
    build = pipeline(tmp_path / "rows")
    expected, actual = run(dm.LocalRunner(clock=0), build), run(ThreadedRunner(workers), build)
    problem = difference(seen(expected.collected("panes")), seen(actual.collected("panes")))
    assert not problem, problem
    assert counters(actual) == counters(expected)
    assert actual.watermarks() == expected.watermarks()
