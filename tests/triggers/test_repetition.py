"""Repetitions that end: a number of times, or until something else fires."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from tests.support.scripting import fixed, run, sessions
from tests.support.triggers.playing import Play, fires_at, merged

COUNT = dm.AfterCount


def test_repeat_count_finishes_with_the_last_of_the_given_number_of_completions() -> None:
    given = run("e 1@1+2@1+4@1+8@1+16@1+32@1", fixed(dm.RepeatCount(COUNT(2), 2)))
    assert given.values == [3, 12]
    assert [pane.info.is_last for pane in given.panes] == [False, True]
    assert given.counters["dropped_because_closed"] == 2


def test_repeat_count_counts_completions_and_not_firings() -> None:
    pair = dm.AfterEach(COUNT(1), COUNT(1))
    assert fires_at(dm.RepeatCount(pair, 2), "e 1@1, e 2@1, e 3@1, e 4@1, e 5@1") == [
        "e 1@1",
        "e 2@1",
        "e 3@1",
        "e 4@1",
    ]


def test_a_delay_restarts_with_each_repetition() -> None:
    play = Play(dm.RepeatCount(dm.AfterProcessingTime(5), 2))
    assert play.play("e 1@1, p 8, e 2@1, p 20, e 3@1, p 99") == ["p 8", "p 20"]
    assert play.deadlines == [5, 13]


def test_repeat_count_restarts_with_no_completions_under_another_repetition() -> None:
    again = dm.Repeatedly(dm.AfterEach(dm.RepeatCount(COUNT(1), 2), COUNT(2)))
    assert fires_at(again, "e 1@1, e 2@1, e 3@1, e 4@1, e 5@1, e 6@1, e 7@1, e 8@1") == [
        *("e 1@1", "e 2@1", "e 4@1"),
        *("e 5@1", "e 6@1", "e 8@1"),
    ]


def test_completions_of_repeat_count_in_merging_windows_add_up() -> None:
    whole = merged(dm.RepeatCount(COUNT(1), 4), [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6")])
    assert whole.play("e 4@2, e 5@2") == ["e 4@2"]
    assert whole.finished


def test_repeat_count_finishes_in_a_merge_if_its_completions_add_up() -> None:
    sources = [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6, e 4@6")]
    whole = merged(dm.RepeatCount(COUNT(1), 3), sources)
    assert whole.finished
    grown = Play(dm.RepeatCount(COUNT(1), 3))
    grown.state = grown.machine.merge(grown.window, [(whole.window, whole.state)])
    assert grown.finished


def test_counts_of_the_child_of_repeat_count_add_up_together_with_completions() -> None:
    sources = [((0, 10), "e 1@1, e 2@1, e 3@1"), ((5, 15), "e 4@6")]
    assert merged(dm.RepeatCount(COUNT(3), 2), sources).play("e 5@2, e 6@2, e 7@2") == ["e 6@2"]


def test_an_inner_repeat_count_that_is_completed_by_a_merge_is_one_completion() -> None:
    inner = dm.RepeatCount(COUNT(1), 2)
    whole = merged(dm.RepeatCount(inner, 2), [((0, 10), "e 1@1"), ((5, 15), "e 2@6")])
    assert whole.play("e 3@1, e 4@1, e 5@1") == ["e 3@1", "e 4@1"]


def test_repeatedly_restarts_a_child_that_is_finished_after_a_merge() -> None:
    inner = dm.RepeatCount(dm.AfterEach(COUNT(1), COUNT(2)), 1)
    tree = dm.Repeatedly(dm.RepeatCount(inner, 2))
    whole = merged(tree, [((0, 10), "e 1@1, e 2@1, e 3@1"), ((5, 15), "e 4@6, e 5@6, e 6@6")])
    assert whole.play("e 7@1, e 8@1, e 9@1") == ["e 7@1", "e 9@1"]


def test_a_source_with_a_finished_repeat_count_contributes_no_completions() -> None:
    sources = [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6")]
    assert merged(dm.RepeatCount(COUNT(1), 2), sources).play("e 4@1, e 5@1") == ["e 4@1"]


def test_repeat_count_is_finished_after_a_merge_if_it_was_in_every_source() -> None:
    sources = [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6, e 4@6")]
    assert merged(dm.RepeatCount(COUNT(1), 2), sources).finished
    given = run("e 1@0+2@0, e 4@15+8@15, e 16@8", sessions(dm.RepeatCount(COUNT(1), 2)))
    assert given.values == [1, 2, 4, 8]
    assert given.counters["dropped_because_closed"] == 1


def test_after_watermark_below_repeat_count_restarts_with_the_merged_window() -> None:
    whole = merged(dm.RepeatCount(dm.AfterWatermark(), 1), [((0, 10), "e 1@1, w 10"), ((5, 15), "e 2@6, w 10")])
    assert not whole.finished
    assert whole.play("e 3@1, w 15") == ["w 15"]


def test_until_is_the_repetition_or_finally() -> None:
    until = dm.RepeatUntil(COUNT(2), COUNT(5))
    assert until.lowered() == dm.Repeatedly(COUNT(2)).or_finally(COUNT(5))
    given = run("e 1@1+2@1+4@1+8@1+16@1+32@1", fixed(until))
    assert given.values == [3, 12, 16]
    assert given.panes[-1].info.is_last
    assert given.panes[-1].info.trigger == "RepeatUntil(AfterCount(2), AfterCount(5))"


def test_if_both_triggers_are_ready_until_wins_with_one_pane() -> None:
    given = run("e 1@1+2@1+4@1+8@1", fixed(dm.RepeatUntil(COUNT(2), COUNT(4))))
    assert given.values == [3, 12]
    assert given.panes[-1].info.is_last


def test_the_pane_with_which_until_wins_has_the_deadline_of_until() -> None:
    first, until = dm.Repeatedly(dm.AfterProcessingTime(3)), dm.AfterProcessingTime(5)
    for tree in (first.or_finally(until), dm.Repeatedly(first.or_finally(until)), dm.RepeatUntil(first, until)):
        assert run("e 1@1, p 9", fixed(tree)).clocks == [5]


@pytest.mark.parametrize("until", [dm.Always(), dm.Repeatedly(COUNT(1)), dm.AfterSignal("stop"), dm.AfterEventTime(1)])
def test_a_repetition_that_a_firing_may_finish_requires_may_lose_data(until: dm.Trigger) -> None:
    for tree in (dm.RepeatUntil(COUNT(1), until), dm.Repeatedly(COUNT(1)).or_finally(until)):
        with pytest.raises(dm.InvalidArgument, match="may_lose_data"):
            _ = dm.Window.into(dm.FixedWindows(10)).trigger(tree).strategy


@pytest.mark.parametrize(
    "until", [dm.Never(), dm.AfterWatermark(), dm.DefaultTrigger(), dm.AfterAll(dm.Always(), dm.Never())]
)
def test_a_repetition_that_ends_with_the_window_does_not_require_may_lose_data(until: dm.Trigger) -> None:
    tree = dm.RepeatUntil(COUNT(1), until)
    assert dm.Window.into(dm.FixedWindows(10)).trigger(tree).strategy.trigger == tree


@pytest.mark.parametrize("n", [0, -1])
def test_repeat_count_must_be_at_least_one(n: int) -> None:
    with pytest.raises(dm.InvalidArgument, match=f"`n` must be at least 1, got {n}"):
        dm.RepeatCount(COUNT(1), n)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dm.RepeatCount(5, 5),  # type: ignore[arg-type]
        lambda: dm.RepeatCount(COUNT(1), "5"),  # type: ignore[arg-type]
        lambda: dm.RepeatUntil(COUNT(1), 5),  # type: ignore[arg-type]
        lambda: dm.RepeatUntil(5, COUNT(1)),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_repetitions_are_checked(make: Any) -> None:
    with pytest.raises(dm.InvalidType):
        make()
