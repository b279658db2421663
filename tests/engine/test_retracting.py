"""What a grouping takes back, and how the next one applies it: examples of the binding rules."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.order import of_row
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, Watermarks
from dataflow_model.values import NO_FIRING, interval
from tests.support.reference.feeding import feed_pairs
from tests.support.reference.grouping import GroupingEngine

SECOND = 1_000_000
MINUTE = interval(0, 60 * SECOND)
EACH = dm.Repeatedly(dm.AfterCount(1))


def engine(
    trigger: dm.Trigger = EACH,
    combine: dm.CombineFn[Any, Any, Any] | None = None,
    *,
    retracting: bool = True,
    windows: dm.WindowFn | None = None,
    **settings: object,
) -> GroupingEngine:
    """Return a grouping whose input takes values back."""
    strategy = dm.WindowingStrategy(
        dm.FixedWindows(60) if windows is None else windows,
        trigger,
        dm.AccumulationMode.ACCUMULATE_ALWAYS,
        retracting=retracting,
        allowed_lateness=dm.duration(1000),
        **settings,  # type: ignore[arg-type]
    )
    node = GroupByKeyAndWindow(
        label="sums", input=Ref("before"), strategy=strategy, combine=dm.Sum() if combine is None else combine
    )
    return GroupingEngine(node, takes_back=True)


def signed(bundle: Bundle) -> list[tuple[str, object]]:
    """Return each row's sign and value."""
    return [("-" if row in bundle.retractions() else "+", value[1]) for row, value in enumerate(bundle.values)]


def test_each_pane_retracts_the_previous_pane_of_its_window() -> None:
    sums = engine()
    for number, value in enumerate([3, 9]):
        sums.element("k", value, 5, [MINUTE], of_row("in", number))
    assert signed(sums.take_output()) == [("+", 3), ("-", 3), ("+", 12)]


def test_a_retraction_repeats_window_time_and_pane_info_and_takes_no_index() -> None:
    sums = engine()
    for number in range(3):
        sums.element("k", 1, 5, [MINUTE], of_row("in", number))
    rows = sums.take_output()
    infos = [(row in rows.retractions(), pane.index, rows.times[row]) for row, pane in enumerate(rows.panes)]
    end = int(MINUTE.max_timestamp)
    assert infos == [(False, 0, end), (True, 0, end), (False, 1, end), (True, 1, end), (False, 2, end)]


def test_the_next_pane_after_a_merge_retracts_the_pane_of_each_source_window() -> None:
    sums = engine(windows=dm.Sessions(dm.duration(10)))
    for number, (value, at) in enumerate([(7, 20 * SECOND), (5, 0), (1, 10 * SECOND)]):
        window = interval(at - SECOND // 2 if number == 2 else at, at + 10 * SECOND + number)
        sums.element("k", value, at, [window], of_row("in", number))
    assert signed(sums.take_output()) == [("+", 7), ("+", 5), ("-", 5), ("-", 7), ("+", 13)]


def test_a_forced_pane_without_new_data_retracts_the_value_and_emits_it_again() -> None:
    sums = engine(dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1)))
    sums.element("k", 3, 5, [MINUTE], of_row("in", 0))
    sums.advance_watermarks(Watermarks(60 * SECOND))
    assert signed(sums.take_output()) == [("+", 3), ("-", 3), ("+", 3)]


def update(rows: list[tuple[str, object, int | None]]) -> Bundle:
    """Return rows of (sign, value, emission): of key k, in the first minute."""
    bundle = Bundle()
    for number, (sign, value, emission) in enumerate(rows):
        marked = None if emission is None else Update((emission,), is_retraction=sign == "-")
        bundle.append(("k", value), 5, (MINUTE,), NO_FIRING, of_row("in", number), 0, marked)
    return bundle


def test_a_retraction_and_its_replacement_are_one_update() -> None:
    sums = engine()
    feed_pairs(sums, update([("+", 3, None), ("-", 3, 1), ("+", 9, 1)]))
    assert signed(sums.take_output()) == [("+", 3), ("-", 3), ("+", 9)]


def test_a_lone_retraction_waits_for_a_trigger_that_looks_at_the_clock() -> None:
    sums = engine(dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1)))
    feed_pairs(sums, update([("+", 3, None), ("+", 4, None), ("-", 3, 1)]))
    assert signed(sums.take_output()) == [("+", 3), ("-", 3), ("+", 7)]
    sums.advance_watermarks(Watermarks(60 * SECOND))
    assert signed(sums.take_output()) == [("-", 7), ("+", 4)]


def test_a_window_without_remaining_elements_retracts_its_value_and_emits_no_other() -> None:
    sums = engine(dm.Repeatedly(dm.AfterWatermark()), on_time=dm.OnTimeBehavior.FIRE_IF_NON_EMPTY)
    feed_pairs(sums, update([("+", 3, None)]))
    sums.advance_watermarks(Watermarks(60 * SECOND))
    feed_pairs(sums, update([("-", 3, 1)]))
    assert signed(sums.take_output()) == [("+", 3), ("-", 3)]


@pytest.mark.parametrize(
    ("combine", "values"), [(dm.Max(), [9, 4]), (dm.ToList(), [[9], [4]]), (dm.Mean(), [9.0, 4.0])]
)
def test_combiners_apply_retractions_whether_they_subtract_or_not(
    combine: dm.CombineFn[Any, Any, Any], values: list[Any]
) -> None:
    results = engine(combine=combine, retracting=False)
    feed_pairs(results, update([("+", 9, None), ("-", 9, 1), ("+", 4, 1)]))
    assert [value for _, value in signed(results.take_output())] == values


def test_a_retraction_after_the_expiry_is_dropped_and_counted_with_its_replacement() -> None:
    sums = engine()
    sums.advance_watermarks(MAX_WATERMARKS)
    feed_pairs(sums, update([("-", 3, 1), ("+", 9, 1)]))
    assert (sums.counters["dropped_because_late"], sums.counters["dropped_retractions"]) == (1, 1)
    assert not sums.take_output()
