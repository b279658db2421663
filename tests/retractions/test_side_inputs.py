"""Side inputs that take values back: later elements see what is left."""

from __future__ import annotations

import cProfile
import pstats
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.logical.nodes import Ref, SideInput
from dataflow_model.runners.engine.collections.sides import StaticSide
from dataflow_model.testing import TestStream
from dataflow_model.values import NO_FIRING, interval
from tests.support.micro_batches import in_micro_batches
from tests.support.retractions.accounts import run

if TYPE_CHECKING:
    from dataflow_model.values import Window

EACH = dm.Repeatedly(dm.AfterCount(1))
SECOND = 1_000_000


def seen_by_main(side: TestStream, main: TestStream, side_windows: dm.WindowInto, *, cut: int = 0) -> list[Any]:
    """Return what each main element sees of the side input's sums, rekeyed by what they are modulo 2."""
    p = dm.Pipeline(runner=dm.LocalRunner())
    sums = p | "side" >> side | "side windows" >> side_windows | dm.Sum.per_key()
    parity = sums | dm.MapTuple(lambda _, value: (value % 2, value))
    elements = p | "main" >> main | "main windows" >> dm.Window.into(dm.FixedWindows(60))
    _ = elements | dm.Map(lambda element, side: (element, sorted(side)), dm.AsIter(parity)) | "out" >> dm.io.Collect()
    if cut:
        return [record.value for record in in_micro_batches(p, cut, cached=False).collected("out")]
    result = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected("out")]


RETRACTING = dm.Window.into(dm.FixedWindows(60)).trigger(EACH).allowed_lateness(1000).accumulating_and_retracting()
SIDE = TestStream().add(1, 0, key="a").add(4, 0, key="b").processing_time(10).add(1, 5, key="a").processing_time(30)
MAIN = TestStream().processing_time(5).add("early", 1).processing_time(20).add("late", 1).processing_time(40)
SEEN = [("early", [(0, 4), (1, 1)]), ("late", [(0, 2), (0, 4)])]


def test_later_elements_see_the_newest_panes_of_a_side_input_without_retracted_values() -> None:
    assert seen_by_main(SIDE, MAIN, RETRACTING) == SEEN


@pytest.mark.parametrize("cut", [1, 2, 50])
def test_the_remaining_values_of_a_side_input_are_durable(cut: int) -> None:
    assert sorted(seen_by_main(SIDE, MAIN, RETRACTING, cut=cut)) == SEEN


def test_a_merged_side_session_is_seen_only_in_the_merged_window() -> None:
    sessions = dm.Window.into(dm.Sessions(40)).trigger(EACH).allowed_lateness(1000).accumulating_and_retracting()
    side = TestStream().add(1, 30, key="a").processing_time(10).add(2, 50, key="a").processing_time(30)
    # The main window's last instant, just before second 60, lies in both sessions.
    assert seen_by_main(side, MAIN, sessions) == [("early", [(1, 1)]), ("late", [(1, 3)])]


def record(value: Any, window: Window, *, back: bool = False) -> Record:
    return Record(value, dm.EventTime(0), window, NO_FIRING, is_retraction=back)


def test_a_static_side_input_contains_the_values_that_were_not_retracted() -> None:
    minute = interval(0, 60 * SECOND)
    side = StaticSide(
        SideInput(Ref("side"), "iter"),
        [
            record(("a", [1]), minute),
            record(("b", [2]), minute),
            record(("a", [1]), minute, back=True),
            record(("a", [1, 3]), minute),
        ],
        dm.FixedWindows(60),
    )
    assert side(minute) == [("b", [2]), ("a", [1, 3])]


def test_a_static_side_window_whose_values_are_all_retracted_is_absent() -> None:
    short, long = interval(0, 50 * SECOND), interval(0, 70 * SECOND)
    records = [record(("a", 1), short), record(("a", 1), short, back=True), record(("a", 2), long)]
    side = StaticSide(SideInput(Ref("side"), "dict"), records, dm.Sessions(20))
    assert side(interval(0, 40 * SECOND)) == {"a": 2}


def many_windows(window_fn: dm.WindowFn, windows: int) -> StaticSide:
    held = [interval(2 * index * SECOND, (2 * index + 2) * SECOND) for index in range(windows)]
    return StaticSide(SideInput(Ref("side"), "iter"), [record(index, at) for index, at in enumerate(held)], window_fn)


@pytest.mark.parametrize("window_fn", [dm.FixedWindows(2), dm.Sessions(2)])
def test_a_lookup_costs_the_same_with_a_hundred_and_with_two_thousand_side_windows(window_fn: dm.WindowFn) -> None:
    calls = []
    for windows in (100, 2000):
        side = many_windows(window_fn, windows)
        profile = cProfile.Profile()
        for second in range(0, 200, 7):
            assert profile.runcall(side, interval(second * SECOND, (second + 1) * SECOND)) == [second // 2]
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined] # not in the stubs
    assert calls[1] <= 1.1 * calls[0]


def test_main_windows_within_one_side_window_share_its_view() -> None:
    side = StaticSide(SideInput(Ref("side"), "dict"), [record(("a", 1), interval(0, 60 * SECOND))], dm.FixedWindows(60))
    first, second = (side(interval(second * SECOND, (second + 1) * SECOND)) for second in (1, 2))
    assert first is second


def test_a_bounded_side_input_is_seen_in_its_final_state() -> None:
    def build(p: dm.Pipeline) -> None:
        counts = p | "words" >> dm.Create(["to", "be", "to"]) | dm.Window.trigger(EACH).accumulating_and_retracting()
        counted = counts | dm.Count.per_element()
        _ = p | "main" >> dm.Create([0]) | dm.Map(lambda _, side: side, dm.AsDict(counted)) | dm.io.Collect()

    assert [record.value for record in run(build).collected("Collect")] == [{"to": 2, "be": 1}]
