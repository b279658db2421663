"""Infer the columns of CSV from a sample of its rows; whole numbers are never inferred as floats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from dataflow_model.io.csv.csv_numbers import columns_with_zeros, has_leading_zero, separated_number
from dataflow_model.io.text.time_formats import inferred_kind
from dataflow_model.io.text.whole_numbers import EXACT, number_of, whole_type

if TYPE_CHECKING:
    from dataflow_model.io.csv.csv_options import CsvOptions

_WHOLE: Final = re.compile(r"\s*[+-]?\d+\s*")


def csv_schema(sample: bytes, names: list[str], options: CsvOptions) -> pa.Schema:
    r"""Infer the types of CSV columns; rows with another number of values are ignored.

    Arrow reads a column of whole numbers as floats, and rounds, as soon as one of them has more than 64 bits. Here the
    type is unsigned if that holds all of them, otherwise signed; rows whose number does not fit are bad rows. Arrow
    reads no whole numbers with a plus sign: a column with one holds floats, or text if floats would round a number.
    A column in which a number has leading zeros, as codes have, holds text.

    Args:
        sample: rows, without a header.
        names: of the columns.
        options: how the file is written.

    Raises:
        ValueError: if no row has as many values as there are names.

    Example:
        >>> from dataflow_model.io.csv.csv_options import CsvOptions
        >>> csv_schema(b"18446744073709551615,0.5\n1,2\n", ["id", "share"], CsvOptions())
        id: uint64
        share: double
        >>> csv_schema(b"02139,1E5\n94107,2\n", ["zip", "share"], CsvOptions())
        zip: string
        share: double
    """
    counts: list[int] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        counts.append(row.actual_columns)
        return "skip"

    def read(**conversion: Any) -> pa.Table:
        return options.read(sample, names, options.conversion(**conversion), invalid_row_handler=skip)

    table = read()
    if not table.num_rows:
        raise ValueError(f"its first row has {counts[0]} values, but there are {len(names)} columns")
    schema = table.schema
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    padded = {names[index] for index in columns_with_zeros(sample, len(names), table.num_rows, options)}
    whole = [field.name for field in schema if pa.types.is_integer(field.type) and field.name in padded]
    converts = options.timestamp_formats or options.thousands is not None
    strings = [field.name for field in schema if pa.types.is_string(field.type)] if converts else []
    doubtful = floats + whole + strings
    with_fractions, as_whole, as_text = set(floats), set(whole), set(strings)
    if not doubtful or len(set(schema.names)) < len(schema.names):
        return schema
    texts = read(include_columns=doubtful, column_types=dict.fromkeys(doubtful, pa.string()), strings_can_be_null=True)
    kinds: dict[str, pa.DataType] = {}
    for name in doubtful:
        column = texts[name].combine_chunks().drop_null()
        is_code = name in padded and name not in as_text and has_leading_zero(texts[name])
        may_be_time = bool(options.timestamp_formats) and (is_code or name not in as_whole)
        kind = inferred_kind(column, options.time_formats) if may_be_time else None
        if kind is None and is_code:
            kind = pa.string()
        elif kind is None and name in with_fractions:
            written = column.to_pylist()
            kind = _type_of_texts(written) if all(map(_WHOLE.fullmatch, written)) else None
        if kind is None and options.thousands is not None and name in as_text:
            kind = _type_of_separated(column, options)
        if kind is not None:
            kinds[name] = kind
    return pa.schema([field.with_type(kinds.get(field.name, field.type)) for field in schema])


def _type_of_texts(texts: list[str]) -> pa.DataType:
    if not any("+" in text for text in texts):
        return whole_type(texts)
    return pa.float64() if all(abs(number_of(text)) <= EXACT for text in texts) else pa.string()


def _type_of_separated(column: pa.Array, options: CsvOptions) -> pa.DataType | None:
    """Return the type of texts that are all numbers, some of them with separated thousands; `None` for others."""
    point = re.escape(options.decimal_point)
    separated, plain = re.compile(separated_number(options)), re.compile(rf"\s*[+-]?\d+(?:{point}\d*)?\s*")
    if has_leading_zero(pa.chunked_array([column])):
        return None
    texts = column.to_pylist()
    if not any(map(separated.match, texts)) or not all(
        separated.match(text) or plain.fullmatch(text) for text in texts
    ):
        return None
    digits = [text.replace(options.thousands or "", "") for text in texts]
    return whole_type(digits) if all(map(_WHOLE.fullmatch, digits)) else pa.float64()
