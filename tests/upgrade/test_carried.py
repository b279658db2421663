"""What a changed run goes on with: in process, cut at every micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

import dataflow_model as dm
from dataflow_model.testing.micro_batches import MemoryStore
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen
from tests.support.side_inputs import joined
from tests.support.upgrade.pipelines import ROWS, Build, chained, pairs, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def retracting(folder: Path, retractable: bool | Literal["memoised"] = True) -> Build:
    def build(p: dm.Pipeline) -> None:
        sessions = dm.Window.into(dm.Sessions("6 microseconds")).trigger(
            dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
        )
        strategy = sessions.allowed_lateness("50 microseconds").accumulating_and_retracting()
        counts = pairs(p, folder) | strategy | "counts" >> dm.Count.per_key()
        lengths = counts | "lengths" >> dm.Map(lambda pair: (pair[1], 1)).retractable(retractable)
        wide = dm.Window.into(dm.FixedWindows("60 microseconds")).trigger(dm.Repeatedly(dm.AfterProcessingTime(5)))
        late = wide.allowed_lateness("90 microseconds")
        totals = lengths | "wide" >> late.accumulating_and_retracting() | "t" >> dm.Sum.per_key()
        _ = totals | "panes" >> dm.io.Collect()

    return build


def memoising(folder: Path) -> Build:
    return retracting(folder, "memoised")


def by_percentile(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows("20 microseconds")).allowed_lateness("9 microseconds")
        strategy = windows.trigger(dm.AfterWatermark(percentile=60), may_lose_data=True)
        counts = pairs(p, folder) | strategy | "counts" >> dm.Count.per_key() | "again" >> dm.Reshuffle()
        told = counts | "told" >> dm.Map(lambda pair, watermark_percentile: (pair[0], (pair[1], watermark_percentile)))
        _ = told | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


class Quiet(dm.DoFn):
    """Tell a key's sum when it has been quiet."""

    total = dm.CombiningStateSpec(dm.Sum())
    rest = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: tuple[str, int], total: dm.CombiningState[int, int], rest: dm.Timer) -> None:
        total.add(pair[1])
        rest.set_after("7 microseconds")

    @dm.on_timer(rest)
    def at_rest(self, key: str, total: dm.CombiningState[int, int]) -> Iterator[tuple[str, int]]:
        yield key, total.read()
        total.clear()


def stateful(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        told = pairs(p, folder) | "quiet" >> dm.ParDo(Quiet())
        twenties = dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = told | twenties | "counts" >> dm.Count.per_key() | "panes" >> dm.io.Collect()

    return build


def deduplicated(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        once = pairs(p, folder) | "once" >> dm.Deduplicate(lambda pair: pair[1] % 90, horizon="60 microseconds")
        windowed = once | dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = windowed | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


def looking_up(_: Path) -> Build:
    return joined


PIPELINES = [plain, chained, retracting, memoising, by_percentile, stateful, deduplicated, looking_up]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_another_number_of_shards_changes_no_pane_wherever_the_run_is_cut(
    pipeline: Callable[[Path], Build], rows: Path, tmp_path: Path
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    assert len(expected) >= 8
    old = Run(build, tmp_path / "old", rows=61, shards=2)
    while not old.steps(1).offset["last"]:
        new = old.upgraded(build, 3).finish()
        assert not difference(expected, seen(new.collected("panes"))), old.offset


@pytest.mark.parametrize("shards", [(1, 4), (4, 2), (3, 3), (5, 1)])
def test_any_number_of_shards_can_follow_any_other(shards: tuple[int, int], rows: Path, tmp_path: Path) -> None:
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


def test_a_micro_batch_that_fails_after_the_first_state_begins_from_the_seed_again(rows: Path, tmp_path: Path) -> None:
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
