"""Triggers that go by the elements: bytes, punctuation, a user's condition, always, never."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.triggers import TreeState, TriggerMachine
from dataflow_model.values import GLOBAL_WINDOW, encode_key
from tests.support.scripting import fixed, run, sessions
from tests.support.triggers.playing import Play, fires_at, merged

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class AfterTotal(dm.DataTrigger):
    """Fire once values that add up to `least` have come since it last did."""

    least: int

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        total = (state or 0) + element
        return (True, 0) if total >= self.least else (False, total)

    def merge_state(self, states: Sequence[Any]) -> Any:
        return sum(states)


@attrs.frozen
class Rises(dm.DataTrigger):
    """Fire at each value greater than all before; says nothing of merging."""

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        return (state is None or element > state), max(element, state or 0)


def is_mark(element: Any) -> bool:
    return bool(element == "END")


# Bytes.


def test_after_bytes_counts_the_bytes_of_the_encoding_of_keys() -> None:
    assert len(encode_key("abcd")) == 5
    assert fires_at(dm.AfterBytes(10), "e abcd@1, e abcd@2") == ["e abcd@2"]
    assert fires_at(dm.AfterBytes(11), "e abcd@1, e abcd@2, e x@3") == ["e x@3"]


def test_after_bytes_counts_the_pickle_of_an_element_that_cannot_be_a_key() -> None:
    machine = TriggerMachine(dm.AfterBytes(len(pickle.dumps([1, 2], protocol=5))))
    machine.clocks(watermark=0, processing_time=0)
    assert machine.element(TreeState(), GLOBAL_WINDOW, [1, 2]).fired
    assert not machine.element(TreeState(), GLOBAL_WINDOW, [1]).fired


def test_after_bytes_counts_from_zero_in_each_turn() -> None:
    assert fires_at(dm.Repeatedly(dm.AfterBytes(6)), "e abcd@1, e abcd@2, e abcd@3, e abcd@4") == [
        "e abcd@2",
        "e abcd@4",
    ]


def test_after_bytes_adds_up_the_bytes_of_merging_windows() -> None:
    whole = merged(dm.AfterBytes(12), [((0, 10), "e abcd@1"), ((5, 15), "e abcd@6")])
    assert whole.play("e a@2") == ["e a@2"]
    assert run("e 1@0, e 2@15, e 4@8, e 8@9", sessions(dm.Repeatedly(dm.AfterBytes(6)))).values == [7, 8]


# Punctuation.


def test_a_punctuation_element_fires_and_is_in_the_pane_and_finishes_the_trigger() -> None:
    once, again = dm.AfterPunctuation(is_mark), dm.Repeatedly(dm.AfterPunctuation(is_mark))
    text = "e 1@1, e END@2, e 2@3, e END@4"
    assert fires_at(once, text) == ["e END@2"]
    assert fires_at(again, text) == ["e END@2", "e END@4"]
    play = Play(once)
    play.play("e 1@1, e END@2")
    assert play.finished
    assert play.value == [1, "END"]


def test_punctuation_seen_in_every_source_counts_as_seen_in_the_merged_window() -> None:
    both = [((0, 10), "e END@1"), ((5, 15), "e END@6")]
    assert merged(dm.AfterPunctuation(is_mark), both).finished
    marked_once = [((0, 10), "e END@1"), ((5, 15), "e 1@6")]
    assert merged(dm.AfterPunctuation(is_mark), marked_once).play("e 1@2, e END@3") == ["e END@3"]


def test_the_predicate_of_a_punctuation_trigger_must_be_a_function() -> None:
    with pytest.raises(dm.InvalidType, match="`predicate` must be a function of an element, got 'END'"):
        dm.AfterPunctuation("END")  # type: ignore[arg-type]


# A user's condition.


def test_a_data_trigger_fires_whenever_its_condition_holds_and_never_finishes() -> None:
    assert fires_at(AfterTotal(5), "e 3@1, e 2@1, e 9@1, e 4@1, e 1@1") == ["e 2@1", "e 9@1", "e 1@1"]
    assert dm.Window.into(dm.FixedWindows(10)).trigger(AfterTotal(5)).strategy.trigger == AfterTotal(5)


def test_firing_does_not_reset_the_state_of_a_data_trigger() -> None:
    assert fires_at(dm.Repeatedly(Rises()), "e 3@1, e 2@1, e 4@1, e 3@1") == ["e 3@1", "e 4@1"]


def test_an_enclosing_repetition_that_restarts_resets_the_state_of_a_data_trigger() -> None:
    either = dm.Repeatedly(dm.AfterAny(Rises(), dm.AfterCount(2)))
    assert fires_at(either, "e 3@1, e 2@1, e 1@1") == ["e 3@1", "e 2@1", "e 1@1"]


def test_states_of_a_data_trigger_in_merging_windows_are_merged_by_the_user() -> None:
    whole = merged(AfterTotal(10), [((0, 10), "e 4@1"), ((5, 15), "e 5@6"), ((6, 16), "")])
    assert whole.play("e 1@2") == ["e 1@2"]
    assert run("e 1@0, e 2@15, e 4@8, e 8@9", sessions(AfterTotal(7))).values == [7, 8]


def test_a_growing_window_keeps_the_state_of_a_data_trigger_without_merge_state() -> None:
    assert merged(Rises(), [((0, 10), "e 4@1")]).play("e 3@2, e 5@3") == ["e 5@3"]


def test_a_data_trigger_without_merge_state_is_refused_if_windows_merge() -> None:
    Rises().check_for(merging=False)
    AfterTotal(5).check_for(merging=True)
    for tree in (Rises(), dm.Repeatedly(Rises()), dm.AfterWatermark(late=Rises()), dm.RepeatUntil(Rises(), dm.Never())):
        with pytest.raises(dm.InvalidArgument, match=r"Rises\(\) does not define how its states are merged.*\nHint"):
            tree.check_for(merging=True)


# Always and never.


def test_always_fires_at_each_element_and_never_finishes() -> None:
    assert run("e 1@1+2@1, w 10, e 4@1", fixed(dm.Always(), lateness=20)).brief == [
        (1, "EARLY"),
        (2, "EARLY"),
        (4, "LATE"),
    ]
    assert fires_at(dm.AfterEach(dm.Always(), dm.AfterCount(1)), "e 1@1, e 2@1, w 10") == ["e 1@1", "e 2@1"]
    assert fires_at(dm.RepeatCount(dm.Always(), 1), "e 1@1, e 2@1") == ["e 1@1", "e 2@1"]


def test_never_emits_nothing_before_the_expiry() -> None:
    given = run("e 1@1+2@1, w 10, e 4@1, w 30", fixed(dm.Never(), lateness=20))
    assert given.brief == [(7, "ON_TIME")]
    assert given.panes[0].info.is_last
    assert given.panes[0].info.trigger is None


def test_after_any_with_never_is_the_other_trigger_and_after_all_with_never_is_never() -> None:
    assert fires_at(dm.AfterAny(dm.Never(), dm.AfterCount(2)), "e 1@1, e 2@1") == ["e 2@1"]
    assert fires_at(dm.AfterAll(dm.Never(), dm.AfterCount(1)), "e 1@1, w 99") == []


def test_always_and_never_have_no_state_to_merge() -> None:
    assert merged(dm.Always(), [((0, 10), "e 1@1"), ((5, 15), "e 2@6")]).play("e 3@2") == ["e 3@2"]
    assert merged(dm.Never(), [((0, 10), "e 1@1"), ((5, 15), "e 2@6")]).play("e 3@2, w 99") == []
