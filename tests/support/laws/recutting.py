"""The same script in other bundles."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dataflow_model.plan.endpoints.scripts import AddStep, SignalStep
from dataflow_model.testing import TestStream


@st.composite
def recut(draw: st.DrawFn, script: TestStream) -> TestStream:
    """Cut the same events into other steps, and repeat watermarks and clock values."""
    steps: list[Any] = []
    for step in script.steps:
        if not isinstance(step, AddStep):
            steps += [step] * (1 if isinstance(step, SignalStep) else draw(st.integers(1, 3)))
            continue
        for element in step.elements:
            if steps and isinstance(steps[-1], AddStep) and draw(st.booleans()):
                steps[-1] = AddStep((*steps[-1].elements, element))
            else:
                steps.append(AddStep((element,)))
    return TestStream(steps)
