"""Several drawn pipelines in one run: a job on Spark takes seconds to start, so each gets many of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.arrivals import all_at_once
from dataflow_model.testing.proving.proof_runs import firing_once
from tests.support.golden.drawing import drawn, sinks_of
from tests.support.golden.hosts import quietly
from tests.support.golden.outcomes import Outcome, outcome_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node

__all__ = ["BOUNDED", "answers", "jobs_of", "outcomes"]

BOUNDED: Final = ("one grouping", "a chain of groupings", "a grouping again", "a chain again", "one more chain")
"""The kinds whose answers a bounded job has to give: of the others, some depend on what is late."""


class _Part(dm.PTransform):
    """A drawn pipeline as a transform, so that its labels have a scope."""

    input_kind = "pipeline"

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__()
        self.drawn, self.folder = drawn(number), folder

    def expand(self, pcoll: Any) -> Any:
        self.drawn.build(pcoll, self.folder)


def jobs_of(numbers: Sequence[int]) -> list[list[int]]:
    """Return those that can share a run: scripts and files have clocks of their own; rounds would be those of all."""
    alone = [number for number in numbers if drawn(number).interval is None]
    files = [number for number in alone if drawn(number).family == "replayed files"]
    return [job for job in ([number for number in alone if number not in files], files) if job]


def outcomes(numbers: Sequence[int], runner: Any) -> dict[int, Outcome]:
    """Run pipelines side by side, which share the clock, and return what each of them shows."""
    with tempfile.TemporaryDirectory() as name, quietly():
        folder = Path(name)
        plan = _side_by_side(numbers, folder)
        result = runner.run(plan, until="drained")
        result.wait_until_finish()
        return {
            number: outcome_of(
                drawn(number).plan(folder / "alone" / str(number)),
                result,
                folder / str(number),
                _scope(number),
            )
            for number in numbers
        }


def answers(numbers: Sequence[int], runner: Any) -> dict[int, list[str]]:
    """Run pipelines with all data at once, each window emitting once, and return their values in no order."""
    with tempfile.TemporaryDirectory() as name, quietly():
        plan = firing_once(_at_once(_side_by_side(numbers, Path(name))))
        result = runner.run(plan, until="drained")
        result.wait_until_finish()
        sinks = {number: [label for label in sinks_of(plan) if label.startswith(_scope(number))] for number in numbers}
        return {
            number: sorted(
                f"{label}: {text_of(record.value)} {record.window!r}"
                for label in labels
                for record in result.collected(label)
            )
            for number, labels in sinks.items()
        }


def _side_by_side(numbers: Sequence[int], folder: Path) -> Plan:
    pipeline = dm.Pipeline()
    for number in numbers:
        _ = pipeline | f"pipeline {number}" >> _Part(number, folder / str(number))
    plan = pipeline.plan()
    check(plan)
    return plan


def _scope(number: int) -> str:
    return f"pipeline {number}/"


def _at_once(plan: Plan) -> Plan:
    return attrs.evolve(plan, nodes=tuple(map(_read_at_once, plan.nodes)))


def _read_at_once(node: Node) -> Node:
    if not isinstance(node, Read) or node.source.as_script is None:
        return node
    script = node.source.as_script
    steps = all_at_once(TestStream(script.steps)).steps
    return attrs.evolve(node, source=attrs.evolve(script, steps=tuple(steps)))
