"""Laws of Deduplicate: what is delivered again changes nothing, however events are cut, sharded and resumed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, WatermarkStep
from dataflow_model.runners.engine.state import id_store
from tests.support.deduplicate.redelivery import HORIZONS, numbered, redelivered, run_locally
from tests.support.laws.drawing import windowing_strategies
from tests.support.laws.examples import share_of_examples
from tests.support.laws.recutting import recut
from tests.support.micro_batches import in_micro_batches
from tests.support.pipelines import difference, seen

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream


@pytest.mark.parametrize("share", [0.01, 0.5])
@given(st.data(), numbered(), windowing_strategies(), HORIZONS)
def test_redelivered_records_change_no_pane(
    share: float, data: st.DataObject, script: TestStream, strategy: WindowingStrategy, horizon: str
) -> None:
    again = data.draw(redelivered(script, share))
    expected, actual = run_locally(script, strategy, horizon), run_locally(again, strategy, horizon)
    for sink in ("passed", "panes"):
        assert not difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
    count, counts = _elements(again), Counter(actual.metrics()["once"])
    assert counts["elements_in"] == count
    passed = len(actual.collected("passed"))
    assert counts["duplicates"] + counts["dropped_because_late"] + passed == count
    assert counts["ids"] == counts["id_bytes"] == 0  # the watermark has passed everything


@given(st.data(), numbered(), windowing_strategies(), HORIZONS)
def test_cutting_the_same_events_into_other_bundles_changes_nothing_that_deduplicate_keeps(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, horizon: str
) -> None:
    script = data.draw(redelivered(script, 0.5))
    expected = run_locally(script, strategy, horizon)
    actual = run_locally(data.draw(recut(script)), strategy, horizon)
    assert not difference(seen(expected.collected("panes")), seen(actual.collected("panes")))
    expected_counts, actual_counts = (Counter(result.metrics()["once"]) for result in (expected, actual))
    assert all(expected_counts[name] == actual_counts[name] for name in ("duplicates", "dropped_because_late"))


@pytest.mark.parametrize("cached", [True, False])
@share_of_examples(0.4)  # each runs a script through durable state, step by step
@given(st.data(), numbered(max_steps=15), windowing_strategies(retracting=False), HORIZONS, st.integers(1, 6))
def test_deduplicate_on_two_shards_resumes_from_durable_state_after_any_cut(
    cached: bool, data: st.DataObject, script: TestStream, strategy: WindowingStrategy, horizon: str, steps: int
) -> None:
    script = data.draw(redelivered(script, 0.5))
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    once = pipeline | "in" >> script | "once" >> dm.Deduplicate(lambda pair: pair[1][0], horizon=horizon)
    _ = once | "passed" >> dm.io.Collect()
    expected = seen(run_locally(script, strategy, horizon).collected("passed"))
    records = in_micro_batches(pipeline, steps, cached=cached).collected("passed")
    assert not difference(expected, seen(records))


@given(st.data(), numbered(), windowing_strategies())
def test_ids_in_segments_are_recognised_like_ids_that_are_stored_singly(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy
) -> None:
    script = data.draw(redelivered(script, 0.5))
    expected = run_locally(script, strategy, "16 seconds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_store.IdStore.__init__, "__defaults__", (1,))
        actual = run_locally(script, strategy, "16 seconds")
    assert not difference(seen(expected.collected("panes")), seen(actual.collected("panes")))
    known = Counter(actual.metrics()["once"])
    assert known["bloom_hits"] - known["bloom_false"] <= known["duplicates"]


@given(st.data(), numbered(max_steps=10), windowing_strategies())
def test_under_a_long_horizon_exactly_the_first_element_with_each_id_is_kept(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy
) -> None:
    script = data.draw(redelivered(script, 0.5))
    result = run_locally(script, strategy, "1 day")
    numbers = [pair[1][0] for step in script.steps if isinstance(step, AddStep) for pair, _ in step.elements]
    assert [record.value[1][0] for record in result.collected("passed")] == list(dict.fromkeys(numbers))
    assert not result.metrics()["once"].get("dropped_because_late")


@given(numbered(), windowing_strategies())
def test_deduplicate_does_not_change_the_watermark(script: TestStream, strategy: WindowingStrategy) -> None:
    """A grouping behind Deduplicate does what it does without it, where nothing comes again."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    values = pipeline | "in" >> script | "values" >> dm.Map(lambda pair: (pair[0], pair[1][1]))
    _ = values | dm.Window.into(strategy) | dm.Sum.per_key() | "panes" >> dm.io.Collect()
    plain = pipeline.run()
    plain.wait_until_finish()
    assert not difference(
        seen(plain.collected("panes")), seen(run_locally(script, strategy, "1 day").collected("panes"))
    )


def test_drawn_scripts_have_watermarks_that_pass_the_horizon() -> None:
    """Else the laws would not see ids go."""
    from tests.support.pipelines import draw

    steps = [step for script in draw(numbered(), 50, 1) for step in script.steps]
    assert sum(isinstance(step, WatermarkStep) for step in steps) > 50


def _elements(script: TestStream) -> int:
    return sum(len(step.elements) for step in script.steps if isinstance(step, AddStep))
