"""Laws of trigger trees, on one window's machine: what is written differently and means the same fires the same."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from dataflow_model.triggers import TreeState
from tests.support.triggers.playing import SECOND, Play, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.triggers import Outcome

TREES = strategies.triggers(2)


@st.composite
def scripts(draw: st.DrawFn) -> list[str]:
    """Draw the steps of one window `[0, 10)`: ties, clocks that stay and signals are frequent."""
    steps: list[str] = []
    clock, low, percentile, value = 0, -1, -1, 1
    for _ in range(draw(st.integers(0, 14))):
        match draw(st.sampled_from(["e", "e", "e", "r", "w", "w90", "p", "s"])):
            case "e":
                steps.append(f"e {value}@{draw(st.integers(0, 9))}")
                value *= 2
            case "r":
                steps.append(f"r {value}@{draw(st.integers(0, 9))}")
                value *= 2
            case "w":
                low += draw(st.integers(0, 6))
                steps.append(f"w {low}")
            case "w90":
                percentile = max(percentile, low) + draw(st.integers(0, 6))
                steps.append(f"w90 {percentile}")
            case "p":
                clock += draw(st.integers(0, 9))
                steps.append(f"p {clock}")
            case _:
                steps.append(f"s {draw(st.sampled_from(strategies.SIGNALS))}")
    return steps


class Blind(Play):
    """A play whose retractions need not take back what has come."""

    def element(self, step: str, value: str, at: int, *, retraction: bool) -> None:
        if retraction:
            self.value.append(int(value))
        super().element(step, value, at, retraction=retraction)


def firings(trigger: dm.Trigger, steps: Sequence[str]) -> list[tuple[int, Outcome, bool]]:
    """Return the number of each step that fires, what it did, and whether the tree was finished then."""
    play, outcomes = Blind(trigger), []
    for number, step in enumerate(steps):
        play.play(step)
        outcomes += [(number, outcome, play.finished) for _, outcome in play.fired]
        play.fired.clear()
    return outcomes


def same(left: dm.Trigger, right: dm.Trigger, steps: Sequence[str]) -> None:
    assert firings(left, steps) == firings(right, steps)


@given(TREES, scripts())
def test_repeatedly_of_repeatedly_is_repeatedly(tree: dm.Trigger, steps: list[str]) -> None:
    same(dm.Repeatedly(dm.Repeatedly(tree)), dm.Repeatedly(tree), steps)


@given(TREES, scripts(), st.sampled_from([dm.AfterAny, dm.AfterEach, lambda tree: dm.RepeatCount(tree, 1)]))
def test_a_composite_of_one_trigger_is_that_trigger(tree: dm.Trigger, steps: list[str], composite: Any) -> None:
    same(composite(tree), tree, steps)


@given(TREES, scripts())
def test_after_all_of_one_trigger_is_that_trigger(tree: dm.Trigger, steps: list[str]) -> None:
    same(dm.AfterAll(tree), tree, steps)


@given(TREES, TREES, scripts())
def test_until_is_the_repetition_or_finally(tree: dm.Trigger, until: dm.Trigger, steps: list[str]) -> None:
    same(dm.RepeatUntil(tree, until), dm.Repeatedly(tree).or_finally(until), steps)


@given(TREES, scripts())
def test_or_finally_never_is_the_first_trigger(tree: dm.Trigger, steps: list[str]) -> None:
    same(tree.or_finally(dm.Never()), tree, steps)


@given(TREES, scripts())
def test_after_any_with_never_is_the_other_trigger(tree: dm.Trigger, steps: list[str]) -> None:
    same(dm.AfterAny(tree, dm.Never()), tree, steps)


@given(scripts())
def test_always_is_a_repeated_count_of_one(steps: list[str]) -> None:
    same(dm.Always(), dm.Repeatedly(dm.AfterCount(1)), steps)


@given(scripts(), st.integers(1, 3), st.integers(1, 3))
def test_repeat_count_is_a_sequence_of_that_many_triggers(steps: list[str], n: int, times: int) -> None:
    tree = dm.AfterCount(n)
    same(dm.RepeatCount(tree, times), dm.AfterEach(*[tree] * times), steps)


@given(TREES, scripts())
def test_a_tree_that_says_it_cannot_finish_or_fire_before_expiry_does_not(tree: dm.Trigger, steps: list[str]) -> None:
    kept = list(itertools.takewhile(lambda step: not step.startswith("w ") or float(step[2:]) < 10, steps))
    outcomes = firings(tree, kept)
    if not tree.may_finish(allowed_lateness=dm.duration(0)):
        assert not any(finished for _, _, finished in outcomes)
    if not tree.may_fire(allowed_lateness=dm.duration(0)):
        assert outcomes == []


@given(TREES, scripts())
def test_nothing_fires_after_a_trigger_has_finished(tree: dm.Trigger, steps: list[str]) -> None:
    outcomes = firings(tree, steps)
    finished = [number for number, _, finished in outcomes if finished]
    assert not finished or not [number for number, _, _ in outcomes if number > finished[0]]


@given(TREES, scripts(), st.integers(0, 14))
def test_a_restored_trigger_state_continues_unchanged(tree: dm.Trigger, steps: list[str], cut: int) -> None:
    straight, broken = Blind(tree), Blind(tree)
    for step in steps[:cut]:
        assert straight.play(step) == broken.play(step)
    before = copy.deepcopy(broken.state)
    broken.state = pickle.loads(pickle.dumps(broken.state))
    assert broken.state == before
    for step in steps[cut:]:
        assert straight.play(step) == broken.play(step)
    assert straight.state == broken.state


# Merging.


def merge(tree: dm.Trigger, states: Sequence[TreeState], clocks: Play) -> TreeState:
    whole = Play(tree, window(0, 10 + len(states)), watermark=clocks.watermark, clock=clocks.clock)
    whole.percentiles = clocks.percentiles
    whole.tell_clocks()
    return whole.machine.merge(whole.window, [(window(place, place + 10), state) for place, state in enumerate(states)])


def after(tree: dm.Trigger, scripts_of: Sequence[Sequence[str]]) -> tuple[list[TreeState], Play]:
    """Play each script on a window of its own, all at the same clocks in the end; return the states and the clocks."""
    plays = [Blind(tree, window(place, place + 10)) for place in range(len(scripts_of))]
    for play, steps in zip(plays, scripts_of, strict=True):
        play.play(", ".join(steps))
    low = max(play.watermark for play in plays)
    clock = max(play.clock for play in plays)
    most = max((at for play in plays for at in play.percentiles.values()), default=low)
    for play in plays:
        if low > -SECOND:
            play.play(f"w {max(low, 0) / SECOND}, w90 {max(most, low, 0) / SECOND}")
        play.play(f"p {clock / SECOND}")
    return [play.state for play in plays], plays[0]


SEVERAL = st.lists(scripts(), min_size=1, max_size=3)


@given(TREES, SEVERAL, st.randoms(use_true_random=False))
def test_merging_trigger_states_does_not_depend_on_the_order_of_the_sources(
    tree: dm.Trigger, several: list[list[str]], random: Any
) -> None:
    states, clocks = after(tree, several)
    numbered = list(enumerate(states))
    whole = Play(tree, window(0, 30), watermark=clocks.watermark, clock=clocks.clock, percentiles=clocks.percentiles)
    whole.tell_clocks()
    straight = whole.machine.merge(whole.window, [(window(at, at + 10), state) for at, state in numbered])
    random.shuffle(numbered)
    assert whole.machine.merge(whole.window, [(window(at, at + 10), state) for at, state in numbered]) == straight


@given(TREES, scripts())
def test_merging_a_merged_window_again_changes_nothing(tree: dm.Trigger, steps: list[str]) -> None:
    states, clocks = after(tree, [steps])
    once = merge(tree, states, clocks)
    assert merge(tree, [once], clocks) == once


@given(scripts())
def test_merging_with_an_empty_window_does_not_change_counts(steps: list[str]) -> None:
    counting = dm.Repeatedly(dm.AfterCount(3))
    states, clocks = after(counting, [steps])
    assert merge(counting, [*states, TreeState()], clocks).store == merge(counting, states, clocks).store
