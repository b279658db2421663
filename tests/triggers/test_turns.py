"""Turns: when a trigger's counts and delays start, when it fires, and when it has finished."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from tests.support.scripting import fixed, run

COUNT = dm.AfterCount
DELAY = dm.AfterProcessingTime


def test_a_count_fires_once_and_finishes() -> None:
    given = run("e 1@1+2@1+4@1+8@1", fixed(COUNT(2)))
    assert given.values == [3]
    assert given.panes[0].info.is_last
    assert given.counters["dropped_because_closed"] == 2


def test_a_delay_starts_with_the_first_element_and_is_not_moved_by_later_ones() -> None:
    assert run("p 1, e 1@1, p 4, e 2@1, p 8", fixed(dm.Repeatedly(DELAY(5)))).clocks == [6]


def test_a_repeated_delay_restarts_with_the_first_element_of_its_new_turn() -> None:
    assert run("e 1@1, p 8, e 2@1, p 20", fixed(dm.Repeatedly(DELAY(5)))).clocks == [5, 13]


def test_after_each_passes_the_element_that_finishes_a_child_only_to_that_child() -> None:
    each = dm.Repeatedly(dm.AfterEach(COUNT(1), COUNT(2)))
    assert run("e 1@1+2@1+4@1+8@1+16@1+32@1", fixed(each)).values == [1, 6, 8, 48]


def test_a_delay_in_a_sequence_counts_from_the_first_element_of_its_own_turn() -> None:
    each = dm.AfterEach(COUNT(1), DELAY(5))
    assert run("e 1@1, p 3, e 2@1, p 20", fixed(each)).clocks == [0, 8]


def test_after_any_fires_with_each_child_and_finishes_with_the_first_that_finishes() -> None:
    either = dm.AfterAny(dm.Repeatedly(COUNT(2)), COUNT(5))
    given = run("e 1@1+2@1+4@1+8@1+16@1+32@1", fixed(either))
    assert given.values == [3, 12, 16]
    assert given.panes[-1].info.is_last


def test_a_pane_fired_by_a_sibling_does_not_reset_a_count() -> None:
    either = dm.AfterAny(dm.Repeatedly(COUNT(2)), dm.Repeatedly(COUNT(3)))
    assert run("e 1@1+2@1+4@1+8@1+16@1+32@1", fixed(either)).values == [3, 4, 8, 48]


def test_a_pane_fired_by_a_sibling_does_not_reset_a_delay() -> None:
    either = dm.AfterAny(dm.Repeatedly(COUNT(1)), dm.Repeatedly(DELAY(5)))
    given = run("e 1@1, p 3, e 2@1, p 5, p 6, e 4@1, p 20", fixed(either))
    assert given.values == [1, 2, 4]  # the delay that is over at 5 has nothing new to show


def test_after_all_waits_for_every_child() -> None:
    both = dm.AfterAll(COUNT(2), DELAY(5))
    assert run("e 1@1+2@1, p 20, e 4@1", fixed(both)).values == [3]
    assert run("e 1@1, p 20, e 2@1, e 4@1", fixed(both)).clocks == [20]


def test_after_all_remembers_a_met_condition_until_it_fires() -> None:
    both = dm.AfterAll(COUNT(1), dm.AfterWatermark())
    given = run("e 1@1, p 9, w 10", fixed(both, lateness=20))
    assert given.brief == [(1, "ON_TIME")]


def test_after_all_finishes_when_all_its_children_have_finished() -> None:
    both = dm.AfterAll(COUNT(1), COUNT(3))
    given = run("e 1@1+2@1+4@1+8@1", fixed(both))
    assert given.values == [7]
    assert given.panes[0].info.is_last


def test_after_all_continues_with_its_unfinished_children() -> None:
    both = dm.AfterAll(dm.Repeatedly(COUNT(1)), COUNT(3))
    assert run("e 1@1+2@1+4@1+8@1+16@1", fixed(both)).values == [7, 8, 16]


def test_a_child_of_after_all_continues_while_after_all_waits_for_the_others() -> None:
    elements = "e 1@1, e 2@1, e 4@1, e 8@1, e 16@1, e 32@1"
    assert run(elements, fixed(dm.AfterAll(COUNT(2), dm.AfterEach(COUNT(1), COUNT(4))))).values == [3, 28]
    assert run(elements, fixed(dm.AfterAll(COUNT(3), dm.Repeatedly(COUNT(2))))).values == [7, 8, 48]


def test_or_finally_fires_like_its_first_trigger_until_the_second_fires() -> None:
    given = run("e 1@1+2@1+4@1+8@1", fixed(dm.Repeatedly(COUNT(1)).or_finally(COUNT(3))))
    assert given.values == [1, 2, 4]
    assert given.panes[-1].info.is_last
    assert given.counters["dropped_because_closed"] == 1


def test_if_both_triggers_of_or_finally_are_ready_the_second_wins_with_one_pane() -> None:
    given = run("e 1@1+2@1+4@1", fixed(dm.Repeatedly(COUNT(2)).or_finally(COUNT(2))))
    assert given.values == [3]
    assert given.panes[0].info.is_last


def test_the_time_limit_of_until_starts_with_the_window_and_not_with_a_pane() -> None:
    until = dm.Repeatedly(DELAY(4)).or_finally(DELAY(10))
    given = run("e 1@1, p 5, e 2@1, p 9.5, e 4@1, p 11, e 8@1", fixed(until))
    assert given.clocks == [4, 9, 10]
    assert given.panes[-1].info.is_last


def test_or_finally_finishes_when_its_first_trigger_finishes() -> None:
    given = run("e 1@1+2@1+4@1", fixed(COUNT(2).or_finally(COUNT(9))))
    assert given.values == [3]


def test_or_finally_finishes_when_its_second_trigger_fires_even_if_that_could_fire_again() -> None:
    given = run("e 1@1+2@1+4@1", fixed(dm.Repeatedly(COUNT(1)).or_finally(dm.Repeatedly(COUNT(2)))))
    assert given.values == [1, 2]
    assert given.panes[-1].info.is_last


def test_repeatedly_restarts_a_finished_child() -> None:
    again = dm.Repeatedly(dm.Repeatedly(COUNT(1)).or_finally(COUNT(2)))
    assert run("e 1@1+2@1+4@1+8@1", fixed(again)).values == [1, 2, 4, 8]


def test_after_watermark_fires_at_the_next_element_if_its_turn_starts_behind_the_watermark() -> None:
    each = dm.AfterEach(COUNT(2), dm.AfterWatermark())
    given = run("e 1@1, w 10, e 2@1, p 1, e 4@1", fixed(each, lateness=20))
    assert given.brief == [(3, "ON_TIME"), (4, "LATE")]
    assert given.clocks == [0, 1]


@pytest.mark.parametrize(
    "trigger",
    [
        dm.AfterEach(COUNT(1), dm.AfterWatermark()),
        dm.Repeatedly(dm.AfterEach(COUNT(1), dm.AfterWatermark())),
        dm.Repeatedly(COUNT(1).or_finally(dm.AfterWatermark())),
    ],
    ids=repr,
)
def test_after_watermark_fires_without_a_further_element_if_its_turn_starts_ahead_of_the_watermark(
    trigger: dm.Trigger,
) -> None:
    given = run("e 1@1, w 10, p 1", fixed(trigger, lateness=20))
    assert given.brief == [(1, "EARLY"), (0, "ON_TIME")]
    assert given.panes[1].info.trigger == repr(trigger)
    assert given.clocks == [0, 0]


def test_the_watermark_does_not_fire_a_child_whose_turn_has_not_started() -> None:
    again = dm.Repeatedly(dm.AfterEach(COUNT(1), COUNT(1), dm.AfterWatermark()))
    given = run("e 1@1, w 10, p 1, e 2@1, p 2, e 4@1, p 3", fixed(again, lateness=20))
    assert given.brief == [(1, "EARLY"), (2, "LATE"), (4, "LATE")]


def test_the_watermark_does_not_fire_a_child_of_a_restarted_sequence_before_its_turn() -> None:
    # The second element starts both over: a new turn of the sequence waits for an element first.
    again = dm.Repeatedly(dm.AfterEach(COUNT(1), dm.AfterWatermark()).or_finally(COUNT(2)))
    given = run("e 1@1, e 2@1, w 10, p 1", fixed(again, lateness=20))
    assert given.brief == [(1, "EARLY"), (2, "EARLY")]


def test_an_element_that_creates_a_window_behind_the_watermark_is_the_next_element() -> None:
    assert run("w 12, p 1, e 1@1, p 2", fixed(dm.AfterWatermark(), lateness=20)).clocks == [1]


def test_a_repeated_after_watermark_fires_immediately_for_each_late_element() -> None:
    given = run("e 1@1, w 10, e 2@1, e 4@1", fixed(lateness=20))
    assert given.brief == [(1, "ON_TIME"), (2, "LATE"), (4, "LATE")]


def test_after_watermark_with_early_and_late_is_the_sequence_of_both() -> None:
    short = dm.AfterWatermark(early=COUNT(2), late=COUNT(3))
    spelt = dm.AfterEach(dm.Repeatedly(COUNT(2)).or_finally(dm.AfterWatermark()), dm.Repeatedly(COUNT(3)))
    text = "e 1@1+2@1+4@1, w 10, e 8@1+16@1+32@1+64@1"
    assert run(text, fixed(short, lateness=20)).brief == [(3, "EARLY"), (4, "ON_TIME"), (56, "LATE"), (64, "LATE")]
    assert run(text, fixed(spelt, lateness=20)).brief == run(text, fixed(short, lateness=20)).brief


def test_after_watermark_without_late_finishes_with_the_on_time_pane() -> None:
    given = run("e 1@1+2@1, w 10, e 4@1", fixed(dm.AfterWatermark(early=COUNT(1)), lateness=20))
    assert given.brief == [(1, "EARLY"), (2, "EARLY"), (0, "ON_TIME")]
    assert given.panes[-1].info.is_last
    assert given.counters["dropped_because_closed"] == 1


# What may finish before its window expires is refused unless losing data is accepted.

MAY_FINISH = [
    COUNT(1),
    DELAY(1),
    dm.AfterAny(COUNT(1), dm.Repeatedly(COUNT(2))),
    dm.AfterEach(COUNT(1), COUNT(2)),
    dm.AfterAll(COUNT(1), COUNT(2)),
    dm.Repeatedly(COUNT(1)).or_finally(COUNT(5)),
]
NEVER_FINISH = [
    dm.DefaultTrigger(),
    dm.Repeatedly(COUNT(1)),
    dm.AfterWatermark(late=COUNT(1)),
    dm.AfterEach(COUNT(1), dm.Repeatedly(COUNT(2))),
    dm.AfterAll(COUNT(1), dm.Repeatedly(COUNT(2))),
]
WITH_THE_WATERMARK = [
    dm.AfterWatermark(),
    dm.AfterWatermark(early=COUNT(1)),
    dm.Repeatedly(COUNT(1)).or_finally(dm.AfterWatermark()),
]


@pytest.mark.parametrize("trigger", MAY_FINISH, ids=repr)
def test_a_tree_that_may_finish_is_refused_unless_it_may_lose_data(trigger: dm.Trigger) -> None:
    windowing = dm.Window.into(dm.FixedWindows(10))
    with pytest.raises(dm.InvalidArgument, match="may_lose_data"):
        _ = windowing.trigger(trigger).strategy
    assert windowing.trigger(trigger, may_lose_data=True).strategy.trigger == trigger


@pytest.mark.parametrize("trigger", NEVER_FINISH, ids=repr)
def test_a_tree_that_never_finishes_is_accepted(trigger: dm.Trigger) -> None:
    assert dm.Window.into(dm.FixedWindows(10)).trigger(trigger).allowed_lateness(5).strategy.trigger == trigger


@pytest.mark.parametrize("trigger", WITH_THE_WATERMARK, ids=repr)
def test_a_tree_that_finishes_with_the_watermark_is_accepted_if_no_late_data_are_allowed(trigger: dm.Trigger) -> None:
    windowing = dm.Window.into(dm.FixedWindows(10)).trigger(trigger)
    assert windowing.strategy.trigger == trigger
    for lateness in (5, 0.000_001):
        with pytest.raises(dm.InvalidArgument, match="may_lose_data"):
            _ = windowing.allowed_lateness(lateness).strategy
