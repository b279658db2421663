"""Scripts of numbered elements, some of which are delivered again, and pipelines that must not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep
from dataflow_model.testing import TestStream
from tests.support.laws.drawing import scripts

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy


__all__ = ["HORIZONS", "build", "numbered", "redelivered", "run_locally"]


@st.composite
def numbered(draw: st.DrawFn, /, **options: Any) -> TestStream:
    """Draw scripts in which no two elements are the same: (key, (number, value))."""
    script = draw(scripts(**options))
    steps: list[Any] = []
    number = 0
    for step in script.steps:
        if isinstance(step, AddStep):
            bundle = []
            for (key, value), at in step.elements:
                bundle.append(((key, (number, value)), at))
                number += 1
            steps.append(AddStep(tuple(bundle)))
        else:
            steps.append(step)
    return TestStream(steps)


@st.composite
def redelivered(draw: st.DrawFn, script: TestStream, share: float) -> TestStream:
    """Draw scripts in which a share of the elements comes again, once or more, at any later places."""
    random = draw(st.randoms(use_true_random=False))
    steps: list[Any] = []
    again: dict[int, list[Any]] = {}
    for index, step in enumerate(script.steps):
        steps.append(step)
        if isinstance(step, AddStep):
            for element in step.elements:
                while random.random() < share:
                    again.setdefault(random.randrange(index, len(script.steps)), []).append(element)
        copies = again.pop(index, [])
        if copies and isinstance(step, AddStep) and random.random() < 0.5:
            steps[-1] = AddStep((*step.elements, *copies))
        elif copies:
            random.shuffle(copies)
            steps.append(AddStep(tuple(copies)))
    return TestStream(steps)


def build(p: dm.Pipeline, script: TestStream, strategy: WindowingStrategy, horizon: Any, case: str = "") -> None:
    """Add what sums the elements' values by key, duplicates apart."""
    once = p | f"in{case}" >> script | f"once{case}" >> dm.Deduplicate(lambda pair: pair[1][0], horizon=horizon)
    values = once | f"values{case}" >> dm.Map(lambda pair: (pair[0], pair[1][1]))
    sums = values | f"where{case}" >> dm.Window.into(strategy) | f"sums{case}" >> dm.Sum.per_key()
    _ = sums | f"panes{case}" >> dm.io.Collect()
    _ = once | f"passed{case}" >> dm.io.Collect()


def run_locally(script: TestStream, strategy: WindowingStrategy, horizon: Any) -> Any:
    """Run that in process."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    build(pipeline, script, strategy, horizon)
    result = pipeline.run()
    result.wait_until_finish()
    return result


HORIZONS = st.sampled_from(["1 second", "16 seconds", "90 seconds", "1 day"])
