"""A watermark never passes pending work, through two groupings: what is still to come is not behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

import dataflow_model as dm
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.testing import TestStream
from dataflow_model.testing.strategies import PERCENTILES, SIGNALS, test_streams, windowing_strategies

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

scripts = test_streams(signals=SIGNALS, percentiles=PERCENTILES)
# An element that comes behind the watermark takes a pane at its own event time there with it.
punctual = test_streams(late=False, signals=SIGNALS, percentiles=PERCENTILES)

# A pane that has accumulated keeps the event time of elements which are out already, so that refinement and retraction
# land in one place; these hold nothing any more, and the watermark may have passed them.
held = windowing_strategies().filter(
    lambda windowing: (
        windowing.timestamp_combiner is dm.TimestampCombiner.END_OF_WINDOW
        or windowing.accumulation_mode is dm.AccumulationMode.CLEAR_ALWAYS
    )
)


def executed(script: TestStream, windowing: WindowingStrategy) -> Execution:
    """Return two groupings over a script, ready to run."""
    pipeline = dm.Pipeline()
    sums = pipeline | "script" >> script | dm.Window.into(windowing) | "first" >> dm.Sum.per_key()
    _ = sums | "after first" >> dm.io.Collect()
    _ = sums | "second" >> dm.Max.per_key() | "after second" >> dm.io.Collect()
    return Execution.of(pipeline.plan(), most=1)


def low_watermarks(execution: Execution) -> dict[str, int]:
    """Return how far the low watermark of each producer has come."""
    return {label: watermarks.low for label, watermarks in execution.watermarks.items()}


@given(punctual, held)
def test_a_pane_that_is_not_late_is_never_behind_the_watermark(
    script: TestStream, windowing: WindowingStrategy
) -> None:
    execution = executed(script, windowing)
    before: dict[str, int] = {}
    for reached in execution.run():
        for label in ("first", "second"):
            for record in reached.get(f"after {label}", ()):
                if record.pane.timing is not dm.PaneTiming.LATE and not record.is_retraction:
                    assert int(record.event_time) >= before.get(label, int(record.event_time))
        before = low_watermarks(execution)


@given(scripts, windowing_strategies())
def test_the_watermarks_of_every_stage_are_monotone_and_end_at_infinity(
    script: TestStream, windowing: WindowingStrategy
) -> None:
    execution = executed(script, windowing)
    before: dict[str, int] = {}
    for _ in execution.run():
        now = low_watermarks(execution)
        assert all(now[label] >= watermark for label, watermark in before.items())
        watermarks = [now.get(label, int(dm.MIN_TIMESTAMP)) for label in ("second", "first", "script")]
        assert watermarks == sorted(watermarks)
        before = now
    assert set(low_watermarks(execution).values()) == {int(dm.MAX_TIMESTAMP)}


def held_at(script: TestStream, windowing: dm.WindowInto) -> list[float]:
    """Return where the watermark behind the first grouping is after each step once it is known, in seconds."""
    execution = executed(script, windowing.strategy)
    lows = [low_watermarks(execution)["first"] for _ in execution.run()]
    return [low / 1e6 for low in lows if low > int(dm.MIN_TIMESTAMP)]


def test_values_that_a_pending_update_retracts_hold_the_watermark_without_a_merge() -> None:
    script = TestStream().add(1, 5, key="k").add(2, 8, key="k").watermark(20)  # emitted at 5
    script = script.add(4, 50, key="k").watermark(30).watermark(60).add(8, 70, key="k")
    in_twos = (
        dm.Window.into(dm.FixedWindows(100)).trigger(dm.Repeatedly(dm.AfterCount(2))).timestamp_combiner("earliest")
    )
    assert held_at(script, in_twos.accumulating())[:5] == [20, 20, 30, 50, 60]
    assert held_at(script, in_twos.accumulating_and_retracting())[:5] == [20, 20, 20, 20, 60]


def test_a_reopened_window_does_not_hold_the_watermark() -> None:
    windowing = (
        dm.Window.into(dm.SlidingWindows(20, 10))
        .trigger(dm.Repeatedly(dm.AfterCount(2)))
        .timestamp_combiner("earliest")
        .late_data("duplicate_window")
    )
    # The 2 reopens [-10, 10), whose pane is at 9.999999; 1 holds the watermark at 5 until 4 arrives.
    script = TestStream().add(1, 5, key="j").watermark(10).add(2, 6, key="k").add(4, 12, key="j")
    assert held_at(script, windowing)[:3] == [5, 5, 10]
