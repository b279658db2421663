"""Parse rows of CSV into columns of given types: Arrow reads most types; the others are read as text and converted."""

from __future__ import annotations

import decimal
import functools
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from dataflow_model.errors import shown
from dataflow_model.io.csv.csv_bad_rows import certainly_bad, wrong_count
from dataflow_model.io.csv.csv_numbers import check_numbers, has_leading_zero, separated_number
from dataflow_model.io.json.json_objects import value_of
from dataflow_model.io.json.json_parsing import array_of, is_binary
from dataflow_model.io.text.parsing import cannot_hold, in_microseconds, with_reasons
from dataflow_model.io.text.time_formats import times_of
from dataflow_model.io.text.unpacking import as_in_file, problem_of_encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.io.csv.csv_options import CsvOptions
    from dataflow_model.io.text.row_texts import RowTexts

_COLUMN: Final = re.compile(r"In CSV column #(\d+):")
_READ_AS_TEXT: Final = (pa.types.is_nested, pa.types.is_duration, pa.types.is_float16, pa.types.is_decimal256)


def parser(
    names: list[str], columns: pa.Schema, options: CsvOptions, *, keeps_zeros: bool = False
) -> Callable[[bytes], pa.Table]:
    """Return a function that parses rows.

    Args:
        names: of all columns of the file.
        columns: those to read, with their types.
        options: how the file is written.
        keeps_zeros: whether a number with leading zeros does not fit a column of numbers.
    """
    texts = {field.name for field in columns if _is_read_as_text(field.type, options)}
    local = options.local_times
    chooser = None if local is None else local.column
    kinds = {field.name: pa.string() if field.name in texts else _as_read(field.type) for field in columns}
    conversion = options.conversion(column_types=kinds, include_columns=columns.names)

    def parse(data: bytes) -> pa.Table:
        def chosen(indices: NDArray[np.int64]) -> list[str | None]:
            return [] if chooser is None else _texts_of(chooser, data, names, options, indices)

        table = options.read(data, names, conversion)
        check_numbers(data, table, names, options, keeps_zeros=keeps_zeros)
        reasons: dict[int, str] = {}
        columns_read = []
        for field, column in zip(columns, table.columns, strict=True):
            values = column
            if field.name in texts:
                values = column.combine_chunks()
                if pa.types.is_timestamp(field.type):
                    values = _without_null_words(values, options)
                    written = values
                    values, problems = times_of(written, field.type, options.time_formats, local, chosen)
                    for row, problem in problems.items():
                        reasons.setdefault(row, f"column {field.name!r} holds {written[row].as_py()!r}, {problem}")
                else:
                    if keeps_zeros and _is_number(field.type) and has_leading_zero(column):
                        raise ValueError(f"a number in {field.name!r} has leading zeros")
                    values = _converted(values, field.type, options)
            columns_read.append(values)
        return with_reasons(pa.table(columns_read, names=columns.names).cast(columns), reasons)

    return parse


def bad_rows(texts: RowTexts, names: list[str], columns: pa.Schema, options: CsvOptions) -> Mapping[int, str]:
    """Return by index what is wrong with rows, as `problem_of_row` says it, where it is quickly found.

    The arguments are those of `parser`, with the texts of the rows.
    """
    as_text = frozenset(field.name for field in columns if _is_read_as_text(field.type, options))
    return certainly_bad(texts, names, columns, options, as_text)


def problem_of_row(
    data: bytes, names: list[str], columns: pa.Schema, options: CsvOptions, error: str, *, keeps_zeros: bool = False
) -> str:
    """Return what is wrong with a row: the number of values, or a value and its column; otherwise Arrow's `error`."""
    counted: list[int] = []

    def count(row: pa_csv.InvalidRow) -> str:
        counted.append(row.actual_columns)
        return "skip"

    texts = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()))
    try:
        row = options.read(data, names, texts, invalid_row_handler=count)
    except (pa.ArrowException, ValueError):
        return error
    if counted:
        return wrong_count(counted[0], len(names))
    match = _COLUMN.match(error)  # check the column that Arrow names first
    first = names[int(match[1])] if match is not None and int(match[1]) < len(names) else None
    for field in sorted(columns, key=lambda field: field.name != first):
        parse = parser(names, pa.schema([field]), options, keeps_zeros=keeps_zeros)
        problem = _problem_of_value(data, parse, field, options, row.column(field.name)[0].as_py())
        if problem is not None:
            return problem
    return error


def _problem_of_value(
    data: bytes, parse: Callable[[bytes], pa.Table], field: pa.Field, options: CsvOptions, value: bytes
) -> str | None:
    try:
        parse(data)
    except (pa.ArrowException, ValueError) as error:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            why = problem_of_encoding(options.encoding)
            return f"column {field.name!r} holds {as_in_file(value)!r}, which is {why}"
        if "leading zeros" in str(error):
            return (
                f"column {field.name!r} holds {shown(text)}, but was inferred as {field.type}, which has no leading "
                f"zeros; pa.string() in `schema` keeps them, pa.{field.type}() drops them"
            )
        return cannot_hold(field, text)
    return None


def _is_read_as_text(kind: pa.DataType, options: CsvOptions) -> bool:
    if pa.types.is_timestamp(kind):
        return options.describes_times
    if options.thousands is not None and _is_number(kind):
        return True
    return is_binary(kind) or any(test(kind) for test in _READ_AS_TEXT)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads a column that is then cast: Arrow cannot read every type from text."""
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _as_read(kind.value_type))
    return in_microseconds(kind)


def _converted(texts: pa.Array, kind: pa.DataType, options: CsvOptions) -> pa.Array:
    """Convert texts to values; in a column of bytes, an empty text is a value and not null."""
    if is_binary(kind):
        return array_of(texts.to_pylist(), kind)
    texts = _without_null_words(texts, options)
    if pa.types.is_nested(kind):
        return array_of([None if text is None else value_of(text) for text in texts.to_pylist()], kind)
    if options.thousands is not None and _is_number(kind):
        return _numbers(texts, kind, options)
    numbers = [None if text is None else _number(text, options.decimal_point) for text in texts.to_pylist()]
    return array_of(numbers, kind)


def _without_null_words(texts: pa.Array, options: CsvOptions) -> pa.Array:
    if options.null_values is not None:  # then Arrow knows which texts are null, also by their quotes
        return texts
    is_null = pc.call_function("is_in", [texts], pc.SetLookupOptions(_null_words()))
    return pc.call_function("if_else", [is_null, pa.scalar(None, pa.string()), texts])


def _texts_of(
    column: str, data: bytes, names: list[str], options: CsvOptions, indices: NDArray[np.int64]
) -> list[str | None]:
    """Return what is written in a column in some of the rows, which its type may not keep: `-0500`, for example."""
    conversion = options.conversion(column_types={column: pa.string()}, include_columns=[column])
    texts: list[str | None] = options.read(data, names, conversion).column(0).take(pa.array(indices)).to_pylist()
    return texts


def _is_number(kind: pa.DataType) -> bool:
    is_float = pa.types.is_floating(kind) and not pa.types.is_float16(kind)
    return bool(is_float or pa.types.is_integer(kind) or pa.types.is_decimal128(kind))


def _numbers(texts: pa.Array, kind: pa.DataType, options: CsvOptions) -> pa.Array:
    """Convert texts with separated thousands to numbers."""
    separated = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(separated_number(options)))
    plain = pc.call_function(
        "replace_substring",
        [
            texts,
        ],
        pc.ReplaceSubstringOptions(options.thousands, ""),
    )
    texts = pc.call_function("if_else", [separated, plain, texts])
    if options.decimal_point != ".":
        if pc.call_function(
            "any", [pc.call_function("match_substring", [texts], pc.MatchSubstringOptions("."))]
        ).as_py():
            raise ValueError("there is a point in a number")
        texts = pc.call_function("replace_substring", [texts], pc.ReplaceSubstringOptions(options.decimal_point, "."))
    numbers = pc.call_function("utf8_trim_whitespace", [texts]).cast(kind)
    if pa.types.is_floating(kind):
        infinite = pc.call_function("is_inf", [numbers])
        written = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions("(?i)inf"))
        if pc.call_function("any", [pc.call_function("and_not_kleene", [infinite, written])]).as_py():
            raise ValueError("a number is too large")
    return numbers


def _number(text: str, decimal_point: str) -> decimal.Decimal:
    if "_" in text or (decimal_point != "." and "." in text):  # which Python would read
        raise ValueError(f"{text!r} is not a number")
    try:
        return decimal.Decimal(text.replace(decimal_point, "."))
    except decimal.InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error


@functools.cache
def _null_words() -> pa.Array:  # not when the module is imported: to make an array, Arrow imports pandas
    """Return the texts that stand for null if the user names none."""
    return pa.array(pa_csv.ConvertOptions().null_values)
