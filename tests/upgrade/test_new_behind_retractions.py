"""A grouping that starts empty behind one that goes on does not subtract what it has never had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Build = Callable[[dm.Pipeline], Any]

EARLY = dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))
WINDOWS = dm.Window.into(dm.FixedWindows(100)).trigger(EARLY).allowed_lateness("1 hour")
COMBINERS = {"Sum": dm.Sum, "Max": dm.Max}


def chained(
    folder: Path, combine: str | None = None, *, shuffled: bool = False, again: bool = False, retracting: bool = True
) -> Build:
    """Return what builds sums by key, and perhaps a result of all of them.

    Args:
        folder: where the rows are.
        combine: the combiner of the result.
        shuffled: whether the sums are shuffled before that.
        again: whether the result is that of a grouping of its own.
        retracting: whether sums are taken back.
    """

    def build(p: dm.Pipeline) -> None:
        windows = WINDOWS.accumulating_and_retracting() if retracting else WINDOWS.discarding()
        read = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        pairs = read | "pairs" >> dm.Map(lambda row: (row.key, row.n)) | "windows" >> windows
        sums = pairs | "sums" >> dm.Sum.per_key()
        _ = sums | "out" >> dm.io.Collect()
        if combine is not None:
            summed = pairs | "sums again" >> dm.Sum.per_key() if again else sums
            summed = summed | "shuffle" >> dm.Reshuffle() if shuffled else summed
            together = summed | "together" >> dm.Map(lambda pair: ("all", pair[1]))
            _ = together | "result" >> COMBINERS[combine].per_key() | "results" >> dm.io.Collect()

    return build


def upgraded(tmp_path: Path, after: Build, *, before: Build | None = None, drop: Sequence[str] = ()) -> Stepped:
    folder = tmp_path / "in"
    put_rows(folder, "1", [(1, "a", 10), (2, "b", 7)])
    Stepped(before or chained(folder), tmp_path / "old").steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"), drop=drop)
    put_rows(folder, "2", [(3, "a", 5)])
    stepped = Stepped(after, tmp_path / "new")
    stepped.steps()
    return stepped


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_new_grouping_that_would_subtract_values_it_never_added_is_rejected(
    tmp_path: Path, *, shuffled: bool
) -> None:
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)'result' would start empty, behind 'sums'.*--drop sums"):
        upgraded(tmp_path, chained(tmp_path / "in", "Sum", shuffled=shuffled))


def test_dropping_the_state_of_a_grouping_that_would_subtract_lost_values_is_rejected(tmp_path: Path) -> None:
    before, after = chained(tmp_path / "in", "Max"), chained(tmp_path / "in", "Sum")
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)'result' would start empty.*--drop result --drop sums"):
        upgraded(tmp_path, after, before=before, drop=["result"])


def test_a_new_grouping_whose_combiner_keeps_its_inputs_is_accepted_after_retractions(tmp_path: Path) -> None:
    stepped = upgraded(tmp_path, chained(tmp_path / "in", "Max"))
    assert [record.value for record in stepped.collected("results")] == [("all", 15)]


@pytest.mark.parametrize(
    ("options", "drop", "expected"), [({}, ["sums"], 5), ({"again": True}, [], 5), ({"retracting": False}, ["sums"], 5)]
)
def test_the_ways_out_for_a_new_grouping_count_the_rows_read_from_then_on(
    tmp_path: Path, options: dict[str, bool], drop: Sequence[str], expected: int
) -> None:
    stepped = upgraded(tmp_path, chained(tmp_path / "in", "Sum", **options), drop=drop)
    assert [record.value for record in stepped.collected("results")] == [("all", expected)]


def test_a_grouping_after_one_that_does_not_retract_may_be_added(tmp_path: Path) -> None:
    before = chained(tmp_path / "in", retracting=False)
    stepped = upgraded(tmp_path, chained(tmp_path / "in", "Sum", retracting=False), before=before)
    assert [record.value for record in stepped.collected("results")] == [("all", 5)]
