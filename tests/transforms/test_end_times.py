"""What `run()` warns about: windows of event time after a grouping in the global window."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.pipelines import plan_warnings

BACK = dm.MAX_TIMESTAMP - dm.event_time(0)
DAYS = dm.Window.into(dm.CalendarWindows.days())
SCRIPT = TestStream().add("a", "2013-01-01T10:00Z").add("a", "2013-01-01T11:00Z").add("b", "2013-01-02T10:00Z")


@attrs.frozen
class ByElement(dm.WindowFn):
    def assign(self, event_time: Any, element: Any) -> Any:
        del event_time
        return dm.FixedWindows("1 day").assign(dm.event_time(len(element)), element)


def warned(*transforms: Any) -> list[str]:
    """Return the warnings of a run with these transforms, one after the other."""
    p = dm.Pipeline()
    pcoll: Any = p | SCRIPT
    for index, transform in enumerate(transforms):
        pcoll = pcoll | f"step {index}" >> transform
    _ = pcoll | dm.io.Collect()
    return plan_warnings(p)


def test_windows_assigned_to_panes_at_the_end_of_time_are_warned_about_with_a_way_out() -> None:
    (message,) = warned(dm.WithKeys(lambda x: x), dm.GroupByKey(), DAYS)
    assert message == (
        "'step 2' assigns windows by event time to the panes of 'step 1', but these all have the end of time as their "
        "event time, since that grouping is in the global window\n"
        "Hint: put Window.into before 'step 1', or Window.into(dm.GlobalWindows()).timestamp_combiner('earliest'), "
        "which keeps event times"
    )


@pytest.mark.parametrize(
    "between",
    [
        [],
        [dm.WithKeys(lambda x: x), dm.Keys()],
        [dm.Filter(lambda x: x != "b")],
        [dm.Map(str), dm.FlatMap(str.split), dm.MapTuple(lambda letter: letter)],
        [dm.Reshuffle(), dm.Window.trigger(dm.AfterWatermark())],
    ],
)
@pytest.mark.parametrize(
    "windowing", [DAYS, dm.Window.into(dm.Sessions(60)), dm.Window.into(dm.SlidingWindows(60, 30))]
)
def test_transforms_that_keep_event_times_do_not_hide_the_grouping(between: list[Any], windowing: Any) -> None:
    assert len(warned(dm.Distinct(), *between, windowing)) == 1


@pytest.mark.parametrize(
    "transforms",
    [
        [DAYS, dm.Distinct(), DAYS],
        [DAYS, dm.Distinct()],
        [dm.Distinct(), dm.Window.into(dm.GlobalWindows())],
        [dm.Distinct(), dm.Window.trigger(dm.AfterWatermark())],
        [dm.Distinct(), dm.WithTimestamps(lambda _: 5, late_data_horizon=BACK), DAYS],
        [dm.Distinct(), dm.Map(lambda x: dm.TimestampedValue(x, 5)).late_data_horizon(BACK), DAYS],
        [dm.Window.into(dm.GlobalWindows()).timestamp_combiner("earliest"), dm.Distinct(), DAYS],
        [dm.Distinct(), dm.Window.into(ByElement())],
        [dm.Deduplicate(lambda x: x, horizon="1 day"), DAYS],
    ],
)
def test_windows_of_other_event_times_are_not_warned_about(transforms: list[Any]) -> None:
    assert warned(*transforms) == []


def test_windows_assigned_to_panes_at_the_end_of_time_indeed_lose_the_event_times() -> None:
    with pytest.warns(dm.PlanWarning, match="the end of time"), dm.Pipeline() as p:
        _ = p | SCRIPT | dm.Distinct() | DAYS | dm.Count.per_element() | "out" >> dm.io.Collect()
    assert p.result is not None
    assert len({record.window for record in p.result.collected("out")}) == 1
