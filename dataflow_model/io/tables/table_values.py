"""Convert values for a database, and find those that it cannot hold; done by workers, without a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.plan.columns.rows import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def column_values(column: pa.Array) -> list[Any]:
    """Return the values of a column in the form in which the database's driver accepts them."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.date32())
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"))
    return values_of(column)


def misfits_of(values: Sequence[Any], field: pa.Field, *, is_key: bool) -> dict[int, str]:
    r"""Return by index why a database cannot hold values that their column in Arrow can.

    Example:
        >>> misfits_of(["UA", "A\0A"], pa.field("key", pa.string()), is_key=True)
        {1: "column 'key' cannot hold 'A\\x00A': text in a database has no NUL character"}
    """
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    title = f"column {field.name!r}"
    if is_text(kind):
        why = "cannot hold {!r}: text in a database has no NUL character"
        return {
            row: f"{title} {why.format(value)}"
            for row, value in enumerate(values)
            if value is not None and "\0" in value
        }
    if pa.types.is_timestamp(kind):
        why = "cannot hold {} µs: it is outside the years 1 to 9999"
        return {row: f"{title} {why.format(value)}" for row, value in enumerate(values) if isinstance(value, int)}
    if pa.types.is_floating(kind) and is_key:
        return {row: f"{title} is a key and cannot be NaN" for row, value in enumerate(values) if value != value}  # noqa: PLR0124
    return {}


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
