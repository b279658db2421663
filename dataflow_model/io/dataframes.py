"""Reading a Spark DataFrame that the user hands in."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Unpack, overload

import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.arguments import check_arguments, with_label_hints
from dataflow_model.io.read import ReadRows, checked_row_type
from dataflow_model.plan.columns.rows import row_type as type_of_rows
from dataflow_model.plan.columns.source_columns import check_time_column
from dataflow_model.plan.columns.time_units import check_unit_of_columns
from dataflow_model.plan.endpoints.program_sources import DataFrameSource
from dataflow_model.plan.functions.typevars import ElementT, ResultT
from dataflow_model.plan.watermarks.estimators import BoundedOutOfOrderness, check_estimator
from dataflow_model.plan.watermarks.origins import WatermarkOptions, origins_of
from dataflow_model.time import Duration, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.pipelines.pcollection import PCollection


@with_label_hints()
class ReadDataFrame(ReadRows[ResultT]):
    """Read the rows of a Spark DataFrame, batch or streaming (Kafka included), as named tuples; on Spark runners only.

    Args:
        df: the DataFrame.
        event_time: the column of the rows' event times, or `dm.ARRIVAL`; forms as in `ReadParquet`.
        event_time_unit: as in `ReadParquet`, except that a missing one is not noticed.
        processing_time: the column of the replay clock; on a stream, it also requires `origin` and `sequence`.
        watermark: an estimator, or the delay of a `BoundedOutOfOrderness`; by default `BoundedOutOfOrderness(0)`.
        origin: the column that says where a row comes from (topic and partition, file).
        sequence: the column that numbers the rows of an origin, such as Kafka's offset.
        id_columns: the columns that together name a row, for `record_id` and `Deduplicate`: Kafka's
            `("topic", "partition", "offset")`; by default `origin` and `sequence`, where both are given.
        row_type, watermark_origin, partitions, idle_after, weight: as in `ReadParquet`; a Kafka topic's origin is
            `"partition"`.

    Raises:
        InvalidArgument: if a column does not exist, for a `sequence` of lists, maps or structs, for `max_skew` (Spark
            reads by itself), or for a replay clock on a stream without `origin` and `sequence`.
        InvalidType: if `df` is not a Spark DataFrame.
    """

    @overload
    def __init__(
        self: ReadDataFrame[PCollection],
        df: Any,
        *,
        event_time: str | Arrival,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        origin: str | None = None,
        sequence: str | None = None,
        id_columns: Sequence[str] = (),
        row_type: None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ReadDataFrame[PCollection[ElementT]],
        df: Any,
        *,
        event_time: str | Arrival,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        origin: str | None = None,
        sequence: str | None = None,
        id_columns: Sequence[str] = (),
        row_type: type[ElementT],
        **options: Unpack[WatermarkOptions],
    ) -> None: ...

    def __init__(  # noqa: PLR0913 - a DataFrame says nothing about where its rows come from
        self,
        df: Any,
        *,
        event_time: str | Arrival,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        origin: str | None = None,
        sequence: str | None = None,
        id_columns: Sequence[str] = (),
        row_type: type[Any] | None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None:
        check_arguments(type(self), options)
        typed_rows = None if row_type is None else checked_row_type(row_type)
        if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):
            raise InvalidType(
                f"ReadDataFrame takes a Spark DataFrame, got {type(df).__name__}",
                hint="create one with spark.createDataFrame(…)",
            )
        schema = _arrow_schema(df)
        if typed_rows is not None:
            typed_rows.check_columns(schema)
        for option, name in (("event_time", event_time), ("processing_time", processing_time)):
            if isinstance(name, str):
                check_time_column(schema, name, option)
        times = [name for name in (event_time, processing_time) if isinstance(name, str)]
        check_unit_of_columns(schema, times, event_time_unit)
        origins = origins_of(options)
        if origins.max_skew is not None:
            raise InvalidArgument(
                "`max_skew` is not supported for DataFrames, since it would make a source wait and Spark reads a "
                f"DataFrame by itself, got {duration_text(origins.max_skew)!r}",
                hint="leave it out, or read files with dm.io.ReadParquet, which supports it",
            )
        ids = (id_columns,) if isinstance(id_columns, str) else tuple(id_columns)
        named = [("origin", origin), ("sequence", sequence), ("watermark_origin", origins.by)]
        for option, name in [*named, *(("id_columns", column) for column in ids)]:
            if name is not None and name not in schema.names:
                raise InvalidArgument(
                    f"`{option}` names the column {name!r}, which does not exist",
                    hint=f"the columns are {', '.join(schema.names)}",
                )
        if sequence is not None and pa.types.is_nested(schema.field(sequence).type):
            raise InvalidArgument(
                f"`sequence` column {sequence!r} has type {schema.field(sequence).type}, whose values have no order",
                hint="use a column of numbers, text or timestamps",
            )
        if df.isStreaming and processing_time is not None and (origin is None or sequence is None):
            raise InvalidArgument(
                f"a replay clock on a streaming DataFrame needs the rows' own order, got origin={origin!r}, "
                f"sequence={sequence!r}",
                hint="pass the names of such columns as `origin` and `sequence` (in Kafka, the partition and the "
                "offset), or leave `processing_time` out",
            )
        source = DataFrameSource(
            dataframe=df,
            columns=schema,
            event_time=event_time,
            event_time_unit=event_time_unit,
            processing_time=processing_time,
            watermark=BoundedOutOfOrderness(Duration(0)) if watermark is None else check_estimator(watermark),
            is_bounded=not df.isStreaming,
            origin=origin,
            sequence=sequence,
            watermark_origins=origins,
            id_columns=ids or ((origin, sequence) if origin is not None and sequence is not None else ()),
        )
        super().__init__(source, element_type=type_of_rows(schema))
        self.typed_rows = typed_rows


def _arrow_schema(df: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before PySpark 4.2, the timestamps of the Arrow schema were always in UTC, and the parameter did not exist.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    schema: pa.Schema = to_arrow_schema(df.schema, **zone)
    return schema
