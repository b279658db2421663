"""Rows that are columns already, in the types of a sink's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dataflow_model.plan.columns.element_columns import BATCH_BYTES, infinities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def parts_of(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in parts of `BATCH_BYTES` at most, or of a single row."""
    if table.nbytes <= BATCH_BYTES or table.num_rows <= 1:
        yield table
        return
    middle = table.num_rows // 2
    yield from parts_of(table.slice(0, middle))
    yield from parts_of(table.slice(middle))


def cast_columns(table: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return the table with the schema's columns, or `None` if its rows must be fitted one by one.

    Example:
        >>> cast_columns(pa.table({"n": pa.array([1], pa.int32())}), pa.schema({"n": pa.int64()})).schema
        n: int64
        >>> print(cast_columns(pa.table({"n": ["1"]}), pa.schema({"n": pa.int64()})))
        None
    """
    present = set(table.column_names)
    if not present.issubset(schema.names):
        return None
    columns = []
    for field in schema:
        column = table[field.name] if field.name in present else pa.nulls(table.num_rows, field.type)
        if column.null_count and not field.nullable:
            return None
        if column.type != field.type:
            if not _widens(column.type, field.type):
                return None
            try:
                cast = column.cast(field.type)
            except pa.ArrowException:
                return None
            if sum(map(infinities, cast.chunks)) > sum(map(infinities, column.chunks)):
                return None
            column = cast
        columns.append(column)
    return pa.table(columns, schema=schema)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type may be cast to the other; the cast still fails for one that does not fit."""
    same: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_timestamp,
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    )
    if pa.types.is_dictionary(given):
        return _widens(given.value_type, wanted) or given.value_type == wanted
    return (
        any(test(given) and test(wanted) for test in same)
        or pa.types.is_null(given)
        or (pa.types.is_integer(given) and pa.types.is_floating(wanted))
    )
