"""Rows of a Parquet file with the types that are decided; each row that does not fit them becomes a bad row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.errors import shown
from dataflow_model.io.parquet.parquet_types import fitted
from dataflow_model.io.text.parsing import cannot_hold
from dataflow_model.plan.columns.nested import with_leaves
from dataflow_model.plan.columns.python_range import in_numbers, indices_beyond
from dataflow_model.plan.columns.rows import values_of
from dataflow_model.plan.columns.source_columns import BAD_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator


def fitted_rows(batch: pa.RecordBatch, checked: pa.Schema, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows with the types of columns, as one batch; a column that the file lacks is null.

    Args:
        batch: rows of a file.
        checked: the columns whose values must fit.
        columns: those of them to yield.
    """
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    bad: dict[int, pa.Field] = {}
    arrays: dict[str, pa.Array] = {}
    for field in checked:
        if field.name not in given:
            arrays[field.name] = pa.nulls(batch.num_rows, field.type)
            continue
        column = given[field.name]
        try:
            arrays[field.name] = fitted(column, field.type)
        except (pa.ArrowException, ValueError):
            arrays[field.name] = pa.concat_arrays(_pieces(column, field, 0, bad))
    rows = pa.RecordBatch.from_arrays([arrays[name] for name in columns.names], schema=columns)
    if not bad:
        yield rows
        return
    indices = pa.array(sorted(bad), pa.int64())
    values_of = {name: _values(column.take(indices)) for name, column in given.items()}
    marks: list[dict[str, str] | None] = [None] * batch.num_rows
    for number, index in enumerate(sorted(bad)):
        text = repr({name: values[number][0] for name, values in values_of.items()})
        marks[index] = {"text": text, "reason": _reason(bad[index], *values_of[bad[index].name][number])}
    yield rows.append_column(BAD_FIELD, pa.array(marks, BAD_FIELD.type))


def _pieces(column: pa.Array, field: pa.Field, start: int, bad: dict[int, pa.Field]) -> Iterator[pa.Array]:
    """Yield a column with another type in pieces; values that do not fit are null, and their indices are in `bad`."""
    if pa.types.is_nested(column.type):  # a slice of maps would still hold all their items
        column = column.take(pa.array(range(len(column)), pa.int64()))
    try:
        yield fitted(column, field.type)
    except (pa.ArrowException, ValueError):
        if len(column) > 1:
            middle = len(column) // 2
            yield from _pieces(column[:middle], field, start, bad)
            yield from _pieces(column[middle:], field, start + middle, bad)
            return
        bad.setdefault(start, field)
        yield pa.nulls(1, field.type)


def _reason(field: pa.Field, value: Any, is_text: bool) -> str:  # noqa: FBT001 - from the pair of `_values`
    if not is_text or (isinstance(value, bytes) and _bytes(field.type) != field.type):
        return f"column {field.name!r} holds {shown(value)}, which is not UTF-8"
    return cannot_hold(field, value)


def _values(column: pa.Array) -> list[tuple[Any, bool]]:
    """Return the values of a column, each with whether all text in it is UTF-8; otherwise the text is in bytes."""
    try:
        return [(value, True) for value in values_of(in_numbers(column) if indices_beyond(column) else column)]
    except UnicodeDecodeError:
        if len(column) > 1:
            return [pair for index in range(len(column)) for pair in _values(column.slice(index, 1))]
        return [(fitted(column, with_leaves(column.type, _bytes))[0].as_py(), False)]


def _bytes(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_binary() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind
