"""Each trigger sees the events one by one, in order; ties between elements, watermarks and clock values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.scripting import fixed, run, script

if TYPE_CHECKING:
    from pathlib import Path

REPEATED_COUNT = dm.Repeatedly(dm.AfterCount(2))
REPEATED_DELAY = dm.Repeatedly(dm.AfterProcessingTime(5))
EARLY_AND_LATE = dm.AfterWatermark(early=dm.AfterProcessingTime(5), late=dm.AfterCount(1))


def test_five_elements_in_one_bundle_give_two_panes_of_two_and_leave_one() -> None:
    assert run("e 1@1+2@1+4@1+8@1+16@1", fixed(REPEATED_COUNT)).brief == [(3, "EARLY"), (12, "EARLY"), (16, "ON_TIME")]


def test_a_clock_value_past_several_deadlines_fires_a_window_once() -> None:
    trigger = dm.AfterAny(dm.Repeatedly(dm.AfterProcessingTime(5)), dm.Repeatedly(dm.AfterProcessingTime(7)))
    given = run("e 1@1, p 100, e 2@1, p 200", fixed(trigger))
    assert given.values == [1, 2]
    assert given.clocks == [5, 105]


def test_a_watermark_past_the_end_and_the_expiry_fires_a_window_once() -> None:
    given = run("e 1@1, w 100, e 2@1", fixed(EARLY_AND_LATE, lateness=20))
    assert given.brief == [(1, "ON_TIME")]
    assert given.panes[0].info.is_last
    assert given.counters["dropped_because_late"] == 1


def test_the_processing_time_of_a_pane_is_the_deadline_that_fired_it() -> None:
    assert run("p 3, e 1@1, p 100", fixed(REPEATED_DELAY)).clocks == [8]


def test_the_processing_time_of_a_pane_without_a_deadline_is_the_clock() -> None:
    assert run("p 3, e 1@1, p 6, w 10", fixed()).clocks == [6]
    assert run("p 3, e 1@1, p 6, e 2@1", fixed(REPEATED_COUNT)).clocks == [6]


def test_panes_of_one_clock_value_are_in_the_order_of_their_deadlines() -> None:
    given = run("e 1@11, p 2, e 2@1, p 100", fixed(REPEATED_DELAY))
    assert given.values == [1, 2]
    assert given.clocks == [5, 7]


def test_panes_are_ordered_by_the_deadline_that_fired_and_not_by_an_earlier_one_that_did_not() -> None:
    trigger = dm.AfterEach(dm.AfterAll(dm.AfterProcessingTime(1), dm.AfterProcessingTime(9)), dm.AfterCount(9))
    either = dm.AfterAny(trigger, dm.AfterAll(dm.AfterCount(2), dm.AfterProcessingTime(5)))
    given = run("e 1@1, p 0.5, e 2@11+4@11, p 100", fixed(either))
    assert given.values == [6, 1]
    assert given.clocks == [5.5, 9]


def test_an_element_at_a_deadline_precedes_the_timer() -> None:
    assert run("e 1@1, p 5, e 2@1, p 6", fixed(REPEATED_DELAY)).values == [3]


def test_timers_at_the_current_clock_value_fire_when_the_clock_advances() -> None:
    given = run("e 1@1, p 5, e 2@1, w 10, p 6, e 4@11", fixed(REPEATED_DELAY, lateness=20))
    assert given.brief == [(3, "ON_TIME"), (4, "ON_TIME")]
    assert given.clocks[0] == 5


def test_timers_at_the_current_clock_value_fire_after_the_last_event() -> None:
    assert run("e 1@1, p 5", fixed(REPEATED_DELAY)).brief == [(1, "EARLY")]


def test_a_watermark_precedes_the_timers_at_the_same_clock_value() -> None:
    given = run("e 1@1, p 5, w 10, p 6", fixed(EARLY_AND_LATE, lateness=20))
    assert given.brief == [(1, "ON_TIME")]


def test_a_trigger_timer_behind_the_watermark_fires_right_after_the_element_that_set_it() -> None:
    given = run("w 12, p 1, e 1@1, e 2@1", fixed(lateness=20))
    assert given.brief == [(1, "LATE"), (2, "LATE")]


def test_windows_fired_by_one_watermark_are_ordered_by_their_end() -> None:
    windowing = dm.Window.into(dm.SlidingWindows(20, 10))
    given = run("e 4@21, e 2@11, e 1@1, w 100", windowing)
    assert given.values == [1, 3, 6, 4]


def test_panes_fired_by_one_watermark_are_ordered_by_deadline_before_the_end_of_the_window() -> None:
    # At 30 the second window fires, due at 20, and the first one expires, due at 25.
    given = run("e 1@1, w 10, e 2@11, w 30", fixed(lateness=15).closing("fire_always"))
    assert given.brief == [(1, "ON_TIME"), (2, "ON_TIME"), (0, "LATE"), (0, "LATE")]
    assert [int(pane.window.end) / 1e6 for pane in given.panes] == [10, 20, 10, 20]


def test_windows_fired_by_one_watermark_are_ordered_by_end_then_key() -> None:
    stream = script("").add(1, 1, key="b").add(2, 11, key="a").add(4, 1, key="a").watermark(100)
    assert [(pane.key, pane.value) for pane in run(stream, fixed()).panes] == [("a", 4), ("b", 1), ("a", 2)]


@pytest.mark.parametrize("text", ["e 1@1, w 9", "e 1@1, w 9.999999"])
def test_a_watermark_just_before_the_end_does_not_pass_the_window(text: str) -> None:
    assert run(f"{text}, p 7", fixed()).clocks == [7]
    assert run("e 1@1, w 10, p 7", fixed()).clocks == [0]


# Two groupings ------------------------------------------------------------------------------------------------------


def twice(
    source: Any, first: dm.Trigger, second: dm.Trigger | None = None, runner: Any = None
) -> list[tuple[int, float]]:
    """Sum by key, then in all; return the value and the time of each pane of the second grouping."""
    windows = dm.Window.into(dm.FixedWindows(1_000)).trigger(dm.Repeatedly(first))
    with dm.Pipeline(runner=runner) as p:
        sums = (
            p | source | "pairs" >> dm.Map(lambda element: ("all", element[1])) | windows | "first" >> dm.Sum.per_key()
        )
        sums = sums if second is None else sums | "again" >> dm.Window.trigger(dm.Repeatedly(second))
        _ = sums | "second" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
    assert p.result is not None
    return [(record.value[1], int(record.processing_time) / 1e6) for record in p.result.collected("panes")]


@pytest.mark.parametrize("is_stream", [False, True], ids=["bounded", "stream"])
def test_panes_of_a_timer_reach_a_second_grouping_in_that_tick_or_in_a_script_at_the_next_step(
    tmp_path: Path, *, is_stream: bool
) -> None:
    seconds = [1, 11, 20]
    history = {"at": [0, 0, 0], "value": [1, 2, 4], "seen": [1_000_000 * second for second in seconds]}
    pq.write_table(pa.table(history), tmp_path / "history.parquet")
    recorded = dm.io.ReadParquet(str(tmp_path / "history.parquet"), event_time="at", processing_time="seen")
    written = TestStream()
    for second, value in zip(seconds, history["value"], strict=True):
        written = written.processing_time(second).add(value, 0, key="k")

    def runner(name: str) -> dm.LocalRunner:
        return dm.LocalRunner(checkpoint=str(tmp_path / name)) if is_stream else dm.LocalRunner()

    ten = dm.AfterProcessingTime(10)
    assert twice(recorded, ten, runner=runner("recorded")) == [(3, 11), (4, 20)]
    assert twice(written, ten, runner=runner("written")) == [(3, 20), (4, 20)]


def test_at_a_clock_value_timers_of_a_grouping_fire_before_panes_reach_it() -> None:
    two, ten = dm.AfterProcessingTime(2), dm.AfterProcessingTime(10)
    # The pane of 1 is due at 2 and arrives at 3, so the second stage is due at 13. The pane of 2 is due at 10.
    assert twice(script("e 1@0, p 3, p 8, e 2@0, p 20"), two, ten) == [(1, 13), (2, 20)]  # it arrives at 20
    assert twice(script("e 1@0, p 3, p 8, e 2@0, p 11, p 20"), two, ten) == [(3, 13)]  # it arrives at 11
