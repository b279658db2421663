"""A pipeline as one bounded job: read and pack, then for each keyed stage a sorted shuffle, then the sinks."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.micros import wall_clock
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.message_sinks import DataFrameSink
from dataflow_model.plan.endpoints.retries import retried
from dataflow_model.plan.logical.ahead import KeptSink
from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.runners.engine.functions.user_code import source_calls
from dataflow_model.runners.engine.sources.rows_held import with_rows_held
from dataflow_model.runners.reporting import CountedAhead, all_counters, make_report
from dataflow_model.runners.runs.background import BackgroundRun
from dataflow_model.runners.runs.run_folder import RunFolder
from dataflow_model.runners.sharded.commits.progress import read_measured, read_watermarks
from dataflow_model.runners.sharded.commits.publishing import Publisher, read_collected
from dataflow_model.runners.sharded.outputs.pending import Pending
from dataflow_model.runners.sharded.stages.kept_rows import kept_of_rows, read_kept
from dataflow_model.runners.sharded.stages.tallies import counting
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import PackedProgram, Program
from dataflow_model.runners.sharded.tasks.rows import Kind, arrow_batches, rows_of_batches
from dataflow_model.runners.spark.ahead import run_ahead_on_spark
from dataflow_model.runners.spark.dataframes import ROW_TYPE, spark_columns, with_dataframes
from dataflow_model.runners.spark.deployment.executors import check_executors
from dataflow_model.runners.spark.deployment.failures import (
    find_our_error,
    is_stopped,
    lost_worker,
    reported,
    session_stopped,
)
from dataflow_model.runners.spark.deployment.package import ship_package
from dataflow_model.runners.spark.deployment.shipping import ship_program, travelling
from dataflow_model.runners.spark.job import do_work, plan_work, run_buckets
from dataflow_model.runners.spark.job_progress import board_of_job, jobs_of
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.support import BATCH
from dataflow_model.runners.spark.tasks import this_task
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dataflow_model.display import Board
    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.nodes import Read, Ref
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.collections.ahead import Ahead
    from dataflow_model.runners.engine.collections.kept import Kept
    from dataflow_model.runners.reporting import Measured
    from dataflow_model.runners.spark.job import JobWork
    from dataflow_model.runners.spark.runner import SparkRunner
    from dataflow_model.time import EventTime

_ONLY_COMMIT: Final = 0
"""The id of the only commit: a bounded job publishes once."""
_ROWS_A_BUCKET: Final = 500_000
_BUCKETS_UNKNOWN: Final = 8
"""The least number of buckets if the number of rows is unknown, as for a DataFrame."""
_INTERRUPTED_EVERY: Final = 0.2
"""Seconds between two attempts to cancel the job, which may not have begun or may be between two jobs of Spark's."""


def start(runner: SparkRunner, staged: StagedPlan) -> BatchResult:
    """Start the job of a staged plan, after what runs ahead of it.

    Raises:
        InvalidArgument: for a `ToDataFrame` with a column of a type that Spark does not have.
    """
    for write in staged.sinks:
        schema = getattr(write.sink, "schema", None)
        if isinstance(write.sink, DataFrameSink) and schema is not None:
            spark_columns(write.label, schema)
    notes = check_executors(runner.spark, ship_package(runner.spark), staged)
    ahead = run_ahead_on_spark(runner, staged)
    return BatchResult(runner.spark, _Job.of(runner, staged, ahead), ahead.counted, notes)


def start_pass(runner: SparkRunner, staged: StagedPlan, ahead: Ahead) -> BatchResult:
    """Start the job of a pass, whose outputs stay on the executors.

    Args:
        runner: the runner.
        staged: the stages of the pass.
        ahead: what the passes before it have computed.
    """
    return BatchResult(runner.spark, _Job.of(runner, staged, ahead), CountedAhead())


def _row_count(read: Read) -> int | None:
    """Return the number of rows of a source; `None` if it is not known."""
    source = read.source.as_columns
    if source is None:
        return read.source.row_count()
    with source_calls(read.label, "origins", source.is_users):
        return retried(source, read.label, "origins", source.row_count)


@attrs.frozen(eq=False)
class _Job:
    """A job that is ready to run.

    Attributes:
        program: the program that the tasks run.
        frame: the rows that the tasks return.
        folder: the folder of the run.
        rows: the number of rows to read; `None` if unknown.
        frames: what earlier jobs have computed; executors hold it as long as these exist.
    """

    program: Program
    frame: DataFrame
    folder: RunFolder
    rows: int | None
    frames: dict[Ref, DataFrame]

    @classmethod
    def of(cls, runner: SparkRunner, staged: StagedPlan, ahead: Ahead) -> Self:
        """Prepare the job of a staged plan."""
        frames = dict(ahead.frames)
        spark = runner.spark
        shards = runner.shards()
        staged = with_rows_held(bound_plan(ahead.filled(staged)), wall_clock())
        counts = [_row_count(read) for read in staged.sources]
        rows = None if None in counts or frames else sum(count or 0 for count in counts)
        buckets = 1 + sum(count or 0 for count in counts) // (_ROWS_A_BUCKET * shards)
        if rows is None:
            buckets = max(buckets, _BUCKETS_UNKNOWN)
        program = Program(
            staged,
            ahead.sides,
            shard_ids(shards),
            uuid.uuid4().hex[:12],
            buckets,
            lifts(staged, streaming=False),
            wall=wall_clock(),
        )
        package = ship_package(spark)
        folder = RunFolder()
        packed = ship_program(spark, program.pack(), folder.path, shared=False)
        works = plan_work(program, 2 * shards)
        # One row for each task, which reads by itself: for a source of its own Spark would start two more processes.
        tasks = spark.range(0, len(works), 1, len(works))
        read = tasks.mapInArrow(travelling(package, _reading, packed, works), ROW_TYPE)
        frame = with_dataframes(read, staged.sources, packed, package)
        for ref in (ref for read in staged.sources for ref in outputs_of(read) if ref in frames):
            kept = frames[ref].mapInArrow(travelling(package, _reading_kept, packed, ref), ROW_TYPE)
            frame = frame.union(kept)
        for depth in range(1, len(staged.stages) + 1):
            shuffled = frame.repartition(shards, "shard").sortWithinPartitions("stage", "bucket")
            frame = shuffled.mapInArrow(travelling(package, _stage, packed, depth), ROW_TYPE)
        return cls(program, frame, folder, rows, frames)


def _reading(
    packed: PackedProgram, works: Sequence[JobWork]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @reported
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = attrs.evolve(this_task(packed), part=number)
                yield from arrow_batches(counting(task, do_work(task, works[number])))

    return run


def _reading_kept(packed: PackedProgram, ref: Ref) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @reported
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task(packed)
        payloads = (payload for batch in batches for payload in batch.column("payload").to_pylist())
        return arrow_batches(counting(task, read_kept(task, ref, payloads)))

    return run


def _stage(packed: PackedProgram, depth: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @reported
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task(packed)
        return arrow_batches(counting(task, run_buckets(task, depth, rows_of_batches(batches))))

    return run


def pending_of(kind: str, payload: Any) -> Pending:
    """Decode a row that a task returns to the driver: its pending output, or its counts."""
    if kind == Kind.TALLY:
        return Pending(tallies=[payload])
    return payload if kind == Kind.PENDING else Pending(metrics=[payload])


class BatchResult(BackgroundRun):
    """A bounded run; see `PipelineResult`.

    Args:
        spark: the session.
        job: the job.
        counted: what was counted ahead of it.
        notes: what the report says about the executors.
    """

    def __init__(self, spark: SparkSession, job: _Job, counted: CountedAhead, notes: tuple[str, ...] = ()) -> None:
        super().__init__(job.program.staged, "SparkRunner, batch")
        self._counted = counted
        self._notes = notes
        self._spark = spark
        self._job = job  # its folder is deleted with this result
        self._directory = str(job.folder.path)
        self._publisher = Publisher(job.program, self._directory)
        self._is_published = False
        self._size = "" if job.rows is None else f", {job.rows:,} rows to read"
        self._began = wall_clock()
        self._tag = f"dataflow_model-{uuid.uuid4().hex[:8]}"
        self._jobs = jobs_of(spark, self._tag, self._runner)
        self._stop = threading.Event()
        self._frame = job.frame
        self._start()

    def stop(self) -> None:
        """Cancel the job; nothing is published, unless publishing has begun: then the run ends as if not stopped."""
        self._stop.set()
        while self._thread.is_alive() and self._may_wait():
            self._spark.interruptTag(self._tag)
            self._thread.join(_INTERRUPTED_EVERY)

    def signal(self, name: str) -> None:
        """Raise an error: a bounded job has no ticks at which a signal could take effect."""
        BATCH.require(Feature.SIGNALS, f"signal({name!r})")

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counters by transform label; empty before the end."""
        return all_counters(self._counted.in_measured(read_measured(self._directory, self._staged.whole)))

    def report(self) -> RunReport:
        """Return the report of the run; before the end it contains only the duration so far."""
        return attrs.evolve(make_report(self._staged, self.measured()), notes=self._notes)

    def measured(self) -> Measured:
        """Return the current measurements of the run."""
        pending = self._began if self._state is RunnerState.RUNNING else None
        return self._counted.in_measured(read_measured(self._directory, self._staged.whole, pending))

    def watermarks(self) -> Mapping[str, EventTime]:
        """Return +∞ for every source and keyed node, once the run is over."""
        return self._counted.with_watermarks(read_watermarks(self._directory))

    def kept_rows(self, sink: KeptSink) -> DataFrame:
        """Return the rows of a collection that the job has kept; executors hold them as long as this exists."""
        frame = self._frame
        return frame.filter((frame.kind == Kind.KEPT) & (frame.bucket == sink.number)).select("payload")

    def kept(self, sink: KeptSink) -> Kept:
        """Return a collection that the job has kept."""
        return kept_of_rows(bytes(row.payload) for row in self.kept_rows(sink).collect())

    def _records_of(self, label: str) -> list[Record]:
        return read_collected(self._directory, label)

    def dataframe(self, label: str) -> DataFrame:
        """Return the records of the `io.ToDataFrame` sink with this label as a Spark DataFrame.

        Raises:
            InvalidArgument: if the label belongs to another sink, or a column has a type that Spark does not have.
        """
        node = self._staged.plan[label]
        sink = getattr(node, "sink", None)
        if not isinstance(sink, DataFrameSink):
            raise InvalidArgument(f"{label!r} is not a ToDataFrame sink", hint="use dm.io.ToDataFrame()")
        table = sink.table(self.collected(label))
        return self._spark.createDataFrame(table, spark_columns(label, table.schema))

    def _execute(self) -> RunnerState:
        self._spark.addTag(self._tag)
        rows: list[Any] = []
        try:
            if not self._stop.is_set():
                with self._jobs.followed():
                    rows = self._returned()
        except Exception:
            if not self._stop.is_set():
                raise
        if self._stop.is_set():
            return RunnerState.STOPPED
        self._log.retried(sum(stage.failed for stage in self._jobs.stages()))
        self._publisher.commit(_ONLY_COMMIT, [pending_of(row.kind, load(bytes(row.payload))) for row in rows])
        self._is_published = True
        return RunnerState.DONE

    def _returned(self) -> list[Any]:
        """Run the job, and return the rows of the tasks; what it keeps stays where it is, and is computed once."""
        if any(isinstance(write.sink, KeptSink) for write in self._staged.sinks):
            self._frame = self._frame.localCheckpoint()
        returned = self._frame.filter(self._frame.kind != Kind.KEPT)
        return returned.select("kind", "payload").collect()

    def _release(self) -> None:
        if not self._is_published:
            self._publisher.abort(_ONLY_COMMIT, [])

    def _board(self) -> Board:
        """Return the progress of Spark's stages; the counts of the tasks are known only at the end."""
        if self._state is not RunnerState.RUNNING:
            return super()._board()
        return board_of_job(self._staged, self._jobs.stages(), f"{self._standing()}{self._size}")

    def _reported(self, error: BaseException) -> BaseException:
        ours = find_our_error(error)
        if ours is not error:
            return ours
        if is_stopped(self._spark):
            return session_stopped(
                self._spark, "nothing was published; create a new session and run the pipeline again", error
            )
        return lost_worker(error)
