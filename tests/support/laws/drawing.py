"""The whole space of windowing strategies, retractions and the obedient modes included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import WatermarkStep
from dataflow_model.testing import TestStream, strategies

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

MODES: Final = [
    (dm.AccumulationMode.CLEAR_ALWAYS, False),
    (dm.AccumulationMode.CLEAR_BY_DEFAULT, False),
    (dm.AccumulationMode.ACCUMULATE_BY_DEFAULT, False),
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, False),
    (dm.AccumulationMode.ACCUMULATE_BY_DEFAULT, True),
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, True),
]
AT_THE_END_OF_TIME: Final = pytest.mark.filterwarnings(
    "ignore:.* have the end of time as their event time:dataflow_model.PlanWarning"
)
"""For drawn chains, in which a grouping in the global window may be before one in other windows."""
ENDLESS: Final = strategies.triggers(2).map(dm.Repeatedly)
"""Trees that never finish."""
BUSY: Final[st.SearchStrategy[dm.Trigger]] = st.sampled_from(
    [
        dm.Always(),
        dm.Repeatedly(dm.AfterCount(1)),
        dm.Repeatedly(dm.AfterCount(2)),
        dm.Repeatedly(dm.AfterProcessingTime(2)),
        dm.Repeatedly(dm.AfterAny(dm.AfterCount(2), dm.AfterSignal("go"))),
        dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1)),
        dm.Repeatedly(dm.AfterEach(dm.AfterCount(1), dm.AfterAll(dm.AfterCount(1), dm.AfterEventTime(3)))),
        dm.AfterEach(dm.AfterWatermark(percentile=90), dm.Repeatedly(dm.AfterCount(1))),
    ]
)
"""Trees that fire often, so that windows have several panes."""
FOREVER: Final = st.just("1000 days")
"""Lateness beyond any script: nothing is dropped."""


@st.composite
def windowing_strategies(draw: st.DrawFn, /, *, retracting: bool | None = None, **given: Any) -> WindowingStrategy:
    """Draw from all modes.

    Args:
        draw: given by hypothesis.
        retracting: only those that retract, or only the others; `None` for both.
        given: as `dataflow_model.testing.strategies.windowing_strategies` takes it.
    """
    strategy = draw(strategies.windowing_strategies(**given))
    mode, takes_back = draw(st.sampled_from([candidate for candidate in MODES if retracting in {None, candidate[1]}]))
    return attrs.evolve(strategy, accumulation_mode=mode, retracting=takes_back)


@st.composite
def scripts(draw: st.DrawFn, /, **given: Any) -> TestStream:
    """Draw scripts with signals and with percentiles of the watermark that run ahead of the low one.

    Args:
        draw: given by hypothesis.
        given: as `dataflow_model.testing.strategies.test_streams` takes it.
    """
    script = TestStream()
    for step in draw(strategies.test_streams(**given)).steps:
        script = TestStream([*script.steps, step])
        match draw(st.sampled_from(["", "", "", "signal", "percentile"])):
            case "signal":
                script = script.signal(draw(st.sampled_from(strategies.SIGNALS)))
            case "percentile":
                percentile = draw(st.sampled_from(strategies.PERCENTILES))
                advances = [
                    drawn_step
                    for drawn_step in script.steps
                    if isinstance(drawn_step, WatermarkStep) and drawn_step.percentile >= percentile
                ]
                before = max((int(drawn_step.watermark) for drawn_step in advances), default=0)
                ahead = draw(st.integers(0, 20)) * 1_000_000
                script = script.watermark(dm.EventTime(before + ahead), percentile=percentile)
    return script
