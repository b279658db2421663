"""Beam's Python DirectRunner as a second opinion on panes: the same, but for what `docs/departures.md` lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, run_script
from tests.support.beam.drawing import scripts, windowing_strategies
from tests.support.pipelines import draw
from tests.support.scripting import fixed, script, sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Beam's own
]
FOREVER = 1_000

Brief = list[tuple[int, str]]


@pytest.fixture(scope="session")
def comparing() -> ModuleType:
    """Return the comparison; skip without Beam."""
    pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")
    from tests.support.beam import comparing

    return comparing


@pytest.fixture
def both(comparing: ModuleType) -> Callable[[str | TestStream, dm.WindowInto], tuple[Brief, Brief]]:
    """Return what runs a script on both sides, ours first; values and timings, by window and then in order."""
    from tests.support.beam.beam_side import Pane, ours, run_on_beam

    def brief(panes: list[Pane]) -> Brief:
        in_order = sorted(panes, key=lambda pane: (pane.window or (0, 0), pane.index))
        return [(pane.value, pane.timing) for pane in in_order]

    def run(text: str | TestStream, windowing: dm.WindowInto) -> tuple[Brief, Brief]:
        steps = script(text) if isinstance(text, str) else text
        mine = list(ours(run_script(steps, windowing, dm.Sum())))
        return brief(mine), brief(run_on_beam(steps, windowing.strategy))

    return run


def test_beam_continues_a_trigger_tree_leaf_by_leaf_and_we_at_the_end_of_each_tick() -> None:
    beam = pytest.importorskip(
        "apache_beam.transforms.trigger", reason="needs Beam: pip install 'dataflow-model[beam]'"
    )
    in_twos = beam.Repeatedly(beam.AfterCount(2)).get_continuation_trigger()
    assert in_twos == beam.Repeatedly(beam.AfterCount(1))
    assert beam.AfterCount(2).get_continuation_trigger() == beam.AfterCount(1)
    assert beam.AfterWatermark().get_continuation_trigger() == beam.AfterWatermark()
    assert dm.Repeatedly(dm.AfterCount(2)).continuation() == dm.Repeatedly(dm.AfterProcessingTime(0))
    assert dm.AfterCount(2).continuation() == dm.Repeatedly(dm.AfterProcessingTime(0))
    assert dm.AfterWatermark().continuation() == dm.DefaultTrigger()


@pytest.mark.parametrize("number", range(6))
def test_panes_of_drawn_cases_equal_those_of_beam_except_for_known_departures(
    comparing: ModuleType, number: int
) -> None:
    for steps, strategy in draw(st.tuples(scripts(), windowing_strategies()), 50, number):
        try:
            comparing.departures(steps, strategy)
        except comparing.Disagreement as problem:
            shown = "\n".join(map(repr, steps.steps))
            pytest.fail(f"{problem}\n{strategy}\n{shown}")


def test_early_on_time_and_late_panes_equal_those_of_beam(both: Any) -> None:
    trigger = dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
    ours, beams = both("e 1@5, e 2@6, e 4@7, w 10, e 8@3, w 20, e 16@1", fixed(trigger, FOREVER))
    assert ours == beams == [(3, "EARLY"), (4, "ON_TIME"), (8, "LATE"), (16, "LATE")]


def test_merged_sessions_start_over_on_both_sides(both: Any) -> None:
    ours, beams = both("e 1@0, e 2@15, e 4@8, w 40", sessions(dm.AfterWatermark(early=dm.AfterCount(1)), FOREVER))
    assert ours == beams == [(1, "EARLY"), (4, "EARLY"), (0, "ON_TIME"), (2, "EARLY")]


# The departures, each by the case that the document gives.


def test_beam_has_no_pane_at_expiry(both: Any) -> None:
    ours, beams = both("e 1@5, e 2@6, e 4@7", fixed(dm.Repeatedly(dm.AfterCount(2))))
    assert ours == [(3, "EARLY"), (4, "ON_TIME")]
    assert beams == [(3, "EARLY")]


def test_beam_accepts_an_element_that_arrives_at_the_expiry_of_its_window(both: Any) -> None:
    ours, beams = both("e 1@5, w 15, e 2@6", fixed(None, 5))
    assert ours == [(1, "ON_TIME")]
    assert beams == [(1, "ON_TIME"), (2, "LATE")]


def test_beam_merges_with_windows_that_have_expired(both: Any) -> None:
    ours, beams = both("e 1@0, w 15, e 2@9", sessions(dm.Repeatedly(dm.AfterCount(2)), 3))
    assert ours == [(1, "ON_TIME"), (2, "ON_TIME")]
    assert beams == [(3, "EARLY")]


def test_beam_marks_no_pane_as_last_because_its_window_expires(comparing: ModuleType) -> None:
    assert comparing.departures(script("e 1@5, w 10"), fixed(dm.Repeatedly(dm.AfterWatermark())).strategy) == {
        comparing.LAST
    }


def test_beam_times_a_pane_by_the_output_watermark(both: Any) -> None:
    ours, beams = both("e 1@5, w 12, e 2@3", fixed(dm.Repeatedly(dm.AfterCount(2)), FOREVER))
    assert ours == [(3, "ON_TIME")]
    assert beams == [(3, "EARLY")]


def test_beam_fires_once_for_each_timer_of_a_tree(both: Any) -> None:
    trigger = dm.AfterAll(dm.DefaultTrigger(), dm.DefaultTrigger())
    ours, beams = both("e 1@5, w 10", fixed(trigger, FOREVER))
    assert ours == [(1, "ON_TIME")]
    assert beams == [(1, "ON_TIME"), (0, "LATE")]


def test_beams_watermark_trigger_in_a_sequence_waits_for_an_element(both: Any) -> None:
    ours, beams = both("e 1@5, w 10", fixed(dm.AfterEach(dm.AfterCount(1), dm.AfterWatermark()), FOREVER))
    assert ours == [(1, "EARLY"), (0, "ON_TIME")]
    assert beams == [(1, "EARLY")]


def test_beams_watermark_trigger_in_a_sequence_fires_at_a_late_element_after_the_ones_before_it_finished(
    both: Any,
) -> None:
    trigger = dm.AfterEach(dm.AfterCount(1), dm.AfterWatermark(), dm.Repeatedly(dm.AfterCount(2)))
    ours, beams = both("e 1@5, w 10, e 2@5, e 4@5", fixed(trigger, FOREVER))
    assert ours == [(1, "EARLY"), (0, "ON_TIME"), (6, "LATE")]
    assert beams == [(1, "EARLY"), (2, "EARLY")]


def test_beam_keeps_a_finished_window_closed_when_it_merges(both: Any) -> None:
    ours, beams = both("e 1@0, w 12, e 2@9", sessions(dm.AfterWatermark(), FOREVER))
    assert ours == [(1, "ON_TIME"), (2, "LATE")]
    assert beams == [(1, "ON_TIME")]


def test_beams_or_finally_waits_until_the_other_trigger_finishes(both: Any) -> None:
    trigger = dm.Repeatedly(dm.AfterCount(1)).or_finally(dm.Repeatedly(dm.AfterCount(2)))
    ours, beams = both("e 1@5, e 2@6, e 4@7", fixed(trigger, FOREVER))
    assert ours == [(1, "EARLY"), (2, "EARLY")]
    assert beams == [(1, "EARLY"), (2, "EARLY"), (4, "EARLY")]


def test_beam_checks_a_trigger_once_for_each_bundle(both: Any) -> None:
    ours, beams = both("e 1@5+2@5+4@5", fixed(dm.Repeatedly(dm.AfterCount(2))))
    assert ours == [(3, "EARLY"), (4, "ON_TIME")]
    assert beams == [(7, "EARLY")]


@pytest.mark.parametrize(
    ("trigger", "here", "there"),
    [
        (dm.AfterAll(dm.AfterCount(2), dm.AfterEach(dm.AfterCount(1), dm.AfterCount(4))), [3, 28], [3, 60]),
        (dm.AfterAll(dm.AfterCount(3), dm.Repeatedly(dm.AfterCount(2))), [7, 8, 48], [7, 24]),
        # There, an `AfterEach` that has finished is never ready again.
        (dm.AfterAll(dm.Repeatedly(dm.AfterCount(1)), dm.AfterEach(dm.AfterCount(1))), [1, 2, 4, 8, 16, 32], [1]),
    ],
    ids=repr,
)
def test_children_of_after_all_may_fire_again_before_it_fires_but_not_in_beam(
    both: Any, trigger: dm.Trigger, here: list[int], there: list[int]
) -> None:
    text = "e 1@5, e 2@5, e 4@5, e 8@5, e 16@5, e 32@5"
    ours, beams = both(text, fixed(trigger, FOREVER))
    assert (ours, beams) == ([(value, "EARLY") for value in here], [(value, "EARLY") for value in there])


def test_beam_emits_a_second_pane_on_time_after_merging(both: Any) -> None:
    ours, beams = both("e 1@0, w 12, e 2@9", sessions(None, 20))
    assert ours == [(1, "ON_TIME"), (2, "LATE")]
    assert beams == [(1, "ON_TIME"), (2, "ON_TIME")]


def test_beam_merges_windows_again_in_a_second_grouping(comparing: ModuleType) -> None:
    from tests.support.beam.beam_side import run_on_beam

    steps = TestStream().add(1, 0, key="a").add(2, 5, key="b")
    beams = run_on_beam(steps, sessions().strategy, groupings=2)
    assert [(pane.value, pane.window) for pane in beams] == [(3, (0, 15_000_000))]

    with dm.Pipeline() as p:
        sums = p | steps | sessions() | "by key" >> dm.Sum.per_key() | dm.MapTuple(lambda _, value: ("all", value))
        _ = sums | "again" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
    assert p.result is not None
    mine = [(record.value[1], record.window) for record in p.result.collected("panes")]
    assert mine == [(1, dm.IntervalWindow(0, 10)), (2, dm.IntervalWindow(5, 15))]


def test_beams_global_window_ends_a_day_before_the_end_of_time() -> None:
    window = pytest.importorskip(
        "apache_beam.transforms.window", reason="needs Beam: pip install 'dataflow-model[beam]'"
    )
    day = dm.duration("1 day")
    assert abs(window.GlobalWindow().max_timestamp().micros - int(dm.GLOBAL_WINDOW.max_timestamp - day)) < 1_000
