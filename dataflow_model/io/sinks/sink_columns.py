"""The columns of a sink: those of the rows, and those that the sink adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType, SinkError
from dataflow_model.plan.columns.nested import without_views
from dataflow_model.plan.columns.rows import check_names

if TYPE_CHECKING:
    from collections.abc import Iterable

_MICROS: Final = pa.timestamp("us", "UTC")
PANE_FIELDS: Final = (
    pa.field("window_start", _MICROS),
    pa.field("window_end", _MICROS),
    pa.field("pane_index", pa.int64()),
    pa.field("pane_timing", pa.string()),
)
"""The columns of `panes=True`; the bounds are null where they are infinite."""
RETRACTION_FIELD: Final = pa.field("is_retraction", pa.bool_())
"""The last column if values may be retracted; true in the rows that retract another one."""


def added_fields(*, panes: bool, retractions: bool) -> tuple[pa.Field, ...]:
    """Return the columns that a sink adds to those of the rows.

    Args:
        panes: whether window and pane are columns.
        retractions: whether values may be retracted, so that a column marks the retractions.
    """
    return (*(PANE_FIELDS if panes else ()), *((RETRACTION_FIELD,) if retractions else ()))


def columns_text(schema: pa.Schema | None) -> tuple[str, ...] | None:
    """Return the names and types of columns as text, which is the same in every version of Arrow.

    Example:
        >>> columns_text(pa.schema([pa.field("key", pa.string(), nullable=False), ("value", pa.int64())]))
        ('key: string not null', 'value: int64')
    """
    return (
        None
        if schema is None
        else tuple(str(field).removeprefix("pyarrow.Field<").removesuffix(">") for field in schema)
    )


def full_schema(schema: pa.Schema, *, panes: bool, retractions: bool) -> pa.Schema:
    """Return the schema with the columns that a sink adds at the end, unless it contains them already.

    Args:
        schema: the rows' own columns.
        panes: as in `added_fields`.
        retractions: likewise.

    Example:
        >>> full_schema(pa.schema({"value": pa.int64()}), panes=True, retractions=True).names
        ['value', 'window_start', 'window_end', 'pane_index', 'pane_timing', 'is_retraction']
    """
    added = added_fields(panes=panes, retractions=retractions)
    names = set(schema.names)
    return pa.schema([*schema, *(field for field in added if field.name not in names)])


def checked_schema(value: Any) -> pa.Schema | None:
    """Return a user's schema with ordinary text and bytes in place of views; `None` stays `None`.

    Raises:
        InvalidType: for anything else.
        InvalidArgument: for two columns of one name, and for a column that cannot be filled with values of Python.
    """
    if value is None:
        return None
    if not isinstance(value, pa.Schema):
        raise InvalidType(
            f"`schema` must be a pyarrow.Schema, got {value!r}",
            hint="use pa.schema({'key': pa.string(), 'value': pa.int64()})",
        )
    check_names(value.names, "give each column of `schema` a name of its own")
    for field in value:
        try:
            pa.array([], field.type)
        except pa.ArrowNotImplementedError as error:
            raise InvalidArgument(
                f"`schema` has a column {field.name!r} of type {field.type}, which no value of Python can be",
                hint="use another type, such as pa.string() or a struct with a field for each kind of value",
            ) from error
    return without_views(value)


def unified_schema(schemas: Iterable[pa.Schema], label: str) -> pa.Schema:
    """Return columns that can hold the rows of several tasks, each of which has inferred its own schema.

    Raises:
        SinkError: if the schemas are incompatible.

    Example:
        >>> unified_schema([pa.schema({"value": pa.int64()}), pa.schema({"value": pa.float64()})], "Write")
        value: double
    """
    try:
        return pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise SinkError(
            f"{label!r} has rows with incompatible columns: {error}", hint="pass schema=pa.schema({…})"
        ) from error


def own_columns(schema: pa.Schema | None, *, panes: bool, retractions: bool) -> pa.Schema | None:
    """Return inferred columns without those that a sink adds.

    Args:
        schema: all columns; `None` if there were no rows.
        panes: as in `added_fields`.
        retractions: likewise.

    Example:
        >>> columns = full_schema(pa.schema({"n": pa.int64()}), panes=False, retractions=True)
        >>> own_columns(columns, panes=False, retractions=True)
        n: int64
    """
    if schema is None:
        return None
    added = {field.name for field in added_fields(panes=panes, retractions=retractions)}
    return pa.schema([field for field in schema if field.name not in added])
