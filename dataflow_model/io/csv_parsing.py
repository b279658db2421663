"""Rows of CSV as columns, in the types of a schema: most are read by Arrow, others as text that is converted."""

from __future__ import annotations

import decimal
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from dataflow_model.io.json_parsing import array_of, is_binary
from dataflow_model.io.parsing import cannot_hold, in_microseconds
from dataflow_model.io.time_formats import times_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.io.csv_options import CsvOptions

__all__ = ["parser", "problem_of_row"]

_COLUMN: Final = re.compile(r"In CSV column #(\d+):")
_NULL_WORDS: Final = pa.array(pa_csv.ConvertOptions().null_values)


def parser(names: list[str], columns: pa.Schema, options: CsvOptions) -> Callable[[bytes], pa.Table]:
    """Return a function that parses rows.

    Args:
        names: of all columns of the file.
        columns: those to read, with their types.
        options: how the file is written.
    """
    texts = {field.name for field in columns if _is_read_as_text(field.type, options)}
    kinds = {field.name: pa.string() if field.name in texts else in_microseconds(field.type) for field in columns}
    conversion = options.conversion(column_types=kinds, include_columns=columns.names)

    def parse(data: bytes) -> pa.Table:
        table = options.read(data, names, conversion)
        for place, field in enumerate(columns):
            if field.name in texts:
                converted = _converted(table.column(place).combine_chunks(), field.type, options)
                table = table.set_column(place, field, converted)
        return table.cast(columns)

    return parse


def problem_of_row(data: bytes, names: list[str], columns: pa.Schema, options: CsvOptions, error: str) -> str:
    """Return what is wrong with a row: the number of values, or a value and its column; otherwise Arrow's `error`."""
    counted: list[int] = []

    def count(row: pa_csv.InvalidRow) -> str:
        counted.append(row.actual_columns)
        return "skip"

    texts = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()))
    try:
        row = options.read(data, names, texts, invalid_row_handler=count)
    except pa.ArrowException:
        return error
    if counted:
        return f"it has {counted[0]} value{'' if counted[0] == 1 else 's'}, but there are {len(names)} columns"
    match = _COLUMN.match(error)  # check the column that Arrow names first
    first = names[int(match[1])] if match is not None and int(match[1]) < len(names) else None
    for field in sorted(columns, key=lambda field: field.name != first):
        problem = _problem_of_value(data, names, field, options, row.column(field.name)[0].as_py())
        if problem is not None:
            return problem
    return error


def _problem_of_value(data: bytes, names: list[str], field: pa.Field, options: CsvOptions, value: bytes) -> str | None:
    try:
        parser(names, pa.schema([field]), options)(data)
    except (pa.ArrowException, ValueError) as error:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return f"column {field.name!r} holds {value!r}, which is not UTF-8; pass encoding='cp1252', for example"
        if "doesn't exist in timezone" in str(error):
            return f"column {field.name!r} holds {text!r}, which the clocks in {options.zone} skip"
        return cannot_hold(field, text)
    return None


def _is_read_as_text(kind: pa.DataType, options: CsvOptions) -> bool:
    if pa.types.is_timestamp(kind):
        return options.describes_times
    return is_binary(kind) or pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_float16(kind)


def _converted(texts: pa.Array, kind: pa.DataType, options: CsvOptions) -> pa.Array:
    """Return texts as values; an empty text is no null where it could be bytes."""
    if is_binary(kind):
        return array_of(texts.to_pylist(), kind)
    if options.null_values is None:  # otherwise Arrow knows which texts are null, also by their quotes
        is_null = pc.call_function("is_in", [texts], pc.SetLookupOptions(_NULL_WORDS))
        texts = pc.call_function("if_else", [is_null, pa.scalar(None, pa.string()), texts])
    if pa.types.is_timestamp(kind):
        return times_of(texts, kind, options.time_formats, options.zone)
    read: Callable[[str], Any] = json.loads
    if pa.types.is_duration(kind):
        read = _seconds
    elif pa.types.is_float16(kind):
        read = float
    return array_of([None if text is None else read(text) for text in texts.to_pylist()], kind)


def _seconds(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number of seconds") from error
