"""Stateful DoFns that look at the watermark, and hold it."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.state.examples import CLOCK, result_of, values

BACK = dm.duration(3)


class Late(dm.DoFn):
    """Tells of what comes whether it is late."""

    watermark = dm.WatermarkSpec()

    def process(self, pair: Any, watermark: dm.Watermark, timestamp: dm.EventTime) -> Any:
        yield pair[1], timestamp < watermark.read()


class Back(dm.DoFn):
    """Gives each value ten seconds on by the clock, three seconds before it stood."""

    late_data_horizon = BACK
    values = dm.BagStateSpec[Any]()
    later = dm.TimerSpec(CLOCK)

    def process(self, pair: Any, values: dm.BagState[Any], later: dm.Timer, timestamp: dm.EventTime) -> None:
        values.add(pair[1])
        later.set_after(10, output_timestamp=timestamp - BACK)

    @dm.on_timer(later)
    def give(self, key: Any, values: dm.BagState[Any]) -> Any:
        yield from ((key, value) for value in values.read())


def test_output_of_a_timer_within_the_declared_horizon_is_on_time_downstream() -> None:
    script = TestStream().watermark(20).add("a", 21, key="k").watermark(40).processing_time(30)
    result = result_of(dm.ParDo(Back()), "late" >> dm.ParDo(Late()), script=script)
    assert [(record.value, int(record.event_time)) for record in result.collected("out")] == [
        (("a", False), 18_000_000)
    ]


def test_a_watermark_hold_remains_until_it_is_cleared() -> None:
    class Holder(dm.DoFn):
        since = dm.WatermarkHoldSpec()

        def process(self, pair: Any, since: dm.WatermarkHold, timestamp: dm.EventTime) -> Any:
            match pair[1]:
                case "hold":
                    since.set(min(timestamp, since.read() or timestamp))
                case "go":
                    since.clear()
            yield pair

    script = TestStream().add("hold", 5, key="k").watermark(20).add("hold", 30, key="k").add("see", 6, key="other")
    script = script.add("go", 31, key="k").add("see", 7, key="other")
    result = result_of(dm.ParDo(Holder()), "late" >> dm.ParDo(Late()), script=script)
    assert [late for value, late in values(result) if value == "see"] == [False, True]


def test_a_watermark_hold_before_its_element_is_refused() -> None:
    class Early(dm.DoFn):
        since = dm.WatermarkHoldSpec()

        def process(self, pair: Any, since: dm.WatermarkHold, timestamp: dm.EventTime) -> None:
            del pair
            since.set(timestamp - dm.duration(1))

    with pytest.raises(
        dm.UserCodeError,
        match=r"cannot be held at 1970-01-01T00:00:04Z, which is before the current input at 1970-01-01T00:00:05Z",
    ):
        result_of(dm.ParDo(Early()), script=TestStream().add("a", 5, key="k"))


def test_a_failed_element_leaves_no_watermark_hold() -> None:
    class Fails(dm.DoFn):
        since = dm.WatermarkHoldSpec()

        def process(self, pair: Any, since: dm.WatermarkHold, timestamp: dm.EventTime) -> Any:
            if pair[1] == "bad":
                since.set(timestamp)
                raise ValueError("bad")
            yield pair[1], since.read()

    pipeline = dm.Pipeline()
    good, bad = (
        pipeline
        | TestStream().add("bad", 5, key="k").add("good", 6, key="k")
        | dm.ParDo(Fails()).with_exception_handling()
    )
    _ = good | "good" >> dm.io.Collect(), bad | "bad" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("good")] == [("good", None)]
    assert len(result.collected("bad")) == 1


@pytest.mark.parametrize("percentile", [0, 100, 101])
def test_values_that_are_not_percentiles_are_refused(percentile: float) -> None:
    class Asks(Late):
        watermark_percentiles = (percentile,)

    with pytest.raises(
        dm.InvalidArgument, match=f"`watermark_percentiles` of Asks must lie between 0 and 100, got {percentile}"
    ):
        dm.ParDo(Asks())


def test_a_percentile_that_the_class_does_not_name_is_refused() -> None:
    class Asks(dm.DoFn):
        watermark_percentiles = (50,)
        watermark = dm.WatermarkSpec()

        def process(self, pair: Any, watermark: dm.Watermark) -> Any:
            yield int(watermark.read(50))
            yield watermark.read(pair[1])

    with pytest.raises(dm.UserCodeError, match=r"the watermark's percentile 95 is not available, only \[50, 100\]"):
        result_of(dm.ParDo(Asks()), script=TestStream().add(95, 5, key="k"))


def test_on_window_expiry_may_ask_for_neither_the_watermark_nor_a_hold() -> None:
    class Ends(Late):
        def on_window_expiry(self, watermark: dm.Watermark) -> Any:
            yield watermark.read()

    with pytest.raises(dm.InvalidArgument, match="has an unknown parameter 'watermark'"):
        dm.ParDo(Ends())
