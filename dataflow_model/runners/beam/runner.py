"""Runners of Beam's pipelines."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportFunctionMemberAccess=false

from __future__ import annotations

import functools
import tempfile
import uuid
import weakref
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.runner import PipelineRunner, group_by_key_input_visitor
from apache_beam.transforms import environments

from dataflow_model.plan.checks.state_checks import check_needed_clock
from dataflow_model.plan.logical.runner import Runner
from dataflow_model.runners.beam.functions import running
from dataflow_model.runners.beam.functions.packages import NO_PACKAGES, packages_of
from dataflow_model.runners.beam.functions.stages import StageRun
from dataflow_model.runners.beam.lowering import lower
from dataflow_model.runners.beam.options import DataflowModelOptions
from dataflow_model.runners.beam.overrides import all_but, apply_to, replacement_of
from dataflow_model.runners.beam.own.labelled import with_percentiles, with_retractions
from dataflow_model.runners.beam.phases import expand_reshuffles
from dataflow_model.runners.beam.requirements import (
    check,
    check_bounded,
    check_finalization,
    check_sides_of_unending,
    has_unbounded_source,
)
from dataflow_model.runners.beam.result import BeamResult
from dataflow_model.runners.beam.side_inputs import with_panes_taken_back, with_sides_in_elements
from dataflow_model.runners.local import LocalRunner as OurLocalRunner

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import PipelineResult


_KEEPS_PANES: Final = "2.65.0"
"""The version of Beam from which on a `Reshuffle` keeps the panes of elements; an option may ask for an older one."""


@attrs.frozen
class _Host:
    """What runs a plan.

    Attributes:
        runner: creates its runner, once nothing is rejected.
        is_stream: whether it has a clock that advances, by which timers in processing time fire.
        may_repeat: whether it may process a bundle again that has ended.
        tells_commits: whether functions learn in which bundles it will not.
        tells_shards: whether only functions on shards learn that.
        is_here: whether functions run in this process.
        is_job: whether it is a batch job on Spark, whose input has to end.
    """

    runner: Callable[[], Runner]
    is_stream: bool
    may_repeat: bool
    is_here: bool
    tells_commits: bool = False
    tells_shards: bool = False
    is_job: bool = False


def described(pipeline: Any) -> Any:
    """Return Beam's description of a pipeline whose functions run in this Python."""
    pipeline.visit(group_by_key_input_visitor())
    return pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment.default())


class BeamRunner(PipelineRunner):  # type: ignore[misc] # Beam ships no types that mypy takes
    """What the runners have in common.

    Args:
        is_drain: whether restrictions of splittable functions are truncated, as in a pipeline that is drained.
    """

    def __init__(self, *, is_drain: bool) -> None:
        super().__init__()
        self._is_drain = is_drain

    def default_environment(self, options: Any) -> Any:
        """Return the environment of functions, which is this Python."""
        del options
        return environments.EmbeddedPythonEnvironment.default()

    def apply(self, transform: Any, input: Any, options: Any) -> Any:  # noqa: A002 - Beam's name
        """Apply a transform to an input, or what runs in its place; that is decided here, before Beam expands it.

        Raises:
            UnsupportedOnRunner: for a transform of another SDK with an argument that its replacement does not support.
        """
        known = replacement_of(transform)
        if known is None or known.override not in all_but(options.view_as(DataflowModelOptions).dm_without_override):
            return super().apply(transform, input, options)
        applied = input.pipeline.transforms_stack[-1]
        ours = known.make(transform, applied.full_label)
        if ours is None:
            return super().apply(transform, input, options)
        applied.transform = ours  # one of another SDK would be asked for its expansion otherwise
        return ours.expand(input)

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> BeamResult:
        """Start a run, and return its result at once.

        Raises:
            UnsupportedOnRunner: before anything runs, for a part that this runner cannot run.
        """
        own = options.view_as(DataflowModelOptions)
        host = self._host(own, pipeline)
        ours = all_but(own.dm_without_override)
        if host.is_job:
            check_bounded(pipeline, is_streaming=bool(options.view_as(StandardOptions).streaming))
        check(pipeline, has_commits=host.tells_commits or not host.may_repeat)
        if options.is_compat_version_prior_to(_KEEPS_PANES):
            expand_reshuffles(pipeline)
        apply_to(pipeline, ours)
        run = uuid.uuid4().hex
        plan = lower(pipeline, StageRun(run, host.tells_commits), is_drain=self._is_drain)
        check_sides_of_unending(plan)
        if not host.is_stream:
            check_needed_clock(plan, has_replays=not host.is_job)
        plan = with_sides_in_elements(plan)
        if host.tells_shards:
            check_finalization(plan)
        plan = with_percentiles(plan, own.dm_watermark_percentile)
        plan = with_panes_taken_back(with_retractions(plan, own.dm_retracting, own.dm_retractable))
        running.begin(run, NO_PACKAGES if host.is_here else packages_of(options))
        return BeamResult(host.runner().run(plan), run, is_here=host.is_here)

    def _host(self, options: Any, pipeline: Any) -> _Host:
        """Return what runs the plan of a pipeline, given Beam's description of that."""
        raise NotImplementedError


class LocalRunner(BeamRunner):
    """Run a pipeline of Beam's in process, without Java, Docker or a job server.

    On the command line, `--dm_checkpoint` and `--dm_workers` replace the arguments; see `DataflowModelOptions`.

    Args:
        checkpoint: a directory on a local disk, in which the state of a stream is kept between starts. A run that is
            started again continues where it stopped. Without one, a run ends with its input; where a source of this
            package has no end, it is a stream whose state is kept in a temporary directory.
        workers: the number of processes that run the pipeline; only without a checkpoint.
        is_drain: whether restrictions of splittable functions are truncated, as in a pipeline that is drained.

    Example:
        >>> import apache_beam as beam
        >>> from dataflow_model.beam import LocalRunner
        >>> with beam.Pipeline(runner=LocalRunner()) as p:
        ...     _ = p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.CombinePerKey(sum) | beam.Map(print)
        ('a', 4)
        ('b', 2)
    """

    def __init__(
        self, *, checkpoint: str | os.PathLike[str] | None = None, workers: int | None = None, is_drain: bool = False
    ) -> None:
        super().__init__(is_drain=is_drain)
        self._checkpoint, self._workers = checkpoint, workers

    def _host(self, options: Any, pipeline: Any) -> _Host:
        checkpoint = options.dm_checkpoint if self._checkpoint is None else self._checkpoint
        workers = options.dm_workers if self._workers is None else self._workers
        runner: Callable[[], Runner] = functools.partial(OurLocalRunner, checkpoint=checkpoint, workers=workers)
        is_stream = checkpoint is not None
        if not is_stream and workers == 1 and has_unbounded_source(pipeline):
            runner, is_stream = _Temporary, True
        return _Host(runner, is_stream=is_stream, may_repeat=is_stream, is_here=workers == 1, tells_commits=is_stream)


class _Temporary(Runner):
    """Runs plans as streams whose checkpoints are removed when nobody has the result any more."""

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        """Start a run; see `Runner`."""
        folder = tempfile.TemporaryDirectory(prefix="dataflow_model-")
        result = OurLocalRunner(checkpoint=folder.name).run(plan, until=until)
        weakref.finalize(result, folder.cleanup)
        return result


class SparkRunner(BeamRunner):
    """Run a pipeline of Beam's on Spark, without a job server: as a batch job, or with a checkpoint as a stream.

    On the command line, `--dm_checkpoint` and `--dm_spark_master` replace the arguments; see `DataflowModelOptions`.

    Args:
        spark: the Spark session; by default one on the master that `--dm_spark_master` names or, without any, the one
            that `spark-submit` provides, or one in this process.
        checkpoint: a directory that the driver and the executors can reach, in which the state of a stream is kept
            between starts. A run that is started again continues where it stopped. A pipeline with an unbounded
            collection, or with the option `--streaming`, needs one.
        is_drain: whether restrictions of splittable functions are truncated, as in a pipeline that is drained.

    Example:
        >>> import apache_beam as beam
        >>> from dataflow_model.beam import SparkRunner
        >>> with beam.Pipeline(runner=SparkRunner()) as p:  # doctest: +SKIP
        ...     _ = p | beam.Create([("a", 1), ("a", 3)]) | beam.CombinePerKey(sum) | beam.io.WriteToText("sums")
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        is_drain: bool = False,
    ) -> None:
        super().__init__(is_drain=is_drain)
        self._spark, self._checkpoint = spark, checkpoint

    def _host(self, options: Any, pipeline: Any) -> _Host:
        del pipeline
        checkpoint = options.dm_checkpoint if self._checkpoint is None else self._checkpoint
        runner = functools.partial(self._runner, checkpoint, options.dm_spark_master)
        if checkpoint is None:
            return _Host(runner, is_stream=False, may_repeat=True, is_here=False, is_job=True)
        return _Host(runner, is_stream=True, may_repeat=True, is_here=False, tells_commits=True, tells_shards=True)

    def _runner(self, checkpoint: Any, master: str | None) -> Runner:
        from dataflow_model.runners.spark import SparkRunner as OurSparkRunner
        from dataflow_model.runners.spark.deployment.session import session_at

        spark = session_at("beam", master) if self._spark is None else self._spark
        return OurSparkRunner(spark, "batch" if checkpoint is None else "streaming", checkpoint=checkpoint)
