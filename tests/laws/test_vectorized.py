"""A function on columns gives what the function of one element gives: panes, places and retractions alike."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.inputs import write_history
from tests.support.pipelines import difference, run, seen
from tests.support.runners.local_streams import Stepped
from tests.support.upgrade.pipelines import history
from tests.support.vectorized import SINKS, Either, both_forms, negated

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (1, 2, 7, 30, 200)
EACH = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()


def write(folder: Path, seed: int) -> Path:
    for name in (1, 2):
        write_history(folder / f"{name}.parquet", history(10 * seed + name))
    return folder


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_vectorized_and_plain_functions_give_the_same_panes_in_a_bounded_run(tmp_path: Path, seed: int) -> None:
    rows = write(tmp_path / "rows", seed)
    columns = run(dm.LocalRunner(), both_forms(rows, vectorized=True))
    elements = run(dm.LocalRunner(), both_forms(rows, vectorized=False))
    for sink in SINKS:
        assert columns.collected(sink)
        problem = difference(seen(elements.collected(sink)), seen(columns.collected(sink)))
        assert not problem, f"seed {seed}, {sink}: {problem}"


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_vectorized_and_plain_functions_give_the_same_panes_however_a_stream_is_cut(tmp_path: Path, seed: int) -> None:
    rows = write(tmp_path / "rows", seed)
    elements = run(dm.LocalRunner(), both_forms(rows, vectorized=False))
    rng = random.Random(seed)
    stepped = Stepped(both_forms(rows, vectorized=True), tmp_path / "checkpoint")
    while not stepped.is_over():
        stepped.rows = rng.choice(SIZES)
        stepped.steps(rng.randint(1, 6))
    for sink in SINKS:
        problem = difference(seen(elements.collected(sink)), seen(stepped.collected(sink)))
        assert not problem, f"seed {seed}, {sink}: {problem}"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-(2**40), 2**40)), min_size=1, max_size=8))
def test_vectorized_functions_give_the_same_outputs_for_elements_that_are_not_in_columns(
    pairs: list[tuple[str, int]],
) -> None:
    p = dm.Pipeline()
    sums = p | dm.Create(pairs) | EACH | dm.Sum.per_key()
    columns = sums | "on columns" >> dm.Map(negated, vectorized=True)
    _ = columns | "columns" >> dm.io.Collect()
    _ = columns | "both" >> dm.ParDo(Either()) | "more" >> dm.io.Collect()
    elements = sums | "one by one" >> dm.Map(lambda pair: (pair[0], -pair[1]))
    _ = elements | "elements" >> dm.io.Collect()
    _ = elements | "also both" >> dm.ParDo(Either()) | "most" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert seen(result.collected("columns")) == seen(result.collected("elements"))
    assert seen(result.collected("more")) == seen(result.collected("most"))
