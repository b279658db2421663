"""When panes are emitted: by count, by the clock, by a signal, and at a percentile of the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

SCRIPT = (
    TestStream()
    .processing_time(1)
    .add(1, 5, key="a")
    .watermark(8, percentile=50)
    .processing_time(4)
    .add(2, 6, key="a")
    .signal("now")
    .watermark(10, percentile=50)
    .add(4, 7, key="a")
    .watermark(10)
)
ON_TIME = "a=4 on time, #1, last"


@pytest.mark.parametrize(
    ("early", "panes"),
    [
        (dm.AfterCount(2), ["a=3 early, #0", ON_TIME]),
        (dm.AfterProcessingTime(2), ["a=1 early, #0", "a=6 on time, #1, last"]),
        (dm.AfterSignal("now"), ["a=3 early, #0", ON_TIME]),
        (dm.AfterWatermark(percentile=50), ["a=3 early, #0", "a=4 early, #1", "a=0 on time, #2, last"]),
    ],
)
def test_early_panes_are_emitted_when_their_trigger_fires(clocked: OnHost, early: dm.Trigger, panes: list[str]) -> None:
    def build(p: dm.Pipeline) -> None:
        windowing = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=early))
        _ = p | "script" >> SCRIPT | windowing | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    clocked.emits(build, panes)


def test_the_processing_time_of_a_pane_is_when_its_trigger_was_due(clocked: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        windowing = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=dm.AfterProcessingTime(2)))
        _ = p | "script" >> SCRIPT | windowing | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    assert [int(record.processing_time) for record in records] == [3_000_000, 4_000_000]


@pytest.mark.parametrize(
    ("combine", "value"),
    [(dm.Sum(), 7), (dm.Count(), 3), (dm.Max(), 4), (dm.Mean(), 7 / 3), (dm.Top(2), [4, 2]), (max, 4)],
    ids=["Sum", "Count", "Max", "Mean", "Top", "max"],
)
def test_each_combiner_gives_the_expected_result_on_every_host(host: OnHost, combine: Any, value: Any) -> None:
    def build(p: dm.Pipeline) -> None:
        windowed = p | "script" >> SCRIPT | dm.Window.into(dm.FixedWindows(10))
        _ = windowed | "combined" >> dm.CombinePerKey(combine) | "panes" >> dm.io.Collect()

    host.emits(build, [f"a={value} on time, #0, last"], [f"a={value}"])
