"""Bounded DataFrames in a stream: Spark cannot union the two, so the run keeps their rows in a file."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import SessionStopped
from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.columns.rows import values_of
from dataflow_model.plan.columns.source_columns import instants
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.plan.watermarks.estimators import ARRIVAL, Arrival, BoundedOutOfOrderness, WatermarkEstimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.runners.sharded.checkpoint.kept_rows import KeptRows, mapped_rows
from dataflow_model.runners.spark.deployment.failures import is_stopped
from dataflow_model.runners.spark.support import STREAMING
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.program_sources import DataFrameSource
    from dataflow_model.plan.logical.graph import Plan

MOST_BYTES: Final = 64 << 20
"""The maximum size of a bounded DataFrame in a stream."""
_ONLY: Final = "dataframe"
_ROWS: Final = 65_536


@attrs.frozen(kw_only=True, eq=False)
class CollectedSource(ColumnSource):
    """The rows of a bounded DataFrame, in an Arrow file that the driver and the executors can read."""

    path: str
    checksum: int
    event_time: str | Arrival | None = ARRIVAL
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = True
    id_columns: tuple[str, ...] = ()
    event_time_unit: TimeUnit | None = None

    def origins(self) -> list[Origin]:
        """Return the only origin."""
        return [Origin(_ONLY, self._table().num_rows)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows `[start, stop)`."""
        del origin
        table = self._table()
        end = table.num_rows if stop is None else stop
        yield from table.slice(start, end - start).to_batches(_ROWS)

    def schema(self) -> pa.Schema:
        """Return the schema of the file."""
        return self._table().schema

    def _table(self) -> pa.Table:
        _check(self.path, self.checksum)
        return mapped_rows(self.path, None)


@functools.cache
def _check(path: str, checksum: int) -> None:
    """Compare the rows with their checksum, once in each process."""
    mapped_rows(path, checksum)


def collect_bounded(plan: Plan, directory: str) -> Plan:
    """Return a plan in which bounded DataFrames are replaced by files with their rows; a resumed run reuses the files.

    Args:
        plan: the plan.
        directory: the run's own directory, next to Spark's checkpoint.

    Raises:
        SessionStopped: for a DataFrame of a session that was stopped.
        StateCorruption: if kept rows are damaged.
        UnsupportedOnRunner: for a DataFrame of more than 64 MB.
    """
    return plan.changed(lambda node: _collected(node, directory))


def numbered_columns(frame: DataFrame) -> DataFrame:
    """Return a DataFrame with numbers as the names of its columns, for `mapInArrow`.

    Spark looks up the columns by name: it takes `user.id` for the field of a struct, and finds two columns where names
    differ in case only.
    """
    return frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))


def _collected(node: Any, directory: str) -> Any:
    source = node.source.as_dataframe if isinstance(node, Read) else None
    if source is None or not source.is_bounded:
        return node
    rows = KeptRows(directory, node.label)
    checksum = rows.checksum()
    if checksum is None:
        if is_stopped(source.dataframe.sparkSession):
            raise SessionStopped(
                f"{node.label!r} reads a DataFrame of a Spark session that was stopped",
                hint="create the DataFrame anew, with the session that is passed to SparkRunner",
            )
        size = _size(source.dataframe)
        if size > MOST_BYTES:
            STREAMING.require(Feature.LARGE_DATAFRAMES, f"{node.label!r}, which reads {size >> 20} MB,")
        checksum = rows.write(_sorted(source.dataframe.toArrow(), source))
    position = CollectedSource(
        path=str(rows.path),
        checksum=checksum,
        event_time=source.event_time,
        processing_time=source.processing_time,
        watermark=source.watermark,
        watermark_origins=source.watermark_origins,
        id_columns=source.id_columns,
        event_time_unit=source.event_time_unit,
    )
    return attrs.evolve(node, source=position)


def _size(frame: DataFrame) -> int:
    """Return the size of the rows in Arrow format, in bytes, without collecting them."""

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"size": pa.array([sum(batch.nbytes for batch in batches)], pa.int64())})

    return sum(int(row[0]) for row in numbered_columns(frame).mapInArrow(measure, "size long").collect())


def _sorted(table: pa.Table, source: DataFrameSource) -> pa.Table:
    """Return the rows in the order in which they were observed, as far as columns determine it.

    Origins are in natural order of their names, as everywhere: 9 is before 10.
    """
    keys: dict[str, Any] = {}
    if source.processing_time is not None:
        clock, known = instants(table[source.processing_time].combine_chunks(), source.event_time_unit)
        keys["clock"] = pa.array(clock, mask=None if known is None else ~known)
    if source.origin is not None:
        names = map(str, values_of(table[source.origin].combine_chunks()))
        keys["origin"] = pa.array(map(natural, names), pa.string())
    if source.sequence is not None:
        keys["sequence"] = table[source.sequence]
    if not keys:
        return table
    keys["row"] = pa.array(range(table.num_rows), pa.int64())
    return table.take(pa.table(keys).sort_by([(key, "ascending") for key in keys])["row"])
