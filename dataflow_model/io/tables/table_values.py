"""Convert values for a database, and find those that it cannot hold; done by workers, without a connection."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.plan.columns.rows import values_of

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST_SECOND: Final = -62_135_596_800
"""When the year 1 begins, in seconds since the epoch."""
_END_SECOND: Final = 253_402_300_800
"""When the year 9999 ends."""


def column_values(column: pa.Array) -> list[Any]:
    """Return the values of a column in the form in which the database's driver accepts them."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.date32())
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"))
    return values_of(column)


def instants_as_text(column: pa.Array) -> list[str | None]:
    """Return instants as SQLAlchemy writes them to SQLite, which has no type for them.

    Example:
        >>> instants_as_text(pa.array([0, None], pa.timestamp("s", "America/New_York")))
        ['1970-01-01 00:00:00.000000', None]
    """
    zone = None if column.type.tz is None else "UTC"
    options = pc.StrftimeOptions("%Y-%m-%d %H:%M:%S")
    texts: list[str | None] = pc.call_function("strftime", [column.cast(pa.timestamp("us", zone))], options).to_pylist()
    return texts


def misfits_of(column: pa.Array, field: pa.Field, *, is_key: bool) -> dict[int, str]:
    r"""Return by index why a database cannot hold values of a column.

    Example:
        >>> misfits_of(pa.array(["UA", "A\0A"]), pa.field("key", pa.string()), is_key=True)
        {1: "column 'key' cannot hold 'A\\x00A': text in a database has no NUL character"}
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    title = f"column {field.name!r}"
    if is_text(column.type):
        rows = _rows_with(pc.call_function("match_substring", [column], pc.MatchSubstringOptions("\0")))
        why = "cannot hold {!r}: text in a database has no NUL character"
    elif pa.types.is_timestamp(column.type):
        numbers, second = column.cast(pa.int64()), _PER_SECOND[column.type.unit]
        is_before = pc.call_function("less", [numbers, pa.scalar(_FIRST_SECOND * second)])
        is_behind = pc.call_function("greater_equal", [numbers, pa.scalar(_END_SECOND * second)])
        rows = _rows_with(pc.call_function("or", [is_before, is_behind]))
        why = "cannot hold {} µs: it is outside the years 1 to 9999"
    elif pa.types.is_floating(column.type) and is_key:
        rows, why = _rows_with(pc.call_function("is_nan", [column])), "is a key and cannot be NaN"
    else:
        return {}
    return {
        row: f"{title} {why.format(value)}"
        for row, value in zip(rows, column_values(column.take(pa.array(rows, pa.int64()))), strict=True)
    }


def _rows_with(marks: pa.Array) -> list[int]:
    """Return the rows that are marked; null is no mark."""
    rows: list[int] = np.flatnonzero(marks.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    return rows


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
