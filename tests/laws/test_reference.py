"""The engine against the plain reference, pane for pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, note, settings
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import assert_panes, run_script, strategies
from tests.engine.scripting import run
from tests.laws.reference import Reference

if TYPE_CHECKING:
    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream


@settings(max_examples=300)
@given(strategies.test_streams(), strategies.windowing_strategies())
def test_the_engine_and_the_plain_reference_give_the_same_panes(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    note("\n".join(map(repr, script.steps)))
    assert_panes(run_script(script, strategy, dm.Sum()), Reference(strategy).run(script))


@given(
    strategies.test_streams(),
    strategies.windowing_strategies(
        fns=strategies.window_fns(merging=False), late_data=st.just(dm.LateData.DUPLICATE_WINDOW)
    ),
)
def test_the_same_holds_where_expired_windows_are_reopened(script: TestStream, strategy: WindowingStrategy) -> None:
    note("\n".join(map(repr, script.steps)))
    assert_panes(run_script(script, strategy, dm.Sum()), Reference(strategy).run(script))


@given(strategies.test_streams(), strategies.windowing_strategies())
def test_the_engine_and_the_plain_reference_drop_the_same_numbers(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    reference = Reference(strategy)
    reference.run(script)
    counters = run(script, strategy).counters
    assert counters.get("dropped_because_late", 0) == reference.late
    assert counters.get("dropped_because_closed", 0) == reference.lost
