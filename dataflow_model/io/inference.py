"""Infer the columns of text files from a sample of their lines; whole numbers are never inferred as floats."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from dataflow_model.io.time_formats import inferred_kind
from dataflow_model.plan.python_range import with_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.io.csv_options import CsvOptions

__all__ = ["check_depth", "csv_schema", "has_null_line", "json_schema"]

_WHOLE: Final = re.compile(r"\s*[+-]?\d+\s*")
_DEEPEST: Final = 100
_MOST_DIGITS: Final = 40
_EXACT: Final = 2**53
"""Floats hold all whole numbers up to this one."""
_STARTS_WITH_NULL: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\n)[ \t\r\f\v]*null")
_OFFSET: Final = r"[T ][0-9:.]+([Zz]|[+-][0-9:]+)$"
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def csv_schema(sample: bytes, names: list[str], options: CsvOptions) -> pa.Schema:
    r"""Infer the types of CSV columns; rows with another number of values are ignored.

    Arrow reads a column of whole numbers as floats, and rounds, as soon as one of them has more than 64 bits. Here the
    type is unsigned if that holds all of them, otherwise signed; rows whose number does not fit are bad rows. Arrow
    reads no whole numbers with a plus sign: a column with one holds floats, or text if floats would round a number.

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
    kinds: dict[str, pa.DataType] = {}
    for place, name in enumerate(doubtful):
        column = texts[name].combine_chunks().drop_null()
        kind = inferred_kind(column, options.time_formats) if options.timestamp_formats else None
        if kind is None and place < len(floats):
            written = column.to_pylist()
            kind = _type_of_texts(written) if all(map(_WHOLE.fullmatch, written)) else None
        if kind is not None:
            kinds[name] = kind
    return pa.schema([field.with_type(kinds.get(field.name, field.type)) for field in schema])


def json_schema(sample: bytes) -> pa.Schema:
    r"""Infer the types of the fields of JSON lines; whole numbers as `csv_schema` does.

    Text is an instant where all of it is written as one: in UTC if some of it has an offset, otherwise without a zone.
    Lines that are nested too deeply, that are `null` or no JSON, that have half of a surrogate pair, or whose values
    are of other kinds than those of the lines before, are ignored: they are bad rows.

    Example:
        >>> json_schema(b'{"id": 18446744073709551615, "parts": [{"share": 1}, {"share": 0.5}]}\n')
        id: uint64
        parts: list<item: struct<share: double>>
          child 0, item: struct<share: double>
              child 0, share: double
        >>> json_schema(b'{"at": "2013-01-01T05:00:00.5Z"}\n{"at": 5}\n')
        at: timestamp[us, tz=UTC]
    """
    lines = [line for line in sample.split(b"\n") if line.strip() and not (_is_deep(line) or has_null_line(line))]
    try:
        return _schema_of(lines)
    except ValueError:
        alike = _alike(lines)
        if not alike:
            raise
        return _schema_of(alike)


def check_depth(data: bytes) -> None:
    """Reject JSON lines that are nested more than 100 deep, since Python could not process their values.

    Raises:
        ValueError: for such a line.
    """
    if any(map(_is_deep, data.split(b"\n"))):
        raise ValueError(f"it is nested more than {_DEEPEST} deep")


def has_null_line(data: bytes) -> bool:
    r"""Return whether a JSON line starts with `null`, which Arrow would read as a row of nulls, or crash on.

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


def _read(lines: list[bytes], columns: pa.Schema | None = None) -> pa.Table:
    parsing = pa_json.ParseOptions(explicit_schema=columns)
    return pa_json.read_json(pa.BufferReader(b"\n".join(lines) + b"\n"), parse_options=parsing)


def _schema_of(lines: list[bytes]) -> pa.Schema:
    """Return the fields of lines.

    Raises:
        ValueError: for a line that is not one JSON object, and for values of different kinds; Arrow's error is one too.
    """
    schema = _with_instants(lines, _read(lines).schema)
    if not any(_has_float(field.type) for field in schema):
        return schema
    rows = [json.loads(line, parse_int=_number) for line in lines]
    return pa.schema(
        [pa.field(field.name, _whole(field.type, [row.get(field.name) for row in rows])) for field in schema]
    )


def _alike(lines: list[bytes]) -> list[bytes]:
    """Return the lines that are JSON objects, except those with a value of another kind than in earlier lines."""
    kinds: dict[tuple[str, ...], str] = {}
    alike = []
    for line in lines:
        try:
            row = json.loads(line, parse_int=_number, object_pairs_hook=_distinct)
            json.dumps(row, ensure_ascii=False).encode()  # Python, unlike Arrow, reads half of a surrogate pair
        except ValueError:
            continue
        of_line: dict[tuple[str, ...], str] = {}
        is_alike = all(
            of_line.setdefault(path, kinds.get(path, kind)) == kind for path, kind in _kinds_of(row, ()) if path
        )
        if is_alike and isinstance(row, dict):
            kinds |= of_line
            alike.append(line)
    return alike


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is there twice")
    return fields


def _kinds_of(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the kind of each value that is not null."""
    if value is None:
        return
    yield path, "number" if type(value) in {int, float} else type(value).__name__
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _kinds_of(inner, (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds_of(inner, (*path, "[]"))


def _with_instants(lines: list[bytes], schema: pa.Schema) -> pa.Schema:
    """Return the columns of lines, in which texts that are all instants become instants; Arrow drops their offsets."""
    as_texts = pa.schema([field.with_type(with_times(field.type, lambda _: pa.string())) for field in schema])
    texts = _read(lines, as_texts)
    return pa.schema([field.with_type(_of_texts(texts[field.name].combine_chunks())) for field in as_texts])


def _of_texts(column: pa.Array) -> pa.DataType:
    """Return the type of a column, in which texts that are all instants become instants."""
    kind = column.type
    if pa.types.is_struct(kind):
        types = map(_of_texts, column.flatten())
        return pa.struct([field.with_type(inner) for field, inner in zip(kind, types, strict=True)])
    if pa.types.is_list(kind):
        return pa.list_(_of_texts(column.flatten()))
    return _instants(column.drop_null()) or kind if pa.types.is_string(kind) else kind


def _instants(texts: pa.Array) -> pa.DataType | None:
    """Return the type of texts that are all instants, in UTC if one has an offset; `None` if one is no instant."""
    have_offsets = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(_OFFSET))
    zoned, local = texts.filter(have_offsets), texts.filter(pc.call_function("invert", [have_offsets]))
    try:
        zoned.cast(pa.timestamp("us", "UTC"))
        local.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    if not len(texts):
        return None
    return pa.timestamp("us", "UTC" if len(zoned) else None)


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


def _type_of_texts(texts: list[str]) -> pa.DataType:
    numbers = list(map(_number, texts))
    if not any("+" in text for text in texts):
        return _whole_type(numbers)
    return pa.float64() if all(abs(number) <= _EXACT for number in numbers) else pa.string()


def _whole_type(numbers: Iterable[int]) -> pa.DataType:
    numbers = list(numbers)
    least, greatest = min(numbers, default=0), max(numbers, default=0)
    return pa.uint64() if least >= 0 and 2**63 <= greatest < 2**64 else pa.int64()


def _number(text: str) -> int:
    """Read a whole number; one with so many digits that Python may reject it becomes a huge number of the same sign."""
    text = text.strip()
    if len(text) <= _MOST_DIGITS:
        return int(text)
    return -(2**70) if text.startswith("-") else 2**70
