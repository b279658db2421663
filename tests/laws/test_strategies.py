"""The public hypothesis strategies: what they draw is valid, and every kind comes up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import Phase, find, given, settings

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, WatermarkStep
from dataflow_model.testing import TestStream, strategies
from dataflow_model.triggers import OrFinally

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy


# Whether something is drawn at all: shrinking it would take most of the time.
DRAWS = settings(max_examples=2_000, phases=[Phase.generate], database=None)


def depth(trigger: Any) -> int:
    """Return how many levels a tree has, as it is written."""
    values = attrs.asdict(trigger, recurse=False).values()
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return 1 + max((depth(part) for part in parts if isinstance(part, dm.Trigger)), default=0)


@given(strategies.triggers(max_depth=2))
def test_drawn_trigger_trees_are_no_deeper_than_requested(trigger: dm.Trigger) -> None:
    assert depth(trigger) <= 2


@pytest.mark.parametrize(
    "kind",
    [
        dm.AfterWatermark,
        dm.AfterProcessingTime,
        dm.AfterCount,
        dm.DefaultTrigger,
        dm.Repeatedly,
        dm.AfterEach,
        dm.AfterAny,
        dm.AfterAll,
        OrFinally,
        dm.AfterEventTime,
        dm.AtPeriod,
        dm.AfterBytes,
        dm.AfterPunctuation,
        dm.AfterSignal,
        dm.DataTrigger,
        dm.Always,
        dm.Never,
        dm.RepeatCount,
        dm.RepeatUntil,
    ],
)
def test_the_strategy_of_triggers_draws_every_trigger(kind: type) -> None:
    assert isinstance(find(strategies.triggers(), lambda trigger: isinstance(trigger, kind), settings=DRAWS), kind)


@pytest.mark.parametrize(
    "kind", [dm.FixedWindows, dm.SlidingWindows, dm.Sessions, dm.GlobalWindows, dm.CalendarWindows]
)
def test_the_strategy_of_window_functions_draws_every_one(kind: type) -> None:
    assert isinstance(find(strategies.window_fns(), lambda fn: isinstance(fn, kind), settings=DRAWS), kind)


@given(strategies.window_fns(merging=True), strategies.window_fns(merging=False))
def test_the_strategy_of_window_functions_can_be_restricted_to_merging_ones(
    merging: dm.WindowFn, other: dm.WindowFn
) -> None:
    assert merging.is_merging
    assert not other.is_merging


@given(strategies.windows())
def test_drawn_windows_end_after_they_start(window: Any) -> None:
    assert window.start <= window.max_timestamp < window.end


@given(strategies.windowing_strategies())
def test_drawn_windowing_strategies_are_valid(strategy: WindowingStrategy) -> None:
    assert strategy.may_lose_data


@given(strategies.test_streams(late=False))
def test_drawn_scripts_without_late_elements_have_none(script: TestStream) -> None:
    watermark = int(dm.MIN_TIMESTAMP)
    for step in script.steps:
        match step:
            case WatermarkStep():
                watermark = int(step.watermark)
            case AddStep():
                assert all(int(at) >= watermark for _, at in step.elements)
            case _:
                pass


@given(strategies.test_streams())
def test_the_sum_of_any_elements_of_a_script_identifies_them(script: TestStream) -> None:
    values = [value for step in script.steps if isinstance(step, AddStep) for (_, value), _ in step.elements]
    assert values == [2**number for number in range(len(values))]
