"""What a changed run goes on with: in process, cut at every micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.testing.proving.micro_batches import MemoryStore
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen
from tests.support.upgrade.pipelines import PIPELINES, ROWS, Build, chained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("events", [121, pytest.param(61, marks=pytest.mark.slow)])
def test_an_upgrade_to_another_number_of_shards_changes_no_pane_wherever_the_run_is_cut(
    pipeline: Callable[[Path], Build], rows: Path, tmp_path: Path, events: int
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    assert len(expected) >= 8
    old = Run(build, tmp_path / "old", rows=events, shards=2)
    while not old.steps(1).offset.last:
        new = old.upgraded(build, 3).finish()
        assert not difference(expected, seen(new.collected("panes"))), old.offset


@pytest.mark.parametrize("shards", [(1, 4), (4, 2), (3, 3), (5, 1)])
def test_an_upgrade_can_change_any_number_of_shards_to_any_other(
    shards: tuple[int, int], rows: Path, tmp_path: Path
) -> None:
    build = chained(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    old = Run(build, tmp_path / "old", rows=61, shards=shards[0]).steps(4)
    new = old.upgraded(build, shards[1]).steps(2)
    again = new.upgraded(build, shards[0]).finish()
    assert not difference(expected, seen(again.collected("panes")))
    assert again.metrics()["rows"]["elements_out"] == 2 * ROWS
    assert (
        again.metrics()["sums"]["elements_in"]
        == Run(build, tmp_path / "whole").finish().metrics()["sums"]["elements_in"]
    )


def test_a_first_micro_batch_that_fails_after_an_upgrade_starts_from_the_seed_again(rows: Path, tmp_path: Path) -> None:
    build = chained(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    new = Run(build, tmp_path / "old", rows=61).steps(3).upgraded(build, 3)
    begin = new.offset
    new.steps(1)  # none of it became durable
    new.offset = begin
    new.stores = {place: MemoryStore() for place in new.stores}
    for path in (new.folder / "dataflow" / "collected" / "panes").glob(f"*{new.checkpoint.record.edition}-*"):
        path.unlink()
    assert not difference(expected, seen(new.finish().collected("panes")))
