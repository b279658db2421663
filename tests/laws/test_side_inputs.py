"""Law 4 for functions with changing side inputs: neither the number of shards nor the cuts change an answer."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import counters, difference, run, seen
from tests.support.runners.shard_threads import ThreadedRunner

SECONDS = st.integers(-8, 8)


@attrs.frozen
class Case:
    """A script, whose elements are looked up in the same elements, and a grouping of what comes out.

    Attributes:
        steps: the steps: a watermark, or the key and the event time of an element.
        window_fn: the windows of both.
        lateness: the lateness that the main input allows, in seconds.
        grouped: whether the side input are sums, with retractions.
    """

    steps: list[int | tuple[str, int]]
    window_fn: dm.WindowFn
    lateness: int = 0
    grouped: bool = False

    def build(self, p: dm.Pipeline) -> None:
        """Build the pipeline."""
        script = TestStream()
        for number, step in enumerate(self.steps):
            script = script.watermark(step) if isinstance(step, int) else script.add(1 << number, step[1], key=step[0])
        windows = dm.Window.into(self.window_fn).allowed_lateness(self.lateness)
        elements: Any = p | "script" >> script | "windows" >> windows
        side = elements
        if self.grouped:
            early = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
            side = elements | "early" >> early | "sums" >> dm.Sum.per_key()
        looked_up = elements | "look" >> dm.Map(look, side=dm.AsList(side))
        _ = looked_up | "panes" >> dm.io.Collect()
        sizes = looked_up | "sizes" >> dm.Map(lambda seen: (seen[0][0], len(seen[1])))
        early = dm.Window.into(dm.FixedWindows(4)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
        _ = sizes | "again" >> early | "behind" >> dm.Sum.per_key() | "panes behind" >> dm.io.Collect()


def look(pair: tuple[str, int], side: list[tuple[str, int]]) -> tuple[tuple[str, int], list[tuple[str, int]]]:
    return pair, sorted(side)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case; about half of its elements are late."""
    watermark, steps = -10, list[Any]()
    for _ in range(draw(st.integers(2, 10))):
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from("abc")), watermark + draw(SECONDS)))
        else:
            watermark += draw(st.integers(1, 6))
            steps.append(watermark)
    shifted = st.builds(lambda size: dm.FixedWindows(size, phase_shift=True), st.integers(1, 12))
    window_fn = draw(st.one_of(st.builds(dm.Sessions, st.integers(1, 6)), shifted, strategies.window_fns()))
    return Case(steps, window_fn, draw(st.sampled_from([0, 0, 3])), draw(st.booleans()))


SHIFTED = Case([8, ("a", 4), 12, ("a", 6)], dm.FixedWindows(5, phase_shift=True))
SESSIONS = Case([-17, ("a", -21), ("d", -20)], dm.Sessions(3))
MERGING = Case([10, ("a", 7), ("a", 12), ("a", 4), ("a", 7)], dm.Sessions(2))


def check(case: Case, runner: Any) -> None:
    expected, actual = run(dm.LocalRunner(), case.build), run(runner, case.build)
    for sink in ("panes", "panes behind"):
        problem = difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
        assert not problem, f"{sink}: {problem}"
    for label in ("look", "behind"):
        dropped = [result.metrics().get(label, {}).get("dropped_because_late", 0) for result in (expected, actual)]
        assert dropped[0] == dropped[1], label


@share_of_examples(0.4)
@given(cases(), st.integers(2, 6))
@example(SHIFTED, 3)
@example(SESSIONS, 5)
@example(MERGING, 5)
def test_a_side_input_gives_the_same_answers_with_any_number_of_workers(case: Case, workers: int) -> None:
    check(case, ThreadedRunner(workers))


@share_of_examples(0.4)
@given(cases(), st.integers(1, 6), st.lists(st.integers(1, 3), min_size=1, max_size=3), st.booleans())
@example(SHIFTED, 3, [1], True)
@example(SESSIONS, 5, [1], True)
@example(MERGING, 5, [1], True)
def test_a_side_input_gives_the_same_answers_in_any_cut(
    case: Case, shards: int, cuts: list[int], restarting: bool
) -> None:
    restarts = frozenset(range(1, 100)) if restarting else frozenset[int]()
    check(case, MicroBatchRunner(Schedule(shards=shards, cuts=tuple(cuts), restarts=restarts)))


@pytest.mark.parametrize(("case", "kept"), [(SHIFTED, []), (SESSIONS, []), (MERGING, [("a", 1 << 2)])])
def test_an_element_is_dropped_where_its_side_window_may_have_been_cleared(
    case: Case, kept: list[tuple[str, int]]
) -> None:
    result = run(dm.LocalRunner(), case.build)
    assert [record.value[0] for record in result.collected("panes")] == kept
    elements = sum(not isinstance(step, int) for step in case.steps)
    assert counters(result)["look"]["dropped_because_late"] == elements - len(kept)


def test_a_late_element_uses_a_session_that_is_still_there() -> None:
    case = Case([0, ("a", 1), ("a", 3), 4, ("b", 1)], dm.Sessions(3), grouped=True)
    records = run(dm.LocalRunner(), case.build).collected("panes")
    assert records[-1].value == (("b", 1 << 4), [("a", (1 << 1) + (1 << 2))])
