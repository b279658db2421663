"""Tables in memory as sources: pandas, Polars and Arrow."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType, SourceError
from dataflow_model.io.arguments import check_arguments, with_label_hints
from dataflow_model.io.files.file_source import BATCH_ROWS, checked_time
from dataflow_model.io.read import ReadRows, checked_row_type, checked_watermark
from dataflow_model.overriding import override
from dataflow_model.plan.columns.nested import without_views
from dataflow_model.plan.columns.source_columns import at_the_beginning, check_time_column, instants
from dataflow_model.plan.columns.time_units import TimeUnit, check_unit, check_unit_of_columns, checked_unit
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.functions.typevars import ElementT, ResultT
from dataflow_model.plan.watermarks.estimators import Explicit, check_estimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOptions, WatermarkOrigins, origins_of
from dataflow_model.transforms.endpoints.tables import arrow_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dataflow_model.plan.columns.source_columns import Columns
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.pipelines.pcollection import PCollection

_NAME = "table"
_HEAD = 65_536
"""How many rows are looked at for the unit of times."""


@attrs.frozen(kw_only=True, eq=False)
class TableSource(ColumnSource):
    """The rows of a table that the program holds; they are one origin.

    Attributes:
        table: the columns.
        digest: of the rows, so that a resumed run does not continue with another table.
    """

    table: pa.Table = attrs.field(repr=False)
    event_time: str | Arrival | None = attrs.field(converter=checked_time)
    processing_time: str | None = None
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)
    watermark: WatermarkEstimator
    watermark_origins: WatermarkOrigins = EVERYTHING
    digest: str = attrs.field(repr=False, default=attrs.Factory(lambda self: _digest_of(self.table), takes_self=True))
    is_typed: ClassVar[bool] = True

    @property
    @override
    def contents(self) -> str:
        return "a table"

    holds_rows: ClassVar[bool] = True
    sorted_by_clock: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        """Check the columns of time, and the order of the replay clock."""
        check_estimator(self.watermark)
        self.row_type()
        schema = self.table.schema
        for option, name in (("event_time", self.event_time), ("processing_time", self.processing_time)):
            if isinstance(name, str):
                check_time_column(schema, name, option)
        times = [name for name in (self.event_time, self.processing_time) if isinstance(name, str)]
        check_unit_of_columns(schema, times, self.event_time_unit)
        for option, name in (("event_time", self.event_time), ("processing_time", self.processing_time)):
            if self.event_time_unit is None and isinstance(name, str):
                check_unit(self.table.column(name).slice(0, _HEAD).combine_chunks(), name, option)
        by = self.watermark_origins.by_column
        if by is not None and by not in schema.names:
            raise InvalidArgument(f"there is no column {by!r}", hint=f"the columns are {', '.join(schema.names)}")
        if self.processing_time is not None:
            self._check_order(self.processing_time)

    def origins(self) -> list[Origin]:
        """Return the only origin, with all its rows."""
        return [Origin(_NAME, self.table.num_rows, (self.digest,))]

    def version_of(self, origin: str) -> tuple[str]:
        """Return the digest of the rows."""
        del origin
        return (self.digest,)

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` if the run began with other rows."""
        if version != (self.digest,):
            raise SourceError(
                f"the {origin} does not have the rows with which the run began",
                hint="pass the same table, or start a new run with another checkpoint",
            )

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Return rows `[start, stop)`."""
        del origin
        stop = self.table.num_rows if stop is None else stop
        yield from self.table.slice(start, stop - start).to_batches(max_chunksize=BATCH_ROWS)

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch; without event times, the rows are at −∞, as the elements of `Create` are."""
        columns = super().columns_of(batch)
        return at_the_beginning(columns) if self.event_time is None else columns

    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return self.table.schema

    def size(self) -> int:
        """Return how many bytes the columns take."""
        return int(self.table.nbytes)

    def project(self, columns: Collection[str]) -> Self:
        """Return the source with only these columns and those of time and watermark."""
        if isinstance(self.watermark, Explicit):
            return self  # its predicate may look at any column
        needed = {self.event_time, self.processing_time, self.watermark_origins.by_column}
        names = [name for name in self.table.column_names if name in columns or name in needed]
        return attrs.evolve(self, table=self.table.select(names))

    def _check_order(self, name: str) -> None:
        times, known = instants(self.table.column(name).combine_chunks())
        indices = np.arange(len(times)) if known is None else np.flatnonzero(known)
        backward = np.flatnonzero(np.diff(times[indices]) < 0)
        if len(backward):
            row = int(indices[backward[0] + 1])
            values = self.table.column(name)
            raise InvalidArgument(
                f"the table is not sorted by its replay clock: column {name!r} goes backward from "
                f"{values[int(indices[backward[0]])].as_py()} to {values[row].as_py()} at row {row}",
                hint=f"sort it by {name!r}, or leave `processing_time` out (the wall clock)",
            )


@with_label_hints()
class ReadTable(ReadRows[ResultT]):
    """Read the rows of a table that the program holds, as named tuples, on every runner.

    The rows keep their order. They travel to workers with the pipeline; write large tables to Parquet files first.

    Args:
        table: a pandas or Polars DataFrame, a table, batches or a reader of Arrow, or anything else with Arrow's
            PyCapsule interface. None of the libraries is imported. A pandas index with a name is a column.
        event_time, event_time_unit, processing_time, watermark, row_type, options: as in `ReadParquet`, without those
            for files.

    Raises:
        InvalidType: for what is no table, or has a column that Arrow cannot hold.
        InvalidArgument: for a time column that is not there, two columns of one name, options for files, or a table
            that is not sorted by its replay clock.

    Example:
        >>> import pandas as pd
        >>> import dataflow_model as dm
        >>> frame = pd.DataFrame({"at": pd.to_datetime(["2013-01-01T10:42Z", "2013-01-01T11:05Z"]), "delay": [4, 6]})
        >>> p = dm.Pipeline()
        >>> rows = p | dm.io.ReadTable(frame, event_time="at")
        >>> hours = rows | dm.Map(lambda row: ("delays", row.delay)) | dm.Window.into(dm.FixedWindows("1 hour"))
        >>> _ = hours | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.collected("sums")]
        [('delays', 4), ('delays', 6)]
    """

    @overload
    def __init__(
        self: ReadTable[PCollection],
        table: Any,
        *,
        event_time: str | Arrival | None,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        row_type: None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ReadTable[PCollection[ElementT]],
        table: Any,
        *,
        event_time: str | Arrival | None,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        row_type: type[ElementT],
        **options: Unpack[WatermarkOptions],
    ) -> None: ...

    def __init__(
        self,
        table: Any,
        *,
        event_time: str | Arrival | None,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        row_type: type[Any] | None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None:
        check_arguments(type(self), options)
        typed_rows = None if row_type is None else checked_row_type(row_type)
        columns = arrow_table(table, "ReadTable")
        if columns is None:
            raise InvalidType(
                f"ReadTable takes a DataFrame of pandas or Polars or a table of Arrow, got {type(table).__name__}",
                hint="use dm.Create([…]) for values",
            )
        index: Any = getattr(table, "index", None)  # of pandas
        is_left_out = type(index).__name__ == "DatetimeIndex" and index.name is None
        if is_left_out and isinstance(event_time, str) and event_time not in columns.column_names:
            raise InvalidArgument(
                f"`event_time` names the column {event_time!r}, which does not exist, and the index has no name",
                hint=f"name the index, which is then a column: frame.rename_axis({event_time!r})",
            )
        origins = origins_of(options)
        if origins.by == "file" or origins.max_skew is not None:
            raise InvalidArgument(
                f"a table has no files that could be origins or wait, got {origins.describe()}",
                hint="name a column as `watermark_origin`, and leave `max_skew` out",
            )
        source = TableSource(
            table=columns.cast(without_views(columns.schema)).replace_schema_metadata(None),
            event_time=event_time,
            event_time_unit=event_time_unit,
            processing_time=processing_time,
            watermark=checked_watermark(event_time, watermark, origins),
            watermark_origins=origins,
        )
        if typed_rows is not None:
            typed_rows.check_columns(source.schema())
            source = source.project(typed_rows.names)
        super().__init__(source, element_type=source.row_type())
        self.typed_rows = typed_rows


def _digest_of(table: pa.Table) -> str:
    digest = hashlib.blake2b(digest_size=8)
    indices = pa.array(np.arange(table.num_rows))
    columns = [
        column.combine_chunks().take(indices) if column.null_count or pa.types.is_nested(column.type) else column
        for column in table.columns
    ]  # what is stored in the place of a null depends on how it was computed, unless it was taken
    with pa.ipc.new_stream(_Hashing(digest), table.schema) as writer:
        writer.write_table(pa.table(columns, schema=table.schema).combine_chunks())
    return digest.hexdigest()


class _Hashing:
    """A file that only takes the digest of what is written to it."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
