"""Laws of stateful DoFns: they do what the reference does, however the events are cut, sharded and resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import ClockStep, WatermarkStep
from dataflow_model.testing import TestStream
from tests.support.laws.examples import share_of_examples
from tests.support.laws.recutting import recut
from tests.support.micro_batches import in_micro_batches
from tests.support.pipelines import difference
from tests.support.state import actor
from tests.support.state.drawing import KINDS, fitting
from tests.support.state.reference import Reference

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy


def outputs(records: Any) -> list[tuple[Any, Any, int, int]]:
    return [(it.value, it.window, int(it.event_time), int(it.processing_time)) for it in records]


@given(actor.scripts(), actor.strategies(), KINDS)
def test_a_stateful_function_emits_the_outputs_of_the_reference(
    script: TestStream, strategy: WindowingStrategy, kind: type[actor.Actor]
) -> None:
    strategy = fitting(kind, strategy)
    reference = Reference(strategy, kind)
    expected = reference.run(script)
    result = actor.run(script, strategy, kind())
    assert not difference(expected, outputs(result.collected("out")))
    given_counters = result.metrics()["act"]
    assert {name: given_counters.get(name, 0) for name in reference.counters} == reference.counters


@given(st.data(), actor.scripts(), actor.strategies(), KINDS)
def test_cutting_the_same_events_into_other_bundles_changes_no_output_of_a_stateful_function(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, kind: type[actor.Actor]
) -> None:
    strategy = fitting(kind, strategy)
    expected = actor.run(script, strategy, kind()).collected("out")
    actual = actor.run(data.draw(recut(script)), strategy, kind()).collected("out")
    assert not difference(outputs(expected), outputs(actual))


@pytest.mark.parametrize("cached", [True, False])
@share_of_examples(0.4)  # each runs a script through durable state, step by step
@given(actor.scripts(), actor.strategies(), KINDS, st.integers(1, 6))
def test_stateful_functions_on_two_shards_resume_from_durable_state_after_any_cut(
    cached: bool, script: TestStream, strategy: WindowingStrategy, kind: type[actor.Actor], steps: int
) -> None:
    strategy = fitting(kind, strategy)
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    actor.build(pipeline, script, strategy, kind())
    expected = outputs(actor.run(script, strategy, kind()).collected("out"))
    records = in_micro_batches(pipeline, steps, cached=cached).collected("out")
    assert not difference(expected, outputs(records))


@given(actor.scripts(), actor.strategies(), st.sampled_from([actor.Actor, actor.Mourner]))
def test_outputs_of_timers_and_expiries_are_on_time_downstream_if_no_element_was_late(
    script: TestStream, strategy: WindowingStrategy, kind: type[actor.Actor]
) -> None:
    """Output timestamps hold the watermark: a grouping right behind, without any lateness, drops nothing."""
    punctual = TestStream([step for step in script.steps if not isinstance(step, WatermarkStep)])
    punctual = TestStream([*punctual.steps, WatermarkStep(dm.event_time(60)), ClockStep(dm.processing_time(1_000))])
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    acted = pipeline | punctual | "in" >> dm.Window.into(strategy) | dm.ParDo(kind())
    instants = dm.Window.into(dm.FixedWindows("1 us")).allowed_lateness(0)
    keyed = acted | dm.Map(lambda value: (value[0], 1)) | "out" >> instants
    _ = keyed | "counts" >> dm.Count.per_key() | "panes" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    assert {record.pane.timing for record in result.collected("panes")} <= {dm.PaneTiming.ON_TIME}
    assert not result.metrics().get("counts", {}).get("dropped_because_late")
