"""Parse lines of JSON into columns of given types; values that sinks have written are read back unchanged."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import functools
import math
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from dataflow_model.io.json.json_objects import (
    NO_OBJECT,
    Numeral,
    check_depth,
    has_null_line,
    object_of,
    problem_of,
    text_of,
)
from dataflow_model.io.text.parsing import cannot_hold, in_microseconds
from dataflow_model.plan.columns.nested import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_NUMBERS: Final = frozenset({int, float, decimal.Decimal, Numeral})
_WHOLE: Final = re.compile(r"-?\d+")
_BETWEEN: Final = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_LONGEST_NUMBER: Final = 100
"""The maximum number of digits of a whole number; Python rejects numbers with thousands of them."""


def parse_lines(data: bytes, columns: pa.Schema, *, mixed: bool = False) -> pa.Table:
    r"""Parse lines of JSON into columns; a missing field is null, and a field that is not a column is ignored.

    Arrow parses the columns whose types it reads as sinks write them. The others, and floats where one of them may be a
    word or be too large, are parsed value by value, in several times as long.

    Args:
        data: the lines.
        columns: the columns.
        mixed: whether a column of text holds values of other kinds as JSON.

    Raises:
        pa.ArrowException: for a line that does not fit the columns.
        ValueError: likewise.

    Example:
        >>> columns = pa.schema({"day": pa.date32(), "mean": pa.float64()})
        >>> parse_lines(b'{"day": "2013-01-01", "mean": "Infinity"}\n', columns).to_pylist()
        [{'day': datetime.date(2013, 1, 1), 'mean': inf}]
        >>> parse_lines(b'{"n": [1.50]}\n', pa.schema({"n": pa.string()}), mixed=True).to_pylist()
        [{'n': '[1.50]'}]
    """
    try:
        return _parsed(data, columns, mixed=mixed)
    except (pa.ArrowException, ValueError):
        if b"\n" in data.rstrip():
            raise
    # A number that no float holds makes Arrow reject the line, whatever the column that it is in.
    row = object_of(data)
    return pa.table([_alone(row, field, mixed=mixed) for field in columns], schema=columns)


def problem_of_line(data: bytes, columns: pa.Schema, error: str, *, mixed: bool = False) -> str:
    """Return what is wrong with a line: that it is not JSON, or a value and its column; otherwise the given `error`."""
    try:
        row = object_of(data)
    except ValueError as problem:
        return problem_of(problem)
    for field in columns:
        try:
            _alone(row, field, mixed=mixed)
        except (pa.ArrowException, ValueError):
            return cannot_hold(field, row.get(field.name))
    return error


def _alone(row: dict[str, Any], field: pa.Field, *, mixed: bool) -> pa.Array:
    """Return the value of one column as a column."""
    value = {field.name: row.get(field.name)}
    return _parsed(text_of(value).encode() + b"\n", pa.schema([field]), mixed=mixed).column(0).combine_chunks()


def _parsed(data: bytes, columns: pa.Schema, *, mixed: bool) -> pa.Table:
    check_depth(data)
    if has_null_line(data):
        raise ValueError(NO_OBJECT)
    if not data.isascii():
        data.decode()  # raises for what is not UTF-8, which Arrow puts into columns of text unseen
    has_words = b'NaN"' in data or b'Infinity"' in data
    quick = [field for field in columns if _is_read_by_arrow(field.type, has_words=has_words)]
    try:
        parsed = _parsed_by_arrow(data, quick)
    except pa.ArrowInvalid:
        others = [field for field in quick if not _has_text(field.type)]
        if not mixed or len(others) == len(quick):
            raise
        quick = others
        parsed = _parsed_by_arrow(data if quick else b"{}", quick)
    if quick and not _has_one_object_a_line(data, parsed.num_rows):
        raise ValueError(NO_OBJECT)
    quick = [field for field in quick if not any(map(_has_infinity, parsed[field.name].chunks))]
    if len(quick) == len(columns):
        return parsed
    rows = [object_of(line) for line in data.split(b"\n") if line.strip()]
    slow = {field.name: [row.get(field.name) for row in rows] for field in columns if field not in quick}
    arrays = [
        array_of(slow[field.name], field.type, mixed=mixed) if field.name in slow else parsed[field.name]
        for field in columns
    ]
    return pa.table(arrays, schema=columns)


def array_of(values: Iterable[Any], kind: pa.DataType, *, mixed: bool = False) -> pa.Array:
    """Convert values that were parsed from JSON to a column; `mixed` is as in `parse_lines`.

    Raises:
        ValueError: for a value that is not as sinks write those of this type.

    Example:
        >>> array_of(["VUE=", None], pa.binary()).to_pylist()
        [b'UA', None]
        >>> array_of([[["UA", 1.5]]], pa.map_(pa.string(), pa.duration("us"))).to_pylist()
        [[('UA', datetime.timedelta(seconds=1, microseconds=500000))]]
    """
    try:
        return pa.array(list(map(_restorer(kind, mixed=mixed), values)), in_microseconds(kind)).cast(kind)
    except (pa.ArrowException, TypeError, AttributeError, OverflowError, decimal.InvalidOperation) as error:
        raise ValueError(str(error)) from error


def is_binary(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes, which are written as base64."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_read_by_arrow(kind: pa.DataType, *, has_words: bool) -> bool:
    """Return whether Arrow reads values of a type as sinks write them; only other types allow for words as floats."""
    if pa.types.is_list(kind):
        return _is_read_by_arrow(kind.value_type, has_words=has_words)
    if pa.types.is_struct(kind):
        inner = (kind.field(index).type for index in range(kind.num_fields))
        return all(_is_read_by_arrow(of_field, has_words=has_words) for of_field in inner)
    if pa.types.is_floating(kind):
        return not has_words and not pa.types.is_float16(kind)
    return any(test(kind) for test in _READ_BY_ARROW)


def _has_text(kind: pa.DataType) -> bool:
    return any(_is_text(leaf.type) for leaf in leaves(pa.nulls(0, kind)))


def _has_infinity(column: pa.Array) -> bool:
    """Return whether a column that Arrow has read from JSON holds numbers that are too large for it."""
    return any(
        pc.call_function("any", [pc.call_function("is_inf", [leaf])]).as_py()
        for leaf in leaves(column)
        if pa.types.is_floating(leaf.type)
    )


_READ_BY_ARROW: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


def _parsed_by_arrow(data: bytes, columns: list[pa.Field]) -> pa.Table:
    fine = pa.schema([field.with_type(in_microseconds(field.type)) for field in columns])
    parsing = pa_json.ParseOptions(explicit_schema=fine, unexpected_field_behavior="ignore")
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pa_json.read_json(pa.BufferReader(data), read_options=reading, parse_options=parsing).cast(
        pa.schema(columns)
    )


def _has_one_object_a_line(data: bytes, objects: int) -> bool:
    """Return whether each line is exactly one object, which Arrow does not check."""
    return objects in {0, 1 + data.count(b"}\n{")} or objects == 1 + len(_BETWEEN.findall(data))


def _restorer(kind: pa.DataType, *, mixed: bool) -> Callable[[Any], Any]:
    """Return the inverse of `json_lines.plain` for values of a type."""
    restore: Callable[[Any], Any]
    of = functools.partial(_restorer, mixed=mixed)
    if pa.types.is_dictionary(kind):
        return of(kind.value_type)
    if pa.types.is_map(kind):
        key, item = of(kind.key_type), of(kind.item_type)
        restore = lambda pairs: [(key(first), item(second)) for first, second in map(_list, _list(pairs))]  # noqa: E731
    elif pa.types.is_struct(kind):
        fields = [(kind.field(index).name, of(kind.field(index).type)) for index in range(kind.num_fields)]
        restore = lambda row: {name: of_field(row.get(name)) for name, of_field in fields}  # noqa: E731
    elif pa.types.is_nested(kind):
        of_item = of(kind.value_type)
        restore = lambda items: list(map(of_item, _list(items)))  # noqa: E731
    elif pa.types.is_floating(kind):
        restore = functools.partial(_float, form=_FORMS[kind.bit_width])
    elif mixed and _is_text(kind):
        restore = lambda value: value if type(value) is str else text_of(value)  # noqa: E731
    else:
        restore = next((restore for test, restore in _SCALARS if test(kind)), lambda value: value)
    return lambda value: None if value is None else restore(value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):  # Python would take text apart
        raise ValueError(f"{value!r} is not a list")  # noqa: TRY004 - about the data
    return value


def _text(value: Any) -> str:
    if type(value) is not str:  # a numeral is text too
        raise ValueError(f"{value!r} is not text")
    return value


def _of_text(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: parse(_text(value))


def _whole(value: Any) -> int:
    is_whole = type(value) is int or (type(value) is Numeral and _WHOLE.fullmatch(value) is not None)
    if not is_whole or len(str(value)) > _LONGEST_NUMBER:  # Arrow would round it
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


def _float(value: Any, form: str) -> float:
    if type(value) not in _NUMBERS and not (type(value) is str and value in _WORDS):
        raise ValueError(f"{value!r} is not a number")
    number = float(value)
    struct.pack(form, number)  # raises for a number that the type would hold as infinity
    if math.isinf(number) and type(value) is not float and "inf" not in str(value).lower():
        raise ValueError(f"{value!r} is too large")
    return number


def _in_units(per_second: int) -> Callable[[Any], int]:
    def restore(seconds: Any) -> int:
        if type(seconds) not in _NUMBERS:
            raise ValueError(f"{seconds!r} is not a number of seconds")
        return round(decimal.Decimal(seconds) * per_second)

    return restore


_FORMS: Final = {16: "<e", 32: "<f", 64: "<d"}
"""The formats of `struct` by the width of floats in bits."""
_SCALARS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_timestamp, _of_text(dt.datetime.fromisoformat)),
    (pa.types.is_date, _of_text(dt.date.fromisoformat)),
    (pa.types.is_time, _of_text(dt.time.fromisoformat)),
    (lambda kind: kind == pa.duration("ns"), _in_units(10**9)),
    (pa.types.is_duration, _in_units(10**6)),
    (pa.types.is_decimal, lambda number: decimal.Decimal(str(number))),
    (is_binary, _of_text(functools.partial(base64.b64decode, validate=True))),
    (_is_text, _text),
)
"""How to read values that JSON has no type for, or that Arrow would also accept in another form."""
