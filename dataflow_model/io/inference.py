"""The columns of text files from a sample of their lines: whole numbers stay whole, whatever their size."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from dataflow_model.io.time_formats import inferred_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.io.csv_options import CsvOptions

__all__ = ["check_depth", "csv_schema", "has_null_line", "json_schema"]

_WHOLE: Final = re.compile(r"\s*[+-]?\d+\s*")
_DEEPEST: Final = 100
_MOST_DIGITS: Final = 40
_STARTS_WITH_NULL: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\n)[ \t\r\f\v]*null")
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def csv_schema(sample: bytes, names: list[str], options: CsvOptions) -> pa.Schema:
    r"""Infer the types of CSV columns; rows with another number of values are ignored.

    Arrow reads a column of whole numbers as floats, and rounds, as soon as one of them has more than 64 bits. Here the
    type is unsigned if that holds all of them, otherwise signed; rows whose number does not fit are bad rows.

    Args:
        sample: rows, without a header.
        names: of the columns.
        options: how the file is written.

    Raises:
        ValueError: if no row has as many values as there are names.

    Example:
        >>> from dataflow_model.io.csv_options import CsvOptions
        >>> csv_schema(b"18446744073709551615,0.5\n1,2\n", ["id", "share"], CsvOptions())
        id: uint64
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
    strings = [field.name for field in schema if pa.types.is_string(field.type)] if options.timestamp_formats else []
    doubtful = floats + strings
    if not doubtful or len(set(schema.names)) < len(schema.names):
        return schema
    texts = read(include_columns=doubtful, column_types=dict.fromkeys(doubtful, pa.string()), strings_can_be_null=True)
    for name in doubtful:
        column = texts[name].combine_chunks().drop_null()
        kind = inferred_kind(column, options.time_formats) if options.timestamp_formats else None
        if kind is None and name in floats:
            written = column.to_pylist()
            kind = _whole_type(map(_number, written)) if all(map(_WHOLE.fullmatch, written)) else None
        if kind is not None:
            at = schema.get_field_index(name)
            schema = schema.set(at, schema.field(at).with_type(kind))
    return schema


def json_schema(sample: bytes) -> pa.Schema:
    r"""Infer the types of the fields of JSON lines; whole numbers as `csv_schema` does.

    Lines that are nested too deeply, or that are `null`, are ignored.

    Example:
        >>> json_schema(b'{"id": 18446744073709551615, "parts": [{"share": 1}, {"share": 0.5}]}\n')
        id: uint64
        parts: list<item: struct<share: double>>
          child 0, item: struct<share: double>
              child 0, share: double
    """
    lines = [line for line in sample.split(b"\n") if line.strip() and not (_is_deep(line) or has_null_line(line))]
    schema = pa_json.read_json(pa.BufferReader(b"\n".join(lines) + b"\n")).schema
    if not any(_has_float(field.type) for field in schema):
        return schema
    rows = [json.loads(line, parse_int=_number) for line in lines]
    return pa.schema(
        [pa.field(field.name, _whole(field.type, [row.get(field.name) for row in rows])) for field in schema]
    )


def check_depth(data: bytes) -> None:
    """Refuse JSON lines of which one is nested more than 100 deep: Python could not take its value apart again.

    Raises:
        ValueError: for such a line.
    """
    if any(map(_is_deep, data.split(b"\n"))):
        raise ValueError(f"it is nested more than {_DEEPEST} deep")


def has_null_line(data: bytes) -> bool:
    r"""Return whether a JSON line starts with `null`, which Arrow would take for a row of nulls, or crash at.

    Example:
        >>> has_null_line(b'{"a": null}\n'), has_null_line(b'{"a": 1}\n null\n')
        (False, True)
    """
    return _STARTS_WITH_NULL.search(data) is not None


def _is_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= _DEEPEST:
        return False
    depth = 0
    for token in _BRACKETS.findall(line):
        depth += 1 if token in b"[{" else -1 if token in b"]}" else 0
        if depth > _DEEPEST:
            return True
    return False


def _has_float(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_float(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _whole(kind: pa.DataType, values: list[Any]) -> pa.DataType:
    """Return the type with whole numbers in place of floats wherever all of these values are whole."""
    present = [value for value in values if value is not None]
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct(
            [field.with_type(_whole(field.type, [row.get(field.name) for row in present])) for field in fields]
        )
    if pa.types.is_list(kind):
        return pa.list_(_whole(kind.value_type, [item for row in present for item in row]))
    if pa.types.is_floating(kind) and present and all(type(value) is int for value in present):
        return _whole_type(present)
    return kind


def _whole_type(numbers: Iterable[int]) -> pa.DataType:
    numbers = list(numbers)
    least, greatest = min(numbers, default=0), max(numbers, default=0)
    return pa.uint64() if least >= 0 and 2**63 <= greatest < 2**64 else pa.int64()


def _number(text: str) -> int:
    """Read a whole number; of one that is far too large, which Python may refuse to read, only the sign counts."""
    text = text.strip()
    if len(text) <= _MOST_DIGITS:
        return int(text)
    return -(2**70) if text.startswith("-") else 2**70
