"""What a source of a user's yields, compared with what it has said that it yields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.errors import InvalidType, SourceError, shown
from dataflow_model.plan.columns.source_columns import check_time_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.time import Duration, DurationLike


def checked_interval(value: DurationLike) -> Duration:
    """Return the time between two polls of a source, which must not be negative."""
    return nonnegative_duration("poll_interval", value, "use poll_interval='5 seconds', for example")


def checked_retry(value: DurationLike) -> Duration:
    """Return how long a call to a source may fail, which must not be negative."""
    return nonnegative_duration("retry_for", value, "use retry_for=0 for no further calls")


def check_columns(source: ColumnSource, label: str) -> None:
    """Check the columns and the durations that a source of a user's has, when it is applied.

    Raises:
        InvalidType: if they are not a schema of Arrow.
        InvalidArgument: if a column of times does not exist, or a duration is negative.
    """
    if not source.is_users:
        return
    schema: Any = source.schema()
    if not isinstance(schema, pa.Schema):
        raise InvalidType(
            f"the schema of {label!r} must be a schema of Arrow, got {shown(schema)}",
            hint='return pa.schema({"value": pa.int64()}), for example',
        )
    for option, name in (("event_time", source.event_time), ("processing_time", source.processing_time)):
        if isinstance(name, str):
            check_time_column(schema, name, option)
    if source.poll_interval is not None:
        checked_interval(source.poll_interval)
    checked_retry(source.retry_for)


def checked_batches(source: ColumnSource, label: str, batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a source; those of a user's are checked.

    Raises:
        SourceError: for what is no batch, or has other columns than the source.
    """
    if not source.is_users:
        yield from batches
        return
    schema = source.schema()
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise SourceError(
                f"{label!r} must yield batches of Arrow from read(), got {shown(batch)} of type {type(batch).__name__}",
                hint="yield from table.to_batches() for a table, pa.RecordBatch.from_pylist(rows, schema=…) for dicts",
            )
        for field in schema:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                raise SourceError(
                    f"{label!r} read no column {field.name!r}, only {', '.join(batch.schema.names)}",
                    hint="yield batches with the columns of schema()",
                )
            kind = batch.schema.field(index).type
            if kind != field.type:
                raise SourceError(
                    f"{label!r} read column {field.name!r} as {kind}, and its schema says {field.type}",
                    hint="pass schema=self.schema() where the batch is made, or correct schema()",
                )
        yield batch
