"""A pipeline as one Structured Streaming query: source, chain of keyed stages, sink."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import time
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import SinkError, SupersededRun
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.runners.sharded.checkpoint.requests import check_signals
from dataflow_model.runners.sharded.checkpoint.running import RunningMark
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.checkpoint.trust import check_trust
from dataflow_model.runners.sharded.commits.ahead import ahead_of_stream
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.restoring import check_ends, check_progress, check_rows_held, claim_sinks
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.runners.sharded.feed.acknowledging import acknowledge
from dataflow_model.runners.sharded.outputs.publication import Publication, half_published
from dataflow_model.runners.sharded.results import StreamResult
from dataflow_model.runners.sharded.starting import request_end, stream_program
from dataflow_model.runners.spark.ahead import run_ahead_on_spark
from dataflow_model.runners.spark.collected import collect_bounded
from dataflow_model.runners.spark.dataframes import ROW_TYPE, check_streaming, with_dataframes
from dataflow_model.runners.spark.deployment.executors import check_executors
from dataflow_model.runners.spark.deployment.failures import find_our_error, is_stopped, lost_worker, session_stopped
from dataflow_model.runners.spark.deployment.package import share_package
from dataflow_model.runners.spark.deployment.session import SHUFFLE_PARTITIONS, settings_of, stream_settings
from dataflow_model.runners.spark.deployment.shipping import (
    processor,
    register_sink,
    register_source,
    ship_program,
)
from dataflow_model.runners.spark.deployment.worker_python import quick_workers
from dataflow_model.runners.spark.end_of_stream import has_teardown, tear_down_workers
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.sink import OUR_SINK, StreamWriter
from dataflow_model.runners.spark.spark_logs import (
    HOST,
    is_end_committed,
    is_input_over,
    last_committed,
    last_started,
    offset_of,
    own_offset,
    url_of,
)
from dataflow_model.runners.spark.stages import (
    OUR_SOURCE,
    KeyedStage,
    StreamReader,
    program_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.reporting import CountedAhead
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.tasks.program import PackedProgram, Program
    from dataflow_model.runners.spark.deployment.package import Package
    from dataflow_model.runners.spark.runner import SparkRunner

_NAMES: Final = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_OF_WORKERS: Final = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""By default on for stateful processors and off for sources and sinks; with one value, all share their workers."""
_REPORTS_KEPT: Final = "spark.sql.streaming.numRecentProgressUpdates"
_LEAST_REPORTS: Final = 2
"""How many of its reports Spark must keep for there to be a last one: where it is to keep one, it keeps none."""
_NAME: Final = "dataflow_model"
"""The name of our source in the checkpoint: other sources can be added later only if it has one."""
_PROGRAMS: Final = "programs"
"""The folder of the checkpoint for the program, if that is large, and on a cluster for this package."""
_POLL_SECONDS: Final = 0.05
_SOON_SECONDS: Final = 0.01
_PUBLISHING_SECONDS: Final = 60.0
"""How long `stop` waits for a micro-batch that is being published."""
_WAY_ON: Final = "create a new session, and start the run again with its checkpoint: it resumes where it stopped"


def start(runner: SparkRunner, staged: StagedPlan, *, until: str | None) -> StreamingResult:
    """Open the checkpoint, check that the plan can continue from it, and start the query of the staged plan."""
    check_streaming(staged.sources, until=until)
    spark = runner.spark
    assert runner.checkpoint is not None  # noqa: S101 - checked at construction
    check_trust(runner.checkpoint, is_trusted=runner.trust_checkpoint)
    checkpoint = Checkpoint.open(runner.checkpoint, staged, runner.shards(), HOST, is_input_over)
    request_end(checkpoint, staged, until)
    plan = collect_bounded(staged.whole, checkpoint.common_part)
    staged = cut_into_stages(plan, changing_sides(plan))
    ahead = ahead_of_stream(
        checkpoint.common_part,
        staged,
        lambda: run_ahead_on_spark(runner, staged),
        anew=runner.refresh_side_inputs,
    )
    program = stream_program(
        checkpoint,
        ahead.filled(staged),
        ahead.sides,
        shard_ids(checkpoint.shards),
        directory=checkpoint.common_part,
        weak=runner.productions == "weak",
        max_state_memory=runner.max_state_memory,
    )
    programs = pathlib.Path(checkpoint.common_part, _PROGRAMS)
    shutil.rmtree(programs, ignore_errors=True)  # those of earlier starts
    started = last_started(checkpoint.host_part)
    latest = None
    if started is not None:
        latest = started[0]
        program = attrs.evolve(program, planned=(latest, started[1].sequencer))
        check_rows_held(staged.sources, started[1])
    check_ends(staged.sources, checkpoint.begins if started is None else started[1], runner.checkpoint)
    progress = read_progress(checkpoint.common_part)
    check_progress(runner.checkpoint, progress, latest, last_committed(checkpoint.host_part))
    Publication.expect(checkpoint.common_part, progress, is_new=started is None)
    check_signals(checkpoint.requests, (checkpoint.begins if started is None else started[1]).signalled)
    package = share_package(spark, programs)
    notes = check_executors(spark, package, staged, is_stream=True)
    claim_sinks(program, runner.checkpoint)
    acknowledge_last(program, checkpoint.host_part)
    packed = ship_program(spark, program.pack(), programs, shared=True)
    endpoints = ship_program(spark, program.endpoints().pack(), programs, shared=True)
    query = _start_query(runner, checkpoint, program, packed, endpoints, package)
    try:
        return StreamingResult(
            spark, query, checkpoint, attrs.evolve(program, digest=packed.digest), ahead.counted, package, notes
        )
    except BaseException:  # Ctrl-C too: nobody has a result that could stop the query
        query.stop()
        raise


def acknowledge_last(program: Program, host_part: str) -> None:
    """Tell the sources what the last commit has read; Spark does so only when it plans another micro-batch."""
    committed = last_committed(host_part)
    if committed is not None:
        acknowledge(program.staged.sources, offset_of(host_part, committed)[0])


def _start_query(
    runner: SparkRunner,
    checkpoint: Checkpoint,
    program: Program,
    packed: PackedProgram,
    endpoints: PackedProgram,
    package: Package,
) -> StreamingQuery:
    """Build the query from source to sink, with a stateful processor for each stage, and start it."""
    spark = runner.spark
    staged = program.staged
    options = program_options(
        packed,
        endpoints,
        rows_per_batch=str(runner.max_rows_per_batch),
        parallelism=str(checkpoint.shards),
        requests=str(checkpoint.requests),
        directory=checkpoint.common_part,
        begin=json.dumps(checkpoint.begins.to_json()),
    )
    settings = {**stream_settings(spark), SHUFFLE_PARTITIONS: str(checkpoint.shards), **_OF_WORKERS}
    named = not checkpoint.record.dataframes
    if named:  # if one source has a name, Spark requires one for each, and streaming DataFrames have none
        settings[_NAMES] = "true"
    dataframes = [staged.read(label) for label in checkpoint.record.dataframes or ()]
    with settings_of(spark, settings):
        register_source(spark, package, OUR_SOURCE, ROW_TYPE, StreamReader)
        register_sink(spark, package, OUR_SINK, StreamWriter)
        ours = spark.readStream.format(OUR_SOURCE).options(**options)
        frame = with_dataframes((ours.name(_NAME) if named else ours).load(), dataframes, packed, package)
        for depth in range(1, len(staged.stages) + 1):
            stage = processor(package, KeyedStage, packed, depth)
            frame = frame.groupBy("shard").transformWithStateInPandas(stage, ROW_TYPE, "Append", "None")
        return (
            frame.writeStream.format(OUR_SINK)
            .options(**options)
            .option("checkpointLocation", url_of(checkpoint.host_part))
            .trigger(processingTime=f"{int(runner.trigger_interval) // 1000} milliseconds")
            .start()
        )


class StreamingResult(StreamResult):
    """A streaming run; see `PipelineResult`. A watcher thread stops the query when its input is over."""

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        checkpoint: Checkpoint,
        program: Program,
        counted: CountedAhead,
        package: Package,
        notes: tuple[str, ...],
    ) -> None:
        super().__init__(checkpoint, program.staged, "SparkRunner, stream", counted)
        self.query = query
        self._spark = spark
        self._package = package
        self._notes = notes
        self._is_stopping = False
        self._program = program
        self._mark = RunningMark(checkpoint.common_part)
        self._mark.start()
        self._start()

    def report(self) -> RunReport:
        """Return a report of the run so far."""
        return attrs.evolve(super().report(), notes=self._notes)

    def stop(self) -> None:
        """Stop the run; starting it again resumes from the checkpoint.

        Waits up to a minute for a micro-batch that is being published: if it were half published, only the unchanged
        pipeline could finish it, and `upgrade` would have to reject the checkpoint.
        """
        self._is_stopping = True
        limit = time.monotonic() + _PUBLISHING_SECONDS
        while self.query.isActive and time.monotonic() < limit:
            if half_published(self._checkpoint.common_part, last_committed(self._checkpoint.host_part)) is None:
                break
            time.sleep(_SOON_SECONDS)
        self.query.stop()
        self._over.wait()

    def cache(self) -> Mapping[str, int]:
        """Return how often a worker's copy of a shard was up to date, had to catch up, or could not be used."""
        return dict(read_progress(self._checkpoint.common_part).get("cache", {}))

    def _execute(self) -> RunnerState:
        while self.query.isActive and not self._is_last() and not is_stopped(self._spark):
            time.sleep(_POLL_SECONDS)
        finished = self._is_last()
        if self.query.isActive:  # also in a stopped session: an idle query runs no job that would fail
            with contextlib.suppress(Exception) if is_stopped(self._spark) else contextlib.nullcontext():
                self.query.stop()
        if not is_stopped(self._spark):
            acknowledge_last(self._program, self._checkpoint.host_part)
        if finished:
            return self._finished()
        failure = self.query.exception()
        if failure is not None:
            raise failure
        if not self._is_stopping:
            self._check_newest()
            if is_stopped(self._spark):
                raise session_stopped(self._spark, _WAY_ON)
        return RunnerState.STOPPED

    def _reported(self, error: BaseException) -> BaseException:
        """Return our own error, above all that of a newer start of the run, which Spark may detect first."""
        try:
            self._check_newest()
        except SupersededRun as superseded:
            return superseded
        ours = find_our_error(error)
        if ours is not error:
            return ours
        if is_stopped(self._spark):
            return session_stopped(self._spark, _WAY_ON, error)
        return lost_worker(error)

    def _check_newest(self) -> None:
        """Raise an error if a newer start has taken over: in the same session Spark stops the older query silently."""
        with contextlib.suppress(SinkError):  # the checkpoint is gone; the query's own failure is more informative
            check_newest(self._checkpoint.common_part, self._program.fence)

    def _release(self) -> None:
        self._mark.end(superseded=isinstance(self._error, SupersededRun))
        plan = self._staged.plan
        if has_teardown(plan) and not is_stopped(self._spark):
            with settings_of(self._spark, _OF_WORKERS), quick_workers(self._spark, plan.foreign_modules):
                tear_down_workers(self._spark, self._package, self._program.digest, self._checkpoint.shards)

    def _offset(self) -> Offset | None:
        committed = last_committed(self._checkpoint.host_part)
        return None if committed is None else offset_of(self._checkpoint.host_part, committed)[0]

    def _pending_since(self) -> int | None:
        """Return when the current micro-batch started, which is when Spark logged its offsets."""
        committed = read_progress(self._checkpoint.common_part).get("batch", -1)
        offsets = pathlib.Path(self._checkpoint.host_part, "offsets")
        try:
            logged = [path for path in offsets.iterdir() if path.name.isdigit() and int(path.name) > committed]
            return min((path.stat().st_mtime_ns // 1_000 for path in logged), default=None)
        except OSError:  # there are no offsets yet, or Spark is removing some
            return None

    def _is_last(self) -> bool:
        """Return whether the micro-batch that ends the run has been committed.

        Spark's last report says so; where the session keeps no reports, Spark's logs do. A report of an idle query has
        the number of the micro-batch to come, so only Spark's logs tell which micro-batch is the last committed one.
        """
        progress = self.query.lastProgress
        if progress is None:
            keeps_reports = int(str(self._spark.conf.get(_REPORTS_KEPT, "100"))) >= _LEAST_REPORTS
            return not keeps_reports and is_end_committed(self._checkpoint.host_part) and self._is_over()
        for source in progress.sources:
            with contextlib.suppress(ValueError):  # the offsets of other sources may be any text
                offset = own_offset(str(source.endOffset))
                if offset is not None:
                    return bool(offset["last"]) and self._is_over()
        return False

    def _is_over(self) -> bool:
        """Return whether no work is left that outlasts the input, and no micro-batch is being committed."""
        progress = read_progress(self._checkpoint.common_part)
        if progress.get("moment") is not None:
            return False
        committed = last_committed(self._checkpoint.host_part)
        return bool(progress.get("batch", -1) <= (-1 if committed is None else committed))
