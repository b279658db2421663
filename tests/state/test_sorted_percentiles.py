"""What `run()` warns about: sorted input after a trigger that does not wait for the low watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.pipelines import plan_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sorted(dm.DoFn):
    requires_time_sorted_input = True

    def process(self, pair: Any) -> Iterator[Any]:
        yield pair


class Plain(dm.DoFn):
    count = dm.ValueStateSpec[int](default=0)

    def process(self, pair: Any, count: dm.ValueState[int]) -> Iterator[Any]:
        count.write(1)
        yield pair


MOST = dm.AfterWatermark(percentile=90)


def warned(trigger: dm.Trigger, fn: dm.DoFn, *between: Any) -> list[str]:
    p = dm.Pipeline()
    windows = dm.Window.into(dm.FixedWindows(60)).trigger(trigger, may_lose_data=True)
    pcoll: Any = p | dm.Create([("a", 1)]) | windows | "sums" >> dm.Sum.per_key()
    for index, transform in enumerate(between):
        pcoll = pcoll | f"step {index}" >> transform
    _ = pcoll | "sorted" >> dm.ParDo(fn)
    return plan_warnings(p)


@pytest.mark.parametrize("trigger", [MOST, dm.Repeatedly(dm.AfterAny(MOST, dm.AfterCount(100)))])
@pytest.mark.parametrize("between", [[], [dm.Reshuffle()], [dm.Map(lambda pair: pair), dm.ParDo(Plain())]])
def test_sorted_input_after_a_percentile_is_warned_about_with_both_labels(trigger: dm.Trigger, between: Any) -> None:
    [message] = warned(trigger, Sorted(), *between)
    assert message.startswith("'sorted' requires sorted input, which waits for the low watermark")
    assert f"the trigger of 'sums', {trigger!r}, which fires at percentile 90" in message
    assert "\nHint: leave requires_time_sorted_input out" in message


def test_no_warning_if_nothing_is_sorted_or_the_grouping_waits_for_the_low_watermark_too() -> None:
    assert warned(MOST, Plain()) == []
    assert warned(dm.AfterWatermark(), Sorted()) == []
    assert warned(MOST, Sorted(), dm.Sum.per_key()) == []
