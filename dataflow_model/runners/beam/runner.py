"""Runners of Beam's pipelines."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportFunctionMemberAccess=false

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms import environments

from dataflow_model.runners.beam import running
from dataflow_model.runners.beam.lowering import lower
from dataflow_model.runners.beam.requirements import check
from dataflow_model.runners.beam.result import BeamResult
from dataflow_model.runners.local import LocalRunner as OurLocalRunner

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import Runner


class LocalRunner(PipelineRunner):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Run a pipeline of Beam's in process, without Java, Docker or a job server.

    Args:
        is_drain: whether restrictions of splittable functions are truncated, as in a pipeline that is drained.

    Example:
        >>> import apache_beam as beam
        >>> from dataflow_model.beam import LocalRunner
        >>> with beam.Pipeline(runner=LocalRunner()) as p:
        ...     _ = p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.CombinePerKey(sum) | beam.Map(print)
        ('a', 4)
        ('b', 2)
    """

    def __init__(self, *, is_drain: bool = False) -> None:
        super().__init__()
        self._is_drain = is_drain

    def default_environment(self, options: Any) -> Any:
        """Return the environment of functions, which is this Python."""
        del options
        return environments.EmbeddedPythonEnvironment.default()

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> BeamResult:
        """Start a run, and return its result at once.

        Raises:
            UnsupportedOnRunner: before anything runs, for a part that this runner cannot run.
        """
        del options
        check(pipeline)
        run = uuid.uuid4().hex
        plan = lower(pipeline, run, is_drain=self._is_drain)
        running.begin(run)
        return BeamResult(self._runner(plan).run(plan), run)

    def _runner(self, plan: Plan) -> Runner:
        del plan
        return OurLocalRunner()
