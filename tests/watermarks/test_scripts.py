"""Scripts with percentiles of the watermark and signals, and rounds, on LocalRunner."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of, run_script
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.watermarks.scripts import DAY, FIGURES, FIXED, paper_script

EACH = frozenset(range(1, 100))


def values(script: TestStream, windowing: dm.WindowInto, **options: Any) -> list[tuple[int, str]]:
    """Return the value and timing of each pane of a sum."""
    return [(pane.value, pane.info.timing.name) for pane in run_script(script, windowing, dm.Sum(), **options)]


def test_a_trigger_waits_for_its_percentile_and_the_low_watermark_decides_what_is_on_time() -> None:
    steps = ["e 5@12:00:26", "w90 12:02:00", "e 7@12:01:00", "w 12:02:00", "e 1@12:01:30"]
    trigger = dm.AfterEach(dm.AfterWatermark(percentile=90), dm.Repeatedly(dm.AfterWatermark()))
    windowing = FIXED.trigger(trigger).accumulating().allowed_lateness("1 hour")
    panes = values(TestStream.parse(steps, day=DAY, key="k"), windowing)
    assert panes == [(5, "EARLY"), (12, "ON_TIME"), (13, "LATE")]


def test_the_low_watermark_advances_every_percentile() -> None:
    steps = ["e 5@12:00:26", "w 12:02:00"]
    windowing = FIXED.trigger(dm.AfterWatermark(percentile=90), may_lose_data=True)
    assert values(TestStream.parse(steps, day=DAY, key="k"), windowing) == [(5, "ON_TIME")]


def test_a_percentile_advances_the_lower_percentiles_but_not_the_higher_ones() -> None:
    steps = ["e 5@12:00:26", "w50 12:02:00", "e 7@12:00:27", "w90 12:02:00", "e 9@12:00:28"]
    trigger = dm.AfterWatermark(percentile=80)
    script = TestStream.parse(steps, day=DAY, key="k")
    assert values(script, FIXED.trigger(trigger, may_lose_data=True)) == [(12, "EARLY")]


def test_percentiles_are_propagated_through_every_stage() -> None:
    trigger = dm.AfterEach(dm.AfterWatermark(percentile=90), dm.Repeatedly(dm.AfterWatermark()))
    windowing = FIXED.trigger(trigger).allowed_lateness("1 hour")
    steps = ["e 5@12:00:26", "w90 12:02:00", "e 7@12:01:00", "w 12:02:00"]
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    sums = pipeline | TestStream.parse(steps, day=DAY, key="k") | windowing | "first" >> dm.Sum.per_key()
    _ = sums | dm.Window.trigger(trigger) | "second" >> dm.Max.per_key() | "kept" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    emitted = [(pane.value, pane.info.timing.name) for pane in panes_of(result.collected("kept"))]
    assert emitted == [(5, "EARLY"), (7, "ON_TIME")]


@pytest.mark.parametrize(
    ("runner", "cut"),
    [(dm.LocalRunner(), False), (MicroBatchRunner(Schedule(shards=2, cuts=(1,), restarts=EACH)), True)],
)
def test_percentiles_are_propagated_through_a_function_with_a_changing_side_input(runner: Any, *, cut: bool) -> None:
    p = dm.Pipeline(runner=runner)
    script = TestStream().watermark(0).add(1, 1, key="k").add(2, 12, key="k").watermark(40, percentile=90)
    script = script.processing_time(7).watermark(15)
    numbers = p | "numbers" >> script | dm.Window.into(dm.FixedWindows(10))
    side_script = TestStream().add(1, 0, key="s").watermark(10).processing_time(4).watermark(1000)
    side = p | "side" >> side_script | "side windows" >> dm.Window.into(dm.FixedWindows(10))
    looked_up: Any = numbers | dm.Map(lambda pair, side: pair if side is not None else None, side=dm.AsList(side))
    trigger = dm.AfterEach(dm.AfterWatermark(percentile=90), dm.Repeatedly(dm.AfterWatermark()))
    again = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).accumulating()
    _ = looked_up | "again" >> again | dm.Sum.per_key() | "panes" >> dm.io.Collect()
    result = p.run(until="drained")
    result.wait_until_finish()
    panes = [(r.value[1], r.pane.timing.name, int(r.processing_time)) for r in result.collected("panes")]
    # The second element waits for the side input, and holds every percentile back.
    assert panes == [(1, "EARLY", 0), (2, "EARLY", 4_000_000), (1, "ON_TIME", 7_000_000), (2, "ON_TIME", 7_000_000)]


@pytest.mark.parametrize(
    "steps",
    [
        ["w90 12:02:00", "w90 12:01:00"],
        ["w 12:02:00", "w90 12:01:00"],
        ["w95 12:02:00", "w90 12:01:00"],
        ["w90 12:00:00", "w90 12:02:00", "w 12:00:00", "w50 12:02:00", "w95 12:01:00", "w90 12:01:30"],
    ],
)
def test_a_percentile_never_goes_back_nor_behind_a_higher_one(steps: list[str]) -> None:
    with pytest.raises(dm.InvalidArgument, match="percentile 90 of a script cannot go backward"):
        TestStream.parse(steps, day=DAY)


def test_a_script_may_set_a_higher_percentile_behind_a_lower_one() -> None:
    assert len(TestStream.parse(["w50 12:02:00", "w90 12:01:00", "w 12:00:00"], day=DAY).steps) == 3


def test_a_signal_fires_the_windows_that_wait_for_it() -> None:
    steps = ["e 5@12:00:26", "s flush", "e 7@12:01:00", "e 3@12:02:30", "s other", "s flush", "s flush", "w +inf"]
    windowing = FIXED.trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding().on_time("fire_if_non_empty")
    panes = values(TestStream.parse(steps, day=DAY, key="k"), windowing)
    assert panes == [(5, "EARLY"), (7, "EARLY"), (3, "EARLY")]


def test_a_running_pipeline_can_receive_a_signal() -> None:
    given, taken = threading.Event(), threading.Event()

    def pass_on(pair: Any) -> Any:
        if pair[1] == 2:  # the second element waits until the signal has been given
            taken.set()
            assert given.wait(30)
        return pair

    windowing = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding()
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    script = TestStream().add(1, event_time=0, key="k").add(2, event_time=0, key="k").add(4, event_time=0, key="k")
    _ = pipeline | script | dm.Map(pass_on) | windowing | dm.Sum.per_key() | "kept" >> dm.io.Collect()
    result = pipeline.run()
    assert taken.wait(30)
    result.signal("flush")
    given.set()
    result.wait_until_finish()
    # It takes effect before the second element, which is the next thing to happen.
    assert [record.value[1] for record in result.collected("kept")] == [1, 6]


def test_a_signal_that_no_trigger_waits_for_is_refused() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    windowing = FIXED.trigger(dm.Repeatedly(dm.AfterSignal("flush")))
    _ = pipeline | dm.Create([("k", 1)]) | windowing | dm.Sum.per_key()
    result = pipeline.run()
    result.wait_until_finish()
    with pytest.raises(dm.InvalidArgument, match="waits for the signal 'flash'\nHint: the signals are flush"):
        result.signal("flash")


def test_micro_batch_mode_with_an_interval_of_a_minute_emits_changed_windows_as_in_figure_6g() -> None:
    runner = dm.LocalRunner(mode="microbatch", interval="1 minute")
    panes = run_script(paper_script(), FIXED, dm.Sum(), runner)
    expected = FIGURES["figures"]["6G_fixed_2m_micro_batch_1m"]
    for index in range(4):
        start = dm.event_time(f"{DAY}T12:0{2 * index}:00Z")
        of_window = [pane for pane in panes if pane.window.start == start]
        assert [pane.value for pane in of_window] == expected[f"w{index}"]
        assert {pane.info.timing.name for pane in of_window} == {"EARLY"}
        assert all(int(pane.processing_time) % 60_000_000 == 0 for pane in of_window)


def test_the_last_micro_batch_is_at_the_end_of_the_input() -> None:
    script = (
        TestStream().processing_time(10).add(1, event_time=0, key="k").processing_time(70).add(2, event_time=0, key="k")
    )
    runner = dm.LocalRunner(mode="microbatch", interval="1 minute")
    panes = run_script(script, FIXED, dm.Sum(), runner)
    assert [(pane.value, int(pane.processing_time) // 10**6) for pane in panes] == [(1, 60), (3, 70)]
    assert panes[-1].info.is_last


def test_a_micro_batch_has_the_last_instant_of_its_interval() -> None:
    script = (
        TestStream().processing_time(60).add(1, event_time=0, key="k").processing_time(61).add(2, event_time=0, key="k")
    )
    runner = dm.LocalRunner(mode="microbatch", interval="1 minute")
    assert [pane.value for pane in run_script(script, FIXED, dm.Sum(), runner)] == [1, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "microbatch"}, "needs `interval`"),
        ({"mode": "microbatch", "interval": 0}, "must be positive"),
        ({"interval": "1 minute"}, "applies only to mode='microbatch'"),
        ({"mode": "batch"}, "must be 'streaming' or 'microbatch'"),
    ],
)
def test_micro_batch_mode_and_the_interval_require_each_other(options: dict[str, Any], said: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=said):
        dm.LocalRunner(**options)
