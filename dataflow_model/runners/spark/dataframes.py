"""DataFrames as sources: Spark reads them, and their rows join those of the other sources at stage 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.columns.rows import values_of
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.logical.nodes import MAIN, Read, Write
from dataflow_model.runners.engine.functions.lifetimes import torn_down, torn_down_if_failed
from dataflow_model.runners.engine.lanes.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.lanes.order import Unnumbered, name_of_origin, of_rows, origin_of
from dataflow_model.runners.engine.machines.shard import routed
from dataflow_model.runners.engine.sources.observing import NamedRows, Observer
from dataflow_model.runners.sharded.feed.slices import NOW
from dataflow_model.runners.sharded.outputs.pending import PendingWriter
from dataflow_model.runners.sharded.stages.stage0 import pack_arrivals
from dataflow_model.runners.sharded.stages.tallies import counting
from dataflow_model.runners.sharded.tasks.rows import Kind, Row, arrow_batches
from dataflow_model.runners.spark.collected import numbered_columns
from dataflow_model.runners.spark.deployment.failures import reported
from dataflow_model.runners.spark.deployment.shipping import travelling
from dataflow_model.runners.spark.support import STREAMING
from dataflow_model.runners.spark.tasks import CachedFunctions, this_task
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from dataflow_model.plan.columns.source_columns import BadRow, DecodedRows
    from dataflow_model.runners.engine.lanes.order import At, Order
    from dataflow_model.runners.sharded.tasks.program import PackedProgram
    from dataflow_model.runners.sharded.tasks.task import Task
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics
    from dataflow_model.runners.spark.deployment.package import Package

ROW_TYPE: Final = (
    StructType()
    .add("shard", IntegerType())
    .add("stage", IntegerType())
    .add("bucket", IntegerType())
    .add("kind", StringType())
    .add("payload", BinaryType())
)
"""The columns of `rows.SCHEMA` for Spark. Spark needs its SQL parser for the same as text: a quarter of a second."""
_ARRIVED: Final = "__dataflow_model_arrived__"
"""The column that is added to a stream's rows, with the timestamp of their micro-batch."""

_NUMBERS: Final = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
"""The types whose values can be compared with the position of a row."""


def check_streaming(reads: Sequence[Read], *, until: str | None) -> None:
    """Reject options that a streaming DataFrame does not support.

    Raises:
        InvalidArgument: for a replay clock on rows without an origin column.
        UnsupportedOnRunner: for `until="drained"`, since only Spark knows the current end of the stream.
    """
    for read in reads:
        source = read.source.as_dataframe
        if source is None or source.is_bounded:
            continue
        if source.processing_time is not None and (source.origin is None or source.sequence is None):
            raise InvalidArgument(
                f"{read.label!r} replays the clock in {source.processing_time!r} of a streaming DataFrame, "
                "but no columns say where its rows come from",
                hint="name them (Kafka: origin='partition', sequence='offset'), or leave out processing_time=",
            )
        if until == "drained":
            STREAMING.require(Feature.DRAINING_DATAFRAMES, repr(read.label))


def spark_columns(label: str, schema: pa.Schema) -> StructType:
    """Return the columns of a DataFrame for a `ToDataFrame` sink; timestamps without a zone are `timestamp_ntz`.

    Raises:
        InvalidArgument: for a column of a type that Spark does not have.
    """
    columns: list[StructField] = []
    for field in schema:
        try:
            if pa.types.is_decimal256(field.type) or (pa.types.is_decimal(field.type) and field.type.scale < 0):
                raise TypeError  # noqa: TRY301 - Spark accepts the type and fails on the values
            columns += from_arrow_schema(pa.schema([field]), prefer_timestamp_ntz=True)
        except TypeError as error:
            raise InvalidArgument(
                f"{label!r} has a column {field.name!r} of type {field.type}, which Spark does not have",
                hint="pass schema=pa.schema({…}) with another type, such as pa.int64() or pa.decimal128(38, 0)",
            ) from error
    return StructType(columns)


def with_dataframes(frame: DataFrame, reads: Sequence[Read], packed: PackedProgram, package: Package) -> DataFrame:
    """Return the rows of our source together with those of the DataFrame sources.

    Args:
        frame: the rows of our source.
        reads: the user's sources; a stream that is started again must have its DataFrames in the same order.
        packed: the program, whose sources have no DataFrames.
        package: how executors get the package.
    """
    from pyspark.sql import functions

    for read in reads:
        source = read.source.as_dataframe
        if source is None:
            continue
        names = source.dataframe.columns
        rows = numbered_columns(source.dataframe)
        if rows.isStreaming:
            rows = rows.withColumn(_ARRIVED, functions.current_timestamp())
            names = [*names, _ARRIVED]
        frame = frame.union(rows.mapInArrow(travelling(package, _stage_0, packed, read.label, names), ROW_TYPE))
    return frame


def _stage_0(
    packed: PackedProgram, label: str, names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @reported
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task(packed)
        named = (batch.rename_columns(names) for batch in batches)
        return arrow_batches(counting(task, _rows_of(task, label, named)))

    return run


def _rows_of(task: Task, label: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows for later stages; in a bounded job, output to sinks is written immediately."""
    if not task.program.staged.source(label).is_bounded:
        with torn_down_if_failed(CachedFunctions(task)):
            yield from frame_rows(task, label, batches)
        return
    with PendingWriter(task) as writer:
        with torn_down(task):
            yield from frame_rows(task, label, batches, writer)
        yield from writer.finish()


def frame_rows(
    task: Task, label: str, batches: Iterable[pa.RecordBatch], writer: PendingWriter | None = None
) -> Iterator[Row]:
    """Run stage 0 on one partition of a DataFrame, and yield its elements packed by shard, then its observations.

    With the wall clock a task does not know the tick of its micro-batch: its elements are stamped `NOW`, which the
    receiving shard replaces. If arrival is the event time, it is Spark's timestamp of the micro-batch.

    Args:
        task: the task; its part is the origin of rows without an origin column.
        label: the source's label.
        batches: the partition's rows.
        writer: receives output to sinks, if it is written immediately.
    """
    partition = _Partition(task, label, writer)
    for batch in batches:
        yield from partition.take(batch)
    yield from partition.observations()


class _Partition:
    """Stage 0 on one partition of a DataFrame: what has been read and observed so far."""

    def __init__(self, task: Task, label: str, writer: PendingWriter | None) -> None:
        self._task, self._program, self._label, self._writer = task, task.program, label, writer
        self._read = self._program.staged.read(label)
        source = self._read.source.as_dataframe
        assert source is not None  # noqa: S101 - only DataFrames are read here
        self._source = source
        self._is_replayed = source.processing_time is not None
        self._origin = f"partition {task.part:06d}"
        self._row = 0  # the position of the first row of the current batch
        self._good = self._dead = 0
        self._observers: dict[str, Observer] = {}

    def take(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """Process the next batch, and yield what its elements and its dead letters become."""
        arrived = self._program.wall
        if _ARRIVED in batch.schema.names:
            arrived = _micros(batch.column(_ARRIVED)) if batch.num_rows else arrived
            batch = batch.drop_columns([_ARRIVED])  # this package added the column, not the user
        decoded = self._source.decode(batch)
        yield from self._elements(batch, decoded, arrived)
        yield from self._dead_letters(batch, decoded.bad, arrived)
        self._row += batch.num_rows

    def observations(self) -> Iterator[Row]:
        """Yield the counts and, in a stream, what the partition shows of its origins' progress."""
        counts = {"elements_out": self._good, "dead_letters": self._dead}
        if self._source.is_bounded:
            metrics: TaskMetrics = {
                "depth": 0,
                "shard": self._task.home,
                "counters": {},
                "sources": {self._label: counts},
                "watermarks": {self._label: int(MAX_TIMESTAMP)},
            }
            yield self._task.row_for_commit(Kind.METRICS, metrics)
            return
        for _, observer in sorted(self._observers.items()):
            yield from self._task.rows_for_followers(Kind.SEEN, (observer.seen(), counts))
            counts = {}

    def _elements(self, batch: pa.RecordBatch, decoded: DecodedRows, arrived: int) -> Iterator[Row]:
        count = len(decoded.values)
        produced = [arrived] * count if decoded.clock is None else decoded.clock.tolist()
        times = produced if decoded.event_times is None else decoded.event_times.tolist()
        orders = self._orders(batch, decoded.positions.tolist())
        bundle = Bundle(decoded.values, times, [GLOBAL_ONLY] * count, [NO_FIRING] * count, orders, produced)
        self._observe(bundle)
        self._good += count
        yield from self._through(MAIN, bundle)

    def _dead_letters(self, batch: pa.RecordBatch, bad_rows: Sequence[BadRow], arrived: int) -> Iterator[Row]:
        letters = Bundle()
        orders = self._orders(batch, [bad.index for bad in bad_rows])
        for bad, order in zip(bad_rows, orders, strict=True):
            if self._read.dead_letters is None:
                raise self._source.refusal(self._label, self._origin, self._row, bad)
            letter = self._source.dead_letter(self._label, self._origin, self._row, bad)
            at = arrived if bad.processing_time is None else bad.processing_time
            letters.append(letter, at, GLOBAL_ONLY, NO_FIRING, order, at)
        if letters and self._read.dead_letters is not None:
            self._observe(letters, are_records=False)
            self._dead += len(letters)
            yield from self._through(self._read.dead_letters, letters)

    def _observe(self, bundle: Bundle, *, are_records: bool = True) -> None:
        """Record a stream's observations: by origin with a replay clock, else at the micro-batch's own tick.

        Dead letters are no records, but their ticks are observed too: what waits for a tick is only released once the
        tick is known.
        """
        if self._source.is_bounded:
            return
        bundle = bundle.plain()
        rows: dict[str, list[int]] = {}
        for row, order in enumerate(bundle.orders):
            rows.setdefault(origin_of(order, self._label) if self._is_replayed else self._origin, []).append(row)
        for name, indices in rows.items():
            if name not in self._observers:
                self._observers[name] = Observer(self._label, name, self._source, self._program.awaited.percentiles)
            ticks = np.array([bundle.produced[row] if self._is_replayed else NOW[0] for row in indices], np.int64)
            if not are_records:
                self._observers[name].pass_over(ticks)
                continue
            times = np.array([bundle.times[row] for row in indices], np.int64)
            self._observers[name].take(ticks, times, NamedRows([bundle.values[row] for row in indices]))

    def _orders(self, batch: pa.RecordBatch, indices: list[int]) -> list[Order]:
        """Return the orders of the rows at `indices`, by the columns that the user names, else by position.

        A row whose sequence is null, as it may be in a bad row, is ordered by its position in the partition too.
        Timestamps are taken in UTC: a batch has them in the zone of the session, in which instants may have the same
        clock time.
        """
        source = self._source
        names: str | list[str] = name_of_origin(self._label, self._origin)
        if source.origin is not None:
            column = values_of(batch.column(source.origin))
            names = [name_of_origin(self._label, column[index]) for index in indices]
        numbers: list[Any] = [self._row + index for index in indices]
        if source.sequence is not None:
            kind, column = batch.schema.field(source.sequence).type, values_of(batch.column(source.sequence))
            if not any(is_number(kind) for is_number in _NUMBERS):
                numbers = list(map(Unnumbered, numbers))
            numbers = [
                number if column[index] is None else column[index]
                for number, index in zip(numbers, indices, strict=True)
            ]
        return of_rows(names, numbers)

    def _through(self, tag: str, bundle: Bundle) -> Iterator[Row]:
        """Run the transforms that are fused with the source, and yield what arrives at each cut."""
        arrivals = routed(self._program.staged, self._task.fragment(self._label).run(bundle, tag))
        if self._writer is not None:
            yield from pack_arrivals(self._task, arrivals, writer=self._writer)
            return
        instants: dict[str, list[At]] = {}
        for cut, arrived in arrivals.items():
            known = isinstance(self._program.staged.plan[cut], Write) or self._is_replayed
            instants[cut] = [(tick, 0) for tick in arrived.produced] if known else [NOW] * len(arrived)
        yield from pack_arrivals(self._task, arrivals, instants)


def _micros(column: pa.Array) -> int:
    return int(column.slice(0, 1).cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())[0].as_py())
