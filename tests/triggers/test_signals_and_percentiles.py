"""Triggers that wait for a signal from outside, or for a percentile of the watermark."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from dataflow_model.triggers import TriggerMachine
from tests.support.scripting import fixed, run
from tests.support.triggers.playing import Play, fires_at, merged

FLUSH = dm.AfterSignal("flush")
MOST = dm.AfterWatermark(percentile=90)

# Signals.


def test_a_signal_fires_the_trigger_that_waits_for_its_name() -> None:
    assert fires_at(FLUSH, "e 1@1, s other, s flush, s flush") == ["s flush"]
    assert fires_at(dm.Repeatedly(FLUSH), "e 1@1, s flush, e 2@1, s flush") == ["s flush", "s flush"]


def test_a_signal_whose_name_is_too_long_for_the_file_of_its_request_is_rejected() -> None:
    dm.AfterSignal("x" * 225)
    with pytest.raises(
        dm.InvalidArgument, match=r"at most 225 characters when it is quoted .*, got 228: 'ä+'\nHint: use a"
    ):
        dm.AfterSignal("ä" * 38)


def test_a_signal_is_one_event_for_the_whole_tree() -> None:
    both = dm.AfterAll(FLUSH, dm.AfterAny(FLUSH, dm.AfterSignal("other")))
    assert fires_at(both, "e 1@1, s flush") == ["s flush"]
    assert fires_at(dm.AfterAll(FLUSH, dm.AfterSignal("other")), "e 1@1, s flush, s other") == ["s other"]
    assert fires_at(dm.Repeatedly(dm.Always()).or_finally(FLUSH), "e 1@1, s flush, e 2@1") == ["e 1@1", "s flush"]


def test_the_signal_that_finishes_a_child_is_not_passed_to_the_next() -> None:
    assert fires_at(dm.AfterEach(FLUSH, FLUSH), "e 1@1, s flush, s flush, s flush") == ["s flush", "s flush"]


def test_a_signal_before_the_turn_of_a_trigger_is_not_remembered() -> None:
    assert fires_at(dm.AfterEach(dm.AfterCount(2), FLUSH), "s flush, e 1@1, e 2@1, s flush") == ["e 2@1", "s flush"]


def test_a_signal_is_not_an_element() -> None:
    assert fires_at(dm.AfterAny(dm.AfterCount(2), dm.Always(), FLUSH), "s other, s other, s other") == []


def test_a_signal_received_in_every_source_counts_as_received_in_the_merged_window() -> None:
    assert merged(FLUSH, [((0, 10), "s flush"), ((5, 15), "s flush")]).finished
    assert merged(FLUSH, [((0, 10), "s flush"), ((5, 15), "")]).play("s flush") == ["s flush"]


def test_in_a_pipeline_a_signal_fires_every_open_window_and_no_later_one() -> None:
    both = TestStream().add(1, 1, key="a").add(2, 11, key="a").signal("flush").add(4, 21, key="a").add(8, 2, key="a")
    given = run(both.watermark(40), fixed(dm.Repeatedly(FLUSH)))
    assert given.brief == [(1, "EARLY"), (2, "EARLY"), (8, "ON_TIME"), (4, "ON_TIME")]
    assert [pane.info.trigger for pane in given.panes] == [repr(dm.Repeatedly(FLUSH))] * 2 + [None] * 2


def test_the_trigger_machine_knows_the_names_of_its_signals() -> None:
    tree = dm.AfterWatermark(early=dm.AfterAny(FLUSH, dm.AfterSignal("stop")), late=FLUSH)
    assert TriggerMachine(tree).signals == {"flush", "stop"}


@pytest.mark.parametrize("name", ["", 5, None])
def test_the_name_of_a_signal_must_be_text(name: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match="`name` must"):
        dm.AfterSignal(name)


# Percentiles.


def test_a_percentile_passes_the_window_before_the_low_watermark() -> None:
    both = dm.AfterEach(MOST, dm.AfterWatermark())
    assert fires_at(both, "e 1@1, w 5, w90 9, w90 10, w90 12, w 10, e 2@1") == ["w90 10", "w 10"]


def test_a_low_watermark_past_the_end_advances_the_percentiles() -> None:
    assert fires_at(MOST, "e 1@1, w90 5, w 10") == ["w 10"]


def test_the_low_watermark_alone_does_not_fire_a_percentile_that_is_ahead() -> None:
    assert fires_at(dm.AfterEach(MOST, MOST), "e 1@1, w90 12, w 10, e 2@1") == ["w90 12", "e 2@1"]


def test_a_turn_that_begins_behind_its_percentile_fires_at_the_next_element() -> None:
    assert fires_at(MOST, "w90 10, e 1@1") == ["e 1@1"]


def test_each_percentile_fires_by_its_own_watermark() -> None:
    each = dm.AfterEach(dm.AfterWatermark(percentile=50), MOST)
    assert TriggerMachine(each).percentiles == (50.0, 90.0)
    assert fires_at(each, "e 1@1, w50 10, w50 20, w90 10") == ["w50 10", "w90 10"]


def test_a_percentile_trigger_restarts_if_the_merged_window_ends_ahead_of_its_watermark() -> None:
    whole = merged(MOST, [((0, 10), "e 1@1, w90 12"), ((5, 15), "e 2@6, w90 12")])
    assert whole.play("e 3@1, w90 14, w90 15") == ["w90 15"]


def test_a_percentile_trigger_stays_finished_if_the_merged_window_ends_behind_its_watermark() -> None:
    assert merged(MOST, [((0, 10), "e 1@1, w90 20"), ((5, 15), "e 2@6, w90 20")]).finished


def test_in_a_pipeline_the_pane_of_a_percentile_is_early_and_that_of_the_low_watermark_on_time() -> None:
    most_then_all = fixed(dm.AfterEach(MOST, dm.AfterWatermark(late=dm.AfterCount(1))), lateness=20)
    script = TestStream().add(1, 1, key="a").watermark(3).watermark(12, percentile=90).add(2, 2, key="a")
    given = run(script.watermark(10).add(4, 3, key="a").watermark(40), most_then_all)
    assert given.brief == [(1, "EARLY"), (2, "ON_TIME"), (4, "LATE")]


def test_a_percentile_trigger_alone_requires_may_lose_data() -> None:
    windowing = dm.Window.into(dm.FixedWindows(10))
    with pytest.raises(dm.InvalidArgument, match="may_lose_data"):
        _ = windowing.trigger(MOST).strategy
    assert windowing.trigger(MOST, may_lose_data=True).strategy.trigger == MOST
    each = dm.AfterEach(MOST, dm.AfterWatermark())
    assert windowing.trigger(each).strategy.trigger == each


def test_early_and_late_are_refused_with_a_percentile() -> None:
    with pytest.raises(
        dm.InvalidArgument, match="`early` and `late` require `percentile` 100, the low watermark, got 90"
    ):
        dm.AfterWatermark(early=dm.AfterCount(1), percentile=90)


@pytest.mark.parametrize("percentile", [0, -1, 100.5, float("nan")])
def test_a_percentile_is_above_0_and_up_to_100(percentile: float) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`percentile` must be in \(0, 100\]"):
        dm.AfterWatermark(percentile=percentile)


def test_the_next_due_timer_is_known_for_each_percentile() -> None:
    play = Play(dm.AfterAny(MOST, dm.AfterWatermark(), dm.AfterProcessingTime(3)))
    play.play("e 1@1")
    assert play.state.next_due(dm.TimeDomain.EVENT_TIME) == 10_000_000
    assert play.state.next_due(dm.TimeDomain.EVENT_TIME, 90.0) == 10_000_000
    assert play.state.next_due(dm.TimeDomain.EVENT_TIME, 50.0) is None
    assert play.state.next_due(dm.TimeDomain.PROCESSING_TIME) == 3_000_000
    assert not play.machine.is_overdue(play.state)
