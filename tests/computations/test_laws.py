"""Laws of topologies: what they tell is the same however the events are cut, sharded and resumed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.testing import TestStream
from tests.support.computations import scribe
from tests.support.laws.examples import share_of_examples
from tests.support.laws.recutting import recut
from tests.support.micro_batches import in_micro_batches
from tests.support.pipelines import difference, seen


@given(st.data(), scribe.scripts())
def test_cutting_the_same_events_into_other_bundles_changes_no_output_of_computations(
    data: st.DataObject, script: TestStream
) -> None:
    """Of one computation: what is behind it learns at the end of a step how far a record has moved the watermark."""
    expected = scribe.run(scribe.alone(script)).collected("told")
    actual = scribe.run(scribe.alone(data.draw(recut(script)))).collected("told")
    assert not difference(seen(expected), seen(actual))


@pytest.mark.parametrize("cached", [True, False])
@share_of_examples(0.4)  # each runs a script through durable state, step by step
@given(scribe.scripts(), st.integers(1, 6))
def test_computations_on_two_shards_resume_from_durable_state_after_any_cut(
    cached: bool, script: TestStream, steps: int
) -> None:
    built = scribe.topology(script)
    expected = scribe.run(built).collected("told")
    records = in_micro_batches(built.pipeline(), steps, cached=cached).collected("told")
    assert not difference(seen(expected), seen(records))


@given(scribe.scripts())
def test_records_produced_from_on_time_records_are_on_time_downstream(script: TestStream) -> None:
    """Timers and the timestamps of state hold the watermark until what they stand for has been produced."""
    records = scribe.run(scribe.topology(scribe.punctual(script))).collected("told")
    assert not [record for record in records if record.value[1][0] == "passed" and record.value[1][1]]


def test_a_late_watermark_hold_does_not_make_the_watermark_depend_on_the_sharding_of_keys() -> None:
    """What is behind the watermark when it comes cannot hold it, wherever the output's is held by other keys."""
    script = TestStream()
    for key in "abcd":
        script = script.add((key, (("keep", 1, True), ("event", 12, "clear", 12))), 3)
    script = script.watermark(10)
    for key in "efgh":
        script = script.add((key, (("keep", 1, True),)), 5)
    built = scribe.topology(script.watermark(20).add(("a", (("pass", 0, ()),)), 25).watermark(30))
    expected = scribe.run(built).collected("told")
    passed = [record.value[1] for record in expected if record.value[1][0] == "passed"]
    assert [low // 1_000_000 for *_, low, _ in passed] == [20]
    records = in_micro_batches(built.pipeline(), 3, cached=True).collected("told")
    assert not difference(seen(expected), seen(records))
