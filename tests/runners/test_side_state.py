"""What a ParDo with changing side inputs keeps: durable, and enough to go on from, after every micro-batch."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from tests.support.micro_batches import in_micro_batches
from tests.support.pipelines import difference, run, seen
from tests.support.side_inputs import joined


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 4, 1_000])
@pytest.mark.parametrize("cached", [True, False])
def test_a_join_with_a_side_input_resumes_from_its_durable_state_in_any_cut(steps: int, cached: bool) -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    joined(pipeline)
    expected = run(dm.LocalRunner(), joined).collected("panes")
    actual = in_micro_batches(pipeline, steps, cached=cached).collected("panes")
    assert len(expected) == 8
    assert all(side for record in expected for _, side in record.value[1])
    assert not difference(seen(expected), seen(actual))
