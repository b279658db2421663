"""Compare another runner with LocalRunner: many cases in one run, and a run that is killed and resumed."""

from __future__ import annotations

import copy
import pathlib
import uuid
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dataflow_model.io import Collect
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.runner import as_run
from dataflow_model.runners.local import LocalRunner
from dataflow_model.testing.crashes import CrashPoint
from dataflow_model.testing.proving import laws
from dataflow_model.testing.proving.arrivals import Case, all_at_once
from dataflow_model.testing.proving.drawing import Broken, drawn_cases
from dataflow_model.testing.proving.proof_runs import firing_once, groupings_of, with_panes
from dataflow_model.transforms import Pipeline, PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.testing.proving.proof_runs import Subject
    from dataflow_model.testing.streams import TestStream

Shown: TypeAlias = "dict[str, list[Record]]"
"""The output of one copy: at each grouping, and at the end."""

RESTART: Final = "law 3, restart"
RUNNERS: Final = "every runner shows the same"

_CASES: Final = 20
"""How many copies of the pipeline one run contains, since starting a Spark job takes seconds."""
_CRASHES: Final = (("after_state", 0), ("after_publishing", 0))


def differing_on(runner: Runner, subject: Subject, cases: SearchStrategy[Case]) -> tuple[TestStream, Broken] | None:
    """Return a script for which a runner's output differs from LocalRunner's, or `None`.

    The scripts of one run share the clock, so each also gets the clock values of the others.
    """
    scripts = [case.script for case in drawn_cases(cases, _CASES) if case.script.steps]
    if getattr(runner, "mode", "") == "batch":
        scripts = [all_at_once(script) for script in scripts]
        plan = firing_once(_copies(subject, scripts))
        return _first(scripts, _collected(plan, LocalRunner(clock=0)), _collected(plan, runner), _same_values)
    plan = _copies(subject, scripts)
    expected = _collected(as_run(runner, plan), LocalRunner(clock=0))
    failure = _first(scripts, expected, _collected(plan, _elsewhere(runner)), _same_panes(RUNNERS))
    is_this_process = isinstance(runner, LocalRunner)  # a crash would kill it
    if failure is None and getattr(runner, "checkpoint", None) and not is_this_process:
        for point, micro_batch in _CRASHES:
            resumed = _resumed(plan, _elsewhere(runner), CrashPoint(point, micro_batch))
            failure = failure or _first(scripts, expected, resumed, _same_panes(RESTART))
    return failure


class Copied(PTransform):
    """The pipeline as a transform, so that each copy has its own scope."""

    input_kind = "collection"

    def __init__(self, pipeline: Callable[[Any], Any]) -> None:
        super().__init__()
        self._pipeline = pipeline

    def expand(self, pcoll: Any) -> Any:
        """Apply the pipeline."""
        return self._pipeline(pcoll)


def _copies(subject: Subject, scripts: Sequence[TestStream]) -> Plan:
    pipeline = Pipeline()
    for number, script in enumerate(scripts):
        copied = pipeline | f"script {number}" >> script | f"copy {number}" >> Copied(subject.pipeline)
        _ = copied | f"result {number}" >> Collect()
    plan = with_panes(pipeline.plan())
    check(plan)
    return plan


def _collected(plan: Plan, runner: Runner) -> list[Shown]:
    """Run a plan of copies and return the output of each copy."""
    result = runner.run(plan, until="drained")
    result.wait_until_finish()
    outputs: list[Shown] = []
    for number in range(sum(node.label.startswith("result ") for node in plan.nodes)):
        scope = f"copy {number}/"
        emitted = {
            f"the output of {node.label.removeprefix(scope)!r}": result.collected(f"{node.label}/panes")
            for node in groupings_of(plan)
            if node.label.startswith(scope)
        }
        outputs.append({**emitted, "the output": result.collected(f"result {number}")})
    return outputs


def _elsewhere(runner: Runner) -> Any:
    """Return the runner with a new checkpoint inside its own, since a finished run cannot be run again."""
    moved: Any = copy.copy(runner)
    checkpoint = getattr(runner, "checkpoint", None)
    if checkpoint:
        moved.checkpoint = str(pathlib.Path(checkpoint, f"proof-{uuid.uuid4().hex[:8]}"))
    return moved


def _resumed(plan: Plan, runner: Runner, crash: CrashPoint) -> list[Shown]:
    """Run until the crash, then to the end."""
    with crash:
        try:
            return _collected(plan, runner)
        except Exception:
            if not crash.was_reached:
                raise
    return _collected(plan, runner)


def _first(
    scripts: Sequence[TestStream],
    expected: Sequence[Shown],
    actual: Sequence[Shown],
    compare: Callable[[str, Sequence[Record], Sequence[Record]], None],
) -> tuple[TestStream, Broken] | None:
    """Return the shortest script whose output differs."""
    failures = []
    for script, records_of, other in zip(scripts, expected, actual, strict=True):
        try:
            for subject, records in records_of.items():
                compare(subject, records, other[subject])
        except Broken as broken:
            failures.append((script, broken))
    return min(failures, key=lambda pair: len(pair[0].steps), default=None)


def _same_panes(law: str) -> Callable[[str, Sequence[Record], Sequence[Record]], None]:
    def compare(subject: str, expected: Sequence[Record], actual: Sequence[Record]) -> None:
        try:
            laws.check_same_panes(subject, expected, actual, ("LocalRunner", "the other runner"))
        except Broken as broken:
            broken.law = law
            raise

    return compare


def _same_values(subject: str, expected: Sequence[Record], actual: Sequence[Record]) -> None:
    try:
        laws.check_same_values(actual, expected, subject)
    except Broken as broken:
        broken.law, broken.columns = RUNNERS, ("the other runner", "LocalRunner")
        raise
