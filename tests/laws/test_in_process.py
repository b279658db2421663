"""Laws 2 and 3 for streams in process: however they are cut and wherever they are restarted, the panes are the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.inputs import write_history
from tests.support.laws.chains import many, side_by_side, sinks_of
from tests.support.pipelines import difference, run, seen
from tests.support.runners.local_streams import Stepped
from tests.support.upgrade.pipelines import PIPELINES, Build, history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SIZES = (1, 2, 7, 30, 200)
"""How many events a micro-batch has, drawn anew at each start."""
FEW = 6
"""Micro-batches from one start to the next, at most."""


def run_in_pieces(build: Any, folder: Path, rng: random.Random) -> Stepped:
    """Run a stream to its end in micro-batches of drawn size, stopped and started again at drawn places."""
    stepped = Stepped(build, folder)
    while not stepped.is_over():
        stepped.rows = rng.choice(SIZES)
        stepped.steps(rng.randint(1, FEW))
    return stepped


def check(build: Any, sinks: Sequence[str], folder: Path, seed: int) -> None:
    expected = run(dm.LocalRunner(), build)
    stepped = run_in_pieces(build, folder, random.Random(seed))
    for sink in sinks:
        problem = difference(seen(expected.collected(sink)), seen(stepped.collected(sink)))
        assert not problem, f"seed {seed}, {sink}: {problem}"


# Drawn chains count refinements again, and take panes back at elements' event times: every runner does it alike.
@pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_chains_over_scripts_give_the_same_panes_however_the_stream_is_cut_and_restarted(
    tmp_path: Path, seed: int
) -> None:
    cases = many(seed, scripts=4, chains=4)
    sinks = [sink for name, (_, chain) in cases.items() for _, sink in sinks_of(name, chain)]
    check(side_by_side(cases), sinks, tmp_path / "checkpoint", seed)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_pipelines_over_a_replayed_history_give_the_same_panes_however_the_stream_is_cut_and_restarted(
    tmp_path: Path, pipeline: Callable[[Path], Build], seed: int
) -> None:
    for name in (1, 2):
        write_history(tmp_path / "rows" / f"{name}.parquet", history(10 * seed + name))
    check(pipeline(tmp_path / "rows"), ["panes"], tmp_path / "checkpoint", seed)
