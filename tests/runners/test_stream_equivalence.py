"""A stream in process gives the very panes of a run without a checkpoint, however its micro-batches are cut."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.inputs import write_replay
from tests.support.pipelines import counters, difference, draw, run, seen
from tests.support.replaying import replayed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("number", "files", "rows_per_batch"),
    [(1, 3, 211), pytest.param(2, 1, 97, marks=pytest.mark.slow), pytest.param(3, 4, 53, marks=pytest.mark.slow)],
)
def test_replayed_histories_give_the_panes_of_a_run_without_a_checkpoint(
    tmp_path: Path, number: int, files: int, rows_per_batch: int
) -> None:
    rng = random.Random(number)
    write_replay(tmp_path / "rows", rng, cases=36, files=files, rows=900)
    grouping = draw(strategies.windowing_strategies(), 12, number)
    build = replayed(tmp_path / "rows", grouping, rng.choice([0, 10, 20]))
    expected = run(dm.LocalRunner(), build)
    actual = run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=rows_per_batch), build)
    for index, strategy in enumerate(grouping):
        label = f"panes {index}"
        problem = difference(seen(expected.collected(label)), seen(actual.collected(label)))
        assert not problem, f"{label}: {problem}\n{strategy}"
    assert counters(actual) == counters(expected)
