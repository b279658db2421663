"""The watermark's percentile that a function is told behind a grouping: a matter of the input, not of the shards."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule

KEYS = "abcdefgh"
TRIGGER = dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))


def script() -> TestStream:
    """Panes that are early, on time and late, while other keys hold the output watermark back."""
    steps = TestStream().watermark(4, percentile=50)
    for number, key in enumerate(KEYS):
        steps = steps.add(1 << number, number, key=key)
    steps = steps.watermark(9, percentile=50).watermark(6)
    for number, key in enumerate(KEYS):
        steps = steps.add(1 << number, 7 + number, key=key)
    return steps.watermark(12).add(3, 2, key="a").add(5, 11, key="b").watermark(30, percentile=90).add(7, 3, key="c")


def percentiles_of(runner: Any, combiner: Any) -> list[Any]:
    """Return key, value, timing, and what a function was told, in a fixed order."""
    p = dm.Pipeline(runner=runner)
    windows = dm.Window.into(dm.FixedWindows(10)).trigger(TRIGGER).allowed_lateness(60).timestamp_combiner(combiner)
    sums = p | script() | windows | dm.Sum.per_key()

    def tell(pair: Any, pane: dm.PaneInfo, watermark_percentile: float | None) -> Any:
        return (*pair, pane.timing.name, watermark_percentile)

    waiting = dm.Window.trigger(dm.Repeatedly(dm.AfterWatermark(percentile=90)), may_lose_data=True)
    _ = sums | "waiting" >> waiting | dm.CombinePerKey(dm.Sum()) | "rest" >> dm.io.Collect()
    _ = sums | dm.Map(tell) | "told" >> dm.io.Collect()
    result = p.run(until="drained")
    result.wait_until_finish()
    return sorted((record.value for record in result.collected("told")), key=repr)


@pytest.mark.parametrize("combiner", ["end_of_window", "earliest", "latest"])
def test_the_percentile_of_the_watermark_after_a_grouping_does_not_depend_on_shards(combiner: str) -> None:
    expected = percentiles_of(dm.LocalRunner(), combiner)
    assert {(timing == "LATE", percentile is None) for *_, timing, percentile in expected} == {
        (True, True),
        (False, False),
    }
    for shards in (1, 2, 3, 5):
        assert percentiles_of(MicroBatchRunner(Schedule(shards=shards, cuts=(3,))), combiner) == expected
