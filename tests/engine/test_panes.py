"""Panes: their timing, what forces them, expiry, what is dropped and counted, and their place in the sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.testing import TestStream, run_script, strategies
from tests.support.scripting import fixed, run, script, sessions
from tests.support.spec.windows_of_users import ValidUntilNext

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

COUNT = dm.AfterCount
COUNTS = dm.Repeatedly(dm.AfterCount(2))
EACH = dm.Repeatedly(dm.AfterCount(1))


# Timing.


def test_a_pane_before_the_watermark_has_passed_is_early() -> None:
    assert run("e 1@1, w 9", fixed(EACH)).brief == [(1, "EARLY")]


def test_the_pane_emitted_as_the_watermark_passes_is_on_time() -> None:
    assert run("e 1@1, w 10", fixed()).brief == [(1, "ON_TIME")]


def test_the_first_pane_after_the_watermark_is_on_time_if_any_of_its_data_are() -> None:
    given = run("e 1@1, w 10, e 2@1, e 4@1+8@1", fixed(COUNTS, lateness=20))
    assert given.brief == [(3, "ON_TIME"), (12, "LATE")]


def test_the_first_pane_after_the_watermark_is_late_if_all_its_data_are() -> None:
    assert run("w 10, e 1@1+2@1", fixed(COUNTS, lateness=20)).brief == [(3, "LATE")]


def test_an_element_at_the_watermark_is_on_time() -> None:
    assert run("w 5, e 1@5, w 10", fixed()).brief == [(1, "ON_TIME")]


def test_an_element_behind_the_watermark_is_on_time_for_a_window_that_is_not_past() -> None:
    assert run("w 9, e 1@5, w 10", fixed()).brief == [(1, "ON_TIME")]


# What on_time and closing force.


def test_a_firing_as_the_watermark_passes_emits_a_pane_even_if_it_is_empty() -> None:
    trigger = dm.AfterWatermark(early=COUNT(1))
    assert run("e 1@1, w 10", fixed(trigger)).brief == [(1, "EARLY"), (0, "ON_TIME")]
    assert run("e 1@1, w 10", fixed(trigger).accumulating()).brief == [(1, "EARLY"), (1, "ON_TIME")]


def test_fire_if_non_empty_suppresses_an_empty_on_time_pane() -> None:
    trigger = dm.AfterWatermark(early=COUNT(1))
    assert run("e 1@1, w 10", fixed(trigger).on_time("fire_if_non_empty")).brief == [(1, "EARLY")]
    assert run("e 1@1, w 10", fixed(trigger).on_time("fire_if_non_empty").accumulating()).brief == [(1, "EARLY")]


def test_a_trigger_that_is_not_ready_forces_no_pane_as_the_watermark_passes() -> None:
    assert run("e 1@1+2@1, w 10", fixed(COUNTS, lateness=20)).brief == [(3, "EARLY")]


def test_a_finished_trigger_forces_no_pane_as_the_watermark_passes() -> None:
    assert run("e 1@1, w 10, w 40", fixed(COUNT(1)).closing("fire_always")).brief == [(1, "EARLY")]


def test_other_firings_with_nothing_new_emit_nothing_in_either_mode() -> None:
    trigger = dm.AfterAny(EACH, dm.Repeatedly(dm.AfterProcessingTime(5)))
    for windowing in (fixed(trigger), fixed(trigger).accumulating()):
        assert run("e 1@1, p 20", windowing).values == [1]


def test_an_empty_pane_of_a_grouping_without_combiner_is_an_empty_list() -> None:
    panes = run_script(script("e 1@1, w 10"), fixed(dm.AfterWatermark(early=COUNT(1))))
    assert [pane.value for pane in panes] == [[1], []]


def test_a_window_without_elements_has_no_pane() -> None:
    assert run("w 10, w 20", fixed()).panes == []


def test_a_merge_that_moves_the_end_behind_the_watermark_makes_the_pane_late() -> None:
    given = run("e 1@0, w 50, e 2@30", dm.Window.into(ValidUntilNext()))
    assert given.brief == [(1, "LATE"), (2, "ON_TIME")]


def test_the_window_of_an_element_that_is_cut_short_behind_the_watermark_expires_at_once() -> None:
    windowing = dm.Window.into(ValidUntilNext()).trigger(dm.AfterWatermark())  # may not lose data
    given = run("e 1@30, w 35, e 2@10, e 4@10, e 8@10, w 50", windowing)
    assert given.brief == [(2, "LATE"), (4, "LATE"), (8, "LATE"), (1, "ON_TIME")]
    assert all(pane.info.is_last for pane in given.panes)
    assert "dropped_because_closed" not in given.counters


@pytest.mark.parametrize("closing", ["fire_if_non_empty", "fire_always"])
def test_the_pane_that_an_element_fires_in_a_window_cut_short_behind_the_watermark_is_its_last(closing: Any) -> None:
    given = run("e 1@30, w 35, e 2@10, w 50", dm.Window.into(ValidUntilNext()).trigger(EACH).closing(closing))
    assert [(pane.value, pane.info.is_last) for pane in given.panes][:2] == [(1, False), (2, True)]
    assert sum(int(pane.window.start) == 10_000_000 for pane in given.panes) == 1


def test_a_pane_of_a_window_that_is_cut_short_behind_the_watermark_is_late_and_not_behind_its_own_collection() -> None:
    trigger = dm.Repeatedly(dm.AfterProcessingTime(60))
    windowing = dm.Window.into(ValidUntilNext()).trigger(trigger).allowed_lateness(50)
    given = run("e 4@5, e 16@0, w 7, e 64@2, p 100, w 20", windowing)
    assert [(pane.value, pane.info.timing.name) for pane in given.panes] == [(16, "LATE"), (64, "LATE"), (4, "EARLY")]


def standing(panes: list[dm.Pane]) -> dict[Any, Any]:
    """Return the values that are left of panes less retractions, by window, in seconds."""
    left: dict[Any, Any] = {}
    for pane in panes:
        window = int(pane.window.start) // 1_000_000, int(pane.window.end) // 1_000_000
        if pane.is_retraction:
            assert left.pop(window) == pane.value
        else:
            left[window] = pane.value
    return left


END = int(dm.MAX_TIMESTAMP) // 1_000_000


def test_a_window_that_is_cut_short_retracts_the_value_of_its_old_bounds_although_nothing_is_new_in_it() -> None:
    early = dm.Window.into(ValidUntilNext()).trigger(dm.AfterWatermark(early=COUNT(1))).on_time("fire_if_non_empty")
    given = run("e 1@0, e 2@60, w 100", early.accumulating_and_retracting())
    assert standing(given.panes) == {(0, 60): 1, (60, END): 2}
    late = dm.Window.into(ValidUntilNext()).allowed_lateness(3_600).accumulating_and_retracting()
    given = run("e 1@0, e 2@60, w 70, e 4@30, w 100", late)
    assert standing(given.panes) == {(0, 30): 1, (30, 60): 4, (60, END): 2}


# Expiry and closing.


def test_pending_elements_are_emitted_as_the_window_expires() -> None:
    given = run("e 1@1, w 10, w 30, p 1", fixed(COUNTS, lateness=20))
    assert given.brief == [(1, "ON_TIME")]
    assert given.panes[0].info.is_last
    assert given.panes[0].info.trigger is None
    assert given.clocks == [0]


def test_a_window_does_not_expire_before_the_watermark_reaches_end_and_lateness() -> None:
    assert run("e 1@1, w 29.999999, e 2@1", fixed(COUNTS, lateness=20)).brief == [(3, "ON_TIME")]
    given = run("e 1@1, w 30, e 2@1", fixed(COUNTS, lateness=20))
    assert given.brief == [(1, "ON_TIME")]
    assert given.counters["dropped_because_late"] == 1


def test_a_firing_that_finishes_with_nothing_new_is_the_last_pane_where_closing_fires_always() -> None:
    until = fixed(dm.RepeatUntil(COUNT(1), dm.AfterProcessingTime(5)))
    always = run("e 1@1, p 6, w 40", until.closing("fire_always"))
    assert [(pane.value, pane.info.is_last) for pane in always.panes] == [(1, False), (0, True)]
    assert always.clocks == [0, 5]
    sparing = run("e 1@1, p 6, w 40", until)
    assert [(pane.value, pane.info.is_last) for pane in sparing.panes] == [(1, False)]


@attrs.frozen
class SilentAfterTwo(dm.Trigger):
    """Fires at the first element, and finishes without firing at the second."""

    def on_element(self, context: Any) -> None:
        if context.lookup_state("seen"):
            context.done()
        else:
            context.store_state("seen", value=True)
            context.trigger()


def test_expiry_emits_the_last_pane_of_a_trigger_that_finished_without_firing() -> None:
    given = run("e 1@1, e 2@1, w 10", fixed(SilentAfterTwo()).closing("fire_always"))
    assert [(pane.value, pane.info.is_last) for pane in given.panes] == [(1, False), (2, True)]


@given(strategies.test_streams(), strategies.windowing_strategies())
def test_where_closing_fires_always_each_window_has_exactly_one_last_pane(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    strategy = attrs.evolve(
        strategy, closing=dm.ClosingBehavior.FIRE_ALWAYS, late_data=dm.LateData.DROP, may_lose_data=True
    )
    last: dict[Any, list[bool]] = {}
    for pane in run_script(script, strategy, dm.Sum()):
        if pane.info.index == 0 and not pane.is_retraction:
            last[pane.key, pane.window] = []
        if not pane.is_retraction:
            last[pane.key, pane.window].append(pane.info.is_last)
    merged = strategy.merges  # a window that merges away has no last pane
    assert all(ends == [False] * (len(ends) - 1) + [True] or (merged and not any(ends)) for ends in last.values())


def test_an_expiring_window_without_new_data_emits_nothing_unless_closing_fires_always() -> None:
    assert run("e 1@1, w 10, w 30", fixed(lateness=20)).brief == [(1, "ON_TIME")]
    given = run("e 1@1, w 10, w 30", fixed(lateness=20).closing("fire_always"))
    assert given.brief == [(1, "ON_TIME"), (0, "LATE")]
    assert [pane.info.is_last for pane in given.panes] == [False, True]


def test_a_trigger_that_fires_as_the_window_expires_emits_one_pane() -> None:
    given = run("e 1@1, w 10", fixed().closing("fire_always"))
    assert given.brief == [(1, "ON_TIME")]
    assert given.panes[0].info.is_last
    assert given.panes[0].info.trigger == "DefaultTrigger()"


def test_the_watermark_at_infinity_passes_and_expires_every_window() -> None:
    given = run("e 1@1, w +inf, e 2@1, e 4@1000", dm.Window.into(dm.GlobalWindows()).allowed_lateness("1000 days"))
    assert given.brief == [(1, "ON_TIME")]
    assert given.counters["dropped_because_late"] == 2


def test_the_end_of_the_input_is_the_watermark_at_infinity() -> None:
    given = run("e 1@1", fixed(lateness=20))
    assert given.brief == [(1, "ON_TIME")]
    assert given.panes[0].info.is_last


# What is dropped.


def test_elements_are_dropped_and_counted_for_each_window_that_has_expired() -> None:
    sliding = dm.Window.into(dm.SlidingWindows(20, 10))
    given = run("w 25, e 1@15, e 2@3", sliding)
    assert given.brief == [(1, "ON_TIME")]  # [10, 30) takes the first; [0, 20) and both of the second are past
    assert given.counters["dropped_because_late"] == 3


def test_an_element_without_a_window_is_neither_emitted_nor_dropped() -> None:
    given = run("e 1@5, e 2@15", dm.Window.into(dm.SlidingWindows(10, 20)))
    assert given.values == [1]
    assert given.counters.get("dropped_because_late", 0) == 0


def test_elements_after_the_trigger_has_finished_are_dropped_and_counted() -> None:
    given = run("e 1@1, e 2@1, e 4@11", fixed(COUNT(1)))
    assert given.values == [1, 4]
    assert given.counters["dropped_because_closed"] == 1
    assert given.counters.get("dropped_because_late", 0) == 0


def test_a_late_element_of_a_finished_window_counts_as_late_once_the_window_has_expired() -> None:
    given = run("e 1@1, w 10, e 2@1", fixed(COUNT(1)))
    assert given.counters["dropped_because_late"] == 1
    assert given.counters.get("dropped_because_closed", 0) == 0


def test_duplicate_window_reopens_an_expired_window_for_one_pane_at_the_next_watermark() -> None:
    given = run("e 1@1, w 10, e 2@1+4@1, p 3, w 11, e 8@1", fixed().late_data("duplicate_window").accumulating())
    assert given.brief == [(1, "ON_TIME"), (6, "LATE"), (8, "LATE")]
    assert given.clocks == [0, 3, 3]
    for pane in given.panes[1:]:
        assert pane.info == dm.PaneInfo(0, 0, is_first=True, is_last=True, timing=dm.PaneTiming.LATE, trigger=None)
    assert given.counters.get("dropped_because_late", 0) == 0


def test_duplicate_window_accepts_elements_after_the_end_of_the_input() -> None:
    given = run("w +inf, e 1@1", fixed().late_data("duplicate_window"))
    assert given.brief == [(1, "LATE")]


# The place in the sequence.


def test_panes_are_numbered_and_first_and_last_are_marked() -> None:
    given = run("e 1@1, e 2@1, w 10, e 4@1, w 30", fixed(dm.AfterWatermark(early=COUNT(1), late=COUNT(1)), lateness=20))
    assert [pane.info.index for pane in given.panes] == [0, 1, 2, 3]
    assert [pane.info.on_time_index for pane in given.panes] == [-1, -1, 0, 1]
    assert [pane.info.is_first for pane in given.panes] == [True, False, False, False]
    assert [pane.info.is_last for pane in given.panes] == [False] * 4


def test_a_pane_names_the_root_of_the_tree_that_fired_it() -> None:
    trigger = dm.AfterWatermark(early=COUNT(1))
    given = run("e 1@1, w 10", fixed(trigger))
    assert [pane.info.trigger for pane in given.panes] == [repr(trigger)] * 2


def test_keys_and_windows_have_panes_of_their_own() -> None:
    stream = TestStream().add(1, 1, key="a").add(2, 1, key="b").add(4, 11, key="a").add(8, 1, key="a")
    given = run(stream, fixed(EACH).accumulating())
    assert [(pane.key, pane.value, pane.info.index) for pane in given.panes] == [
        ("a", 1, 0),
        ("b", 2, 0),
        ("a", 4, 0),
        ("a", 9, 1),
    ]


# The event time of panes.


@pytest.mark.parametrize("mode", ["discarding", "accumulating"])
@pytest.mark.parametrize(
    ("combiner", "times"), [("end_of_window", [10, 10]), ("earliest", [3, 2]), ("latest", [7, 2])], ids=str
)
def test_the_event_time_of_a_pane_is_determined_by_its_new_elements(
    combiner: Any, times: list[float], mode: str
) -> None:
    windowing = fixed(COUNTS).timestamp_combiner(combiner)
    assert run("e 1@7, e 2@3, e 4@2", getattr(windowing, mode)()).times == times


@pytest.mark.parametrize(("combiner", "time"), [("earliest", 7), ("latest", 8)])
def test_a_late_element_does_not_change_the_event_time_of_its_pane(combiner: Any, time: float) -> None:
    assert run("w 5, e 1@2+2@3+3@7+4@8, w 11", fixed().timestamp_combiner(combiner)).times == [time]


@pytest.mark.parametrize("mode", ["discarding", "accumulating"])
@pytest.mark.parametrize("combiner", ["earliest", "latest"])
def test_a_pane_of_only_late_elements_has_the_event_time_of_the_end_of_its_window(combiner: Any, mode: str) -> None:
    windowing = getattr(fixed(lateness=20).timestamp_combiner(combiner), mode)()
    assert run("e 1@5, w 10, e 2@1+4@8", windowing).times == [5, 10, 10]


def test_a_pane_without_new_elements_has_the_event_time_of_the_end_of_its_window() -> None:
    trigger = dm.AfterWatermark(early=COUNT(1))
    assert run("e 1@3, w 10", fixed(trigger).accumulating().timestamp_combiner("earliest")).times == [3, 10]


def test_the_event_time_at_the_end_of_a_window_is_a_microsecond_before_its_bound() -> None:
    assert int(run("e 1@5", fixed()).panes[0].timestamp) == 9_999_999


def test_a_merged_window_keeps_the_earliest_and_latest_event_times_of_its_sources() -> None:
    assert run("e 1@0, e 2@15, e 4@8", sessions().timestamp_combiner("earliest")).times == [0]
    assert run("e 1@0, e 2@15, e 4@8", sessions().timestamp_combiner("latest")).times == [15]


# The output watermark.


def _downstream(text: str, windowing: dm.WindowInto, then: dm.WindowInto) -> list[Any]:
    """Return the panes of a second grouping that waits for the watermark of the first."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    first = pipeline | script(text) | windowing | "first" >> dm.Sum.per_key()
    _ = first | "then" >> then | "second" >> dm.GroupByKey() | "panes" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    return [
        (record.value[1], record.pane.timing.name, int(record.processing_time) / 1e6)
        for record in result.collected("panes")
    ]


NEXT = dm.Window.into(dm.FixedWindows(5))


def test_a_pending_pane_holds_the_output_watermark_at_its_event_time() -> None:
    # The first grouping's pane is at 5 and comes at watermark 10; until then the window [5, 6) may not pass below it.
    narrow = dm.Window.into(dm.FixedWindows(1))
    given = _downstream("e 1@5, p 1, w 9, p 2, w 10, p 3", fixed().timestamp_combiner("earliest"), narrow)
    assert given == [([1], "ON_TIME", 2)]


def test_pending_late_data_hold_the_output_watermark_at_the_end_of_their_window() -> None:
    given = _downstream("e 1@1, w 10, p 1, e 2@1, p 2, w 30, p 3", fixed(COUNTS, lateness=20), NEXT)
    assert given == [([3], "ON_TIME", 1)]


def test_the_output_watermark_equals_the_input_watermark_if_nothing_is_pending() -> None:
    given = _downstream("e 1@1, w 10, p 1, e 2@31, w 15, p 2", fixed(), NEXT)
    assert given == [([1], "ON_TIME", 0), ([2], "ON_TIME", 2)]
