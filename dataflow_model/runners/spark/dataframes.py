"""DataFrames as sources: Spark reads them, and their rows join those of the other sources at stage 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.features import Feature
from dataflow_model.plan.nodes import MAIN, Read, Write
from dataflow_model.plan.rows import values_of
from dataflow_model.runners.engine.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.observing import NamedRows, Observer
from dataflow_model.runners.engine.order import Unnumbered, name_of_origin, of_rows, origin_of
from dataflow_model.runners.engine.shard import routed
from dataflow_model.runners.sharded.feed.slices import NOW
from dataflow_model.runners.sharded.pending import PendingWriter
from dataflow_model.runners.sharded.rows import Kind, Row, arrow_batches
from dataflow_model.runners.sharded.stage0 import pack_arrivals
from dataflow_model.runners.sharded.tallies import counting
from dataflow_model.runners.spark.collected import numbered_columns
from dataflow_model.runners.spark.failures import reported
from dataflow_model.runners.spark.support import STREAMING
from dataflow_model.runners.spark.tasks import this_task
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from dataflow_model.plan.sources import DataFrameSource
    from dataflow_model.runners.engine.order import At, Order
    from dataflow_model.runners.sharded.program import PackedProgram, Program
    from dataflow_model.runners.sharded.task import Task
    from dataflow_model.runners.sharded.task_metrics import TaskMetrics

__all__ = ["ROW_TYPE", "check_streaming", "frame_rows", "with_dataframes"]

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


def with_dataframes(frame: DataFrame, reads: Sequence[Read], packed: PackedProgram) -> DataFrame:
    """Return the rows of our source together with those of the DataFrame sources.

    Args:
        frame: the rows of our source.
        reads: the user's sources, with their DataFrames.
        packed: the program, whose sources have no DataFrames.
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
        frame = frame.union(rows.mapInArrow(_stage_0(packed, read.label, names), ROW_TYPE))
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
        yield from frame_rows(task, label, batches)
        return
    with PendingWriter(task) as writer:
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
    program = task.program
    read = program.staged.read(label)
    source = read.source.as_dataframe
    assert source is not None  # noqa: S101 - only DataFrames are read here
    origin = f"partition {task.part:06d}"
    observers: dict[str, Observer] = {}
    good = dead = row = 0
    for batch in batches:
        arrived = program.wall
        if _ARRIVED in batch.schema.names:
            arrived = _micros(batch.column(_ARRIVED)) if batch.num_rows else arrived
            batch = batch.drop_columns([_ARRIVED])  # noqa: PLW2901 - this package added the column, not the user
        decoded = source.decode(batch)
        count = len(decoded.values)
        produced = [arrived] * count if decoded.clock is None else decoded.clock.tolist()
        times = produced if decoded.event_times is None else decoded.event_times.tolist()
        orders = _orders(source, label, origin, batch, row, decoded.positions.tolist())
        bundle = Bundle(decoded.values, times, [GLOBAL_ONLY] * count, [NO_FIRING] * count, orders, produced)
        if not source.is_bounded:
            _observe(observers, program, label, origin, bundle)
        good += count
        yield from _through(task, label, MAIN, bundle, writer)
        letters = Bundle()
        bad_orders = _orders(source, label, origin, batch, row, [bad.index for bad in decoded.bad])
        for bad, order in zip(decoded.bad, bad_orders, strict=True):
            if read.dead_letters is None:
                raise source.refusal(label, origin, row, bad)
            letter = source.dead_letter(label, origin, row, bad)
            at = arrived if bad.processing_time is None else bad.processing_time
            letters.append(letter, at, GLOBAL_ONLY, NO_FIRING, order, at)
        if letters and read.dead_letters is not None:
            if not source.is_bounded:
                _observe(observers, program, label, origin, letters, are_records=False)
            dead += len(letters)
            yield from _through(task, label, read.dead_letters, letters, writer)
        row += batch.num_rows
    counts = {"elements_out": good, "dead_letters": dead}
    if source.is_bounded:
        metrics: TaskMetrics = {
            "depth": 0,
            "shard": task.home,
            "counters": {},
            "sources": {label: counts},
            "watermarks": {label: int(MAX_TIMESTAMP)},
        }
        yield task.row_for_commit(Kind.METRICS, metrics)
        return
    for _, observer in sorted(observers.items()):
        yield from task.rows_for_followers(Kind.SEEN, (observer.seen(), counts))
        counts = {}


def _observe(
    observers: dict[str, Observer],
    program: Program,
    label: str,
    origin: str,
    bundle: Bundle,
    *,
    are_records: bool = True,
) -> None:
    """Record a partition's observations: by origin with a replay clock, else at the micro-batch's own tick.

    Dead letters are no records, but their ticks are observed too: what waits for a tick is only released once the tick
    is known.
    """
    source = program.staged.source(label)
    replayed = source.processing_time is not None
    rows: dict[str, list[int]] = {}
    for row, order in enumerate(bundle.orders):
        rows.setdefault(origin_of(order) if replayed else origin, []).append(row)
    for name, indices in rows.items():
        if name not in observers:
            observers[name] = Observer(label, name, source, program.awaited.percentiles)
        ticks = np.array([bundle.produced[row] if replayed else NOW[0] for row in indices], np.int64)
        if not are_records:
            observers[name].pass_over(ticks)
            continue
        times = np.array([bundle.times[row] for row in indices], np.int64)
        observers[name].take(ticks, times, NamedRows([bundle.values[row] for row in indices]))


def _orders(
    source: DataFrameSource, label: str, origin: str, batch: pa.RecordBatch, row: int, places: list[int]
) -> list[Order]:
    """Return the order of rows of a batch, by the columns that the user names, else by position in the partition.

    A row whose sequence is null, as it may be in a bad row, is ordered by its position too. Timestamps are taken in
    UTC: a batch has them in the zone of the session, in which instants may have the same clock time.

    Args:
        source: the source.
        label: its label.
        origin: the origin of rows without an origin column.
        batch: the batch.
        row: the position of the first row of the batch in the partition.
        places: the rows of the batch whose orders are returned.
    """
    names: str | list[str] = name_of_origin(label, origin)
    if source.origin is not None:
        column = values_of(batch.column(source.origin))
        names = [name_of_origin(label, column[place]) for place in places]
    numbers: list[Any] = [row + place for place in places]
    if source.sequence is not None:
        kind, column = batch.schema.field(source.sequence).type, values_of(batch.column(source.sequence))
        if not any(is_number(kind) for is_number in _NUMBERS):
            numbers = list(map(Unnumbered, numbers))
        numbers = [
            number if column[place] is None else column[place] for number, place in zip(numbers, places, strict=True)
        ]
    return of_rows(names, numbers)


def _through(task: Task, label: str, tag: str, bundle: Bundle, writer: PendingWriter | None) -> Iterator[Row]:
    program = task.program
    arrivals = routed(program.staged, task.fragment(label).run(bundle, tag))
    if writer is not None:
        yield from pack_arrivals(task, arrivals, writer=writer)
        return
    replays = program.staged.source(label).processing_time is not None
    places: dict[str, list[At]] = {}
    for cut, arrived in arrivals.items():
        known = isinstance(program.staged.plan[cut], Write) or replays
        places[cut] = [(tick, 0) for tick in arrived.produced] if known else [NOW] * len(arrived)
    yield from pack_arrivals(task, arrivals, places)


def _micros(column: pa.Array) -> int:
    return int(column.slice(0, 1).cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())[0].as_py())
