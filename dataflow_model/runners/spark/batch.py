"""A pipeline as one bounded job: read and pack, then for each keyed stage a sorted shuffle, then the sinks."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.micros import wall_clock
from dataflow_model.plan.features import Feature
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.message_sinks import DataFrameSink
from dataflow_model.plan.runner import RunnerState
from dataflow_model.runners.background import BackgroundRun
from dataflow_model.runners.reporting import make_report
from dataflow_model.runners.sharded.bound import bound_plan
from dataflow_model.runners.sharded.pending import Pending
from dataflow_model.runners.sharded.program import PackedProgram, Program
from dataflow_model.runners.sharded.progress import read_counters, read_measured, read_watermarks
from dataflow_model.runners.sharded.publishing import Publisher, read_collected
from dataflow_model.runners.sharded.rows import Kind, arrow_batches, rows_of_batches
from dataflow_model.runners.sharded.tallies import counting
from dataflow_model.runners.spark.dataframes import ROW_TYPE, spark_columns, with_dataframes
from dataflow_model.runners.spark.failures import find_our_error, is_stopped, lost_worker, reported, session_stopped
from dataflow_model.runners.spark.job import do_work, plan_work, run_buckets
from dataflow_model.runners.spark.job_progress import board_of_job, jobs_of
from dataflow_model.runners.spark.run_folder import RunFolder
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.shipping import ship_package, ship_program
from dataflow_model.runners.spark.static_sides import spark_static_sides
from dataflow_model.runners.spark.support import BATCH
from dataflow_model.runners.spark.tasks import this_task
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dataflow_model.display import Board
    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.records import Record
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.reporting import CountedAhead, Measured
    from dataflow_model.runners.spark.job import JobWork
    from dataflow_model.runners.spark.runner import SparkRunner
    from dataflow_model.time import EventTime

__all__ = ["BatchResult", "start"]

_ONLY_COMMIT: Final = 0
"""The id of the only commit: a bounded job publishes once."""
_ROWS_A_BUCKET: Final = 500_000
_BUCKETS_UNKNOWN: Final = 8
"""The least number of buckets if the number of rows is unknown, as for a DataFrame."""
_INTERRUPTED_EVERY: Final = 0.2
"""Seconds between two attempts to cancel the job, which may not have begun or may be between two jobs of Spark's."""


def start(runner: SparkRunner, staged: StagedPlan) -> BatchResult:
    """Start the job of a staged plan.

    Raises:
        InvalidArgument: for a `ToDataFrame` with a column of a type that Spark does not have.
    """
    spark = runner.spark
    for write in staged.sinks:
        schema = getattr(write.sink, "schema", None)
        if isinstance(write.sink, DataFrameSink) and schema is not None:
            spark_columns(write.label, schema)
    ship_package(spark)
    shards = runner.shards()
    ids = shard_ids(shards)
    sides = spark_static_sides(runner, staged)
    staged = bound_plan(staged)
    counts = [read.source.row_count() for read in staged.sources]
    rows = sum(count or 0 for count in counts)
    buckets = 1 + rows // (_ROWS_A_BUCKET * shards)
    lifted = lifts(staged, streaming=False)
    if None in counts:
        buckets = max(buckets, _BUCKETS_UNKNOWN)
    program = Program(
        staged,
        sides.values,
        ids,
        uuid.uuid4().hex[:12],
        buckets,
        lifted,
        wall=wall_clock(),
    )
    folder = RunFolder()
    packed = ship_program(spark, program.pack(), folder.path, shared=False)
    works = plan_work(program, 2 * shards)
    # One row for each task, which reads by itself: for a source of its own Spark would start two more processes.
    tasks = spark.range(0, len(works), 1, len(works))
    frame = with_dataframes(tasks.mapInArrow(_reading(packed, works), ROW_TYPE), staged.sources, packed)
    for depth in range(1, len(staged.stages) + 1):
        shuffled = frame.repartition(shards, "shard").sortWithinPartitions("stage", "bucket")
        frame = shuffled.mapInArrow(_stage(packed, depth), ROW_TYPE)
    size = None if None in counts else rows
    return BatchResult(spark, frame.select("kind", "payload"), program, sides.counted, folder, size)


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
        frame: the rows that the tasks return.
        program: the program that the tasks run.
        counted: what was counted while its static side inputs were computed.
        folder: the folder of the run.
        rows: the number of rows to read; `None` if unknown.
    """

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame,
        program: Program,
        counted: CountedAhead,
        folder: RunFolder,
        rows: int | None,
    ) -> None:
        super().__init__(program.staged, "SparkRunner, batch")
        self._counted = counted
        self._spark = spark
        self._folder = folder  # kept alive: it is deleted with this result
        self._directory = str(folder.path)
        self._publisher = Publisher(program, self._directory)
        self._is_published = False
        self._size = "" if rows is None else f", {rows:,} rows to read"
        self._began = wall_clock()
        self._tag = f"dataflow_model-{uuid.uuid4().hex[:8]}"
        self._jobs = jobs_of(spark, self._tag, self._runner)
        self._stop = threading.Event()
        self._frame = frame
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
        return self._counted.added_to(read_counters(self._directory, self._staged.plan))

    def report(self) -> RunReport:
        """Return the report of the run; before the end it contains only the duration so far."""
        return make_report(self._staged, self.measured())

    def measured(self) -> Measured:
        """Return the current measurements of the run."""
        pending = self._began if self._state is RunnerState.RUNNING else None
        return self._counted.in_measured(read_measured(self._directory, self._staged.plan, pending))

    def watermarks(self) -> Mapping[str, EventTime]:
        """Return +∞ for every source and keyed node, once the run is over."""
        return read_watermarks(self._directory)

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
                    rows = self._frame.collect()
        except Exception:
            if not self._stop.is_set():
                raise
        if self._stop.is_set():
            return RunnerState.STOPPED
        self._log.retried(sum(stage.failed for stage in self._jobs.stages()))
        self._publisher.commit(_ONLY_COMMIT, [pending_of(row.kind, load(bytes(row.payload))) for row in rows])
        self._is_published = True
        return RunnerState.DONE

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
            return session_stopped("nothing was published; create a new session and run the pipeline again", error)
        return lost_worker(error)
