"""What triggers make of windows that merge: sessions with a gap of ten seconds."""

from __future__ import annotations

import dataflow_model as dm
from tests.support.scripting import run, sessions

COUNT = dm.AfterCount
DELAY = dm.AfterProcessingTime
# Two sessions, [0, 10) and [15, 25); an element at 8 makes one of them, [0, 25).
APART = "e 1@0, e 2@15"


def test_the_proto_window_of_the_arriving_element_is_not_a_source_of_a_merge() -> None:
    # If it were, the finished count would be unfinished in one source, and the window would fire again.
    given = run("e 1@0, e 2@4, e 4@8", sessions(COUNT(1)))
    assert given.values == [1]
    assert given.counters["dropped_because_closed"] == 2


def test_counts_of_merging_windows_add_up() -> None:
    given = run("e 1@0, e 2@15, e 4@8, e 8@9", sessions(dm.Repeatedly(COUNT(3))))
    assert given.brief == [(7, "EARLY"), (8, "ON_TIME")]


def test_a_finished_count_adds_nothing_in_a_merge() -> None:
    given = run("e 1@0+2@0, e 4@15, e 8@8, e 16@8", sessions(COUNT(2)))
    assert given.values == [3, 12]  # 4 and 8 are two; the count that had fired is not in them
    assert given.panes[1].info.index == 0


def test_delays_of_merging_windows_keep_the_earliest_deadline() -> None:
    given = run("e 1@15, p 2, e 2@0, p 3, e 4@8, p 20", sessions(dm.Repeatedly(DELAY(5))))
    assert given.values == [7]
    assert given.clocks == [5]
    given = run("e 1@15, p 2, e 2@0, p 3, e 4@8, p 4, e 8@20, p 20", sessions(dm.Repeatedly(DELAY(5))))
    assert given.values == [15]
    assert given.clocks == [5]


def test_after_watermark_restarts_if_the_merged_window_ends_ahead_of_the_watermark() -> None:
    given = run("e 1@0, w 10, e 2@9, w 19", sessions(dm.AfterWatermark(), lateness=20))
    assert given.brief == [(1, "ON_TIME"), (2, "LATE")]
    assert [pane.info.index for pane in given.panes] == [0, 0]
    assert [int(pane.window.end) / 1e6 for pane in given.panes] == [10, 19]


def test_after_watermark_stays_finished_if_the_merged_window_ends_behind_the_watermark() -> None:
    given = run("e 1@0, w 30, e 2@9", sessions(dm.AfterWatermark(), lateness=40))
    assert given.brief == [(1, "ON_TIME")]
    assert given.counters["dropped_because_closed"] == 1


def test_after_each_resumes_at_the_first_child_that_is_unfinished_in_the_merged_window() -> None:
    # [0, 10) is at its second child, [15, 25) at its first: the merged window needs two, then three.
    given = run("e 1@0+2@0+4@0, e 8@15, e 16@8, e 32@8+64@8+128@8", sessions(dm.AfterEach(COUNT(2), COUNT(3))))
    assert given.values == [3, 28, 224]


def test_early_panes_start_again_if_after_watermark_restarts_in_a_merge() -> None:
    trigger = dm.AfterWatermark(early=COUNT(1), late=COUNT(1))
    given = run("e 1@0, w 10, e 2@9, w 19, e 4@3", sessions(trigger, lateness=20).accumulating())
    assert given.brief == [(1, "EARLY"), (1, "ON_TIME"), (3, "EARLY"), (3, "LATE"), (7, "LATE")]


def test_a_child_of_after_any_is_finished_only_if_it_is_finished_in_every_source() -> None:
    # [0, 10) has finished, [15, 25) not: the merged window has not.
    given = run("e 1@0+2@0, e 4@15, e 8@8, e 16@8", sessions(dm.AfterAny(COUNT(2), COUNT(9))))
    assert given.values == [3, 12]


def test_a_source_with_a_finished_trigger_contributes_only_its_finished_children() -> None:
    # [0, 10) has finished by its delay, [15, 25) by its count: neither speaks against the other's finish.
    trigger = dm.AfterAny(COUNT(2), DELAY(5))
    given = run("e 1@0, p 6, e 2@15+4@15, e 8@8", sessions(trigger))
    assert given.values == [1, 6]
    assert given.counters["dropped_because_closed"] == 1


def test_unfinished_children_of_a_source_with_a_finished_trigger_contribute_no_counts() -> None:
    # [0, 10) has counted two for the second child; only the one of [15, 25) and the arriving element count.
    trigger = dm.AfterAny(dm.AfterEach(COUNT(1), COUNT(1)), dm.Repeatedly(COUNT(3)))
    given = run("e 1@0+2@0, e 4@15, e 8@8, e 16@8", sessions(trigger).accumulating())
    assert given.values == [1, 3, 4, 15]


def test_conditions_of_after_all_met_in_any_source_are_met_in_the_merged_window() -> None:
    # [0, 10) has its count, [15, 25) its delay.
    given = run("e 1@15, p 4, e 2@0+4@0, p 6, e 8@8", sessions(dm.AfterAll(COUNT(2), DELAY(5))))
    assert given.brief == [(15, "EARLY")]
    assert given.clocks == [6]


def test_a_window_that_only_grows_is_a_new_window() -> None:
    given = run("e 1@0, e 2@5, e 4@3", sessions(dm.Repeatedly(COUNT(1))).accumulating())
    assert given.values == [1, 3, 7]
    assert [pane.info.index for pane in given.panes] == [0, 0, 1]
    assert [pane.info.is_first for pane in given.panes] == [True, True, False]


def test_a_merged_window_emits_pending_elements_of_its_sources() -> None:
    given = run(f"{APART}, e 4@8, w 25", sessions())
    assert given.brief == [(7, "ON_TIME")]


def test_a_merged_window_has_no_second_on_time_pane() -> None:
    given = run("e 1@0, w 10, e 2@9, w 19", sessions(lateness=30).accumulating())
    assert given.brief == [(1, "ON_TIME"), (3, "LATE")]
    assert [pane.info.on_time_index for pane in given.panes] == [0, 0]


def test_a_late_element_is_judged_by_its_proto_window_before_merging() -> None:
    # At 20 the proto-window [5, 15) has expired, although the session [0, 25) that it would join has not.
    given = run("e 1@0, e 2@8, e 4@15, w 20, e 8@5, e 16@11", sessions())
    assert given.brief == [(23, "ON_TIME")]
    assert given.counters["dropped_because_late"] == 1
