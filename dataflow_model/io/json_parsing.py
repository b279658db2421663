"""Parse lines of JSON into columns of given types; values that sinks have written are read back unchanged."""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.json as pa_json

from dataflow_model.errors import shown
from dataflow_model.io.inference import check_depth, has_null_line
from dataflow_model.io.parsing import cannot_hold, in_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["array_of", "is_binary", "parse_lines", "problem_of_line"]

_NO_OBJECT: Final = "it is not an object, as in {…}"
_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_NUMBERS: Final = frozenset({int, float, decimal.Decimal})
_BETWEEN: Final = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_LONGEST_NUMBER: Final = 100
"""The maximum number of digits of a whole number; Python rejects numbers with thousands of them."""


def parse_lines(data: bytes, columns: pa.Schema) -> pa.Table:
    r"""Parse lines of JSON into columns; a missing field is null, and a field that is not a column is ignored.

    Arrow parses the columns whose types it reads as sinks write them. The others, and floats where one of them may be a
    word, are parsed value by value, in several times as long.

    Raises:
        pa.ArrowException: for a line that does not fit the columns.
        ValueError: likewise.

    Example:
        >>> columns = pa.schema({"day": pa.date32(), "mean": pa.float64()})
        >>> parse_lines(b'{"day": "2013-01-01", "mean": "Infinity"}\n', columns).to_pylist()
        [{'day': datetime.date(2013, 1, 1), 'mean': inf}]
    """
    check_depth(data)
    if has_null_line(data):
        raise ValueError(_NO_OBJECT)
    if not data.isascii():
        data.decode()  # raises for what is not UTF-8, which Arrow puts into columns of text unseen
    has_words = b'NaN"' in data or b'Infinity"' in data
    quick = [field for field in columns if _is_read_by_arrow(field.type, has_words=has_words)]
    parsed = _parsed_by_arrow(data, pa.schema(quick))
    if quick and not _has_one_object_a_line(data, parsed.num_rows):
        raise ValueError(_NO_OBJECT)
    if len(quick) == len(columns):
        return parsed
    rows = [_object(line) for line in data.split(b"\n") if line.strip()]
    slow = {field.name: [row.get(field.name) for row in rows] for field in columns if field not in quick}
    arrays = [array_of(slow[field.name], field.type) if field.name in slow else parsed[field.name] for field in columns]
    return pa.table(arrays, schema=columns)


def problem_of_line(data: bytes, columns: pa.Schema, error: str) -> str:
    """Return what is wrong with a line: that it is not JSON, or a value and its column; otherwise the given `error`."""
    try:
        check_depth(data)
        row, repeated = _object_and_repeated(data)
    except UnicodeDecodeError:
        return "it is not UTF-8, in which JSON is written"
    except json.JSONDecodeError as problem:
        return f"it is not JSON: {problem.msg} at character {problem.pos}"
    except ValueError as problem:
        return str(problem)
    for name, value in row.items():
        if not _is_unicode([name, value]):
            return f"{name!r} has half of a surrogate pair, which is no character: {shown(value)}"
    for field in columns:
        try:
            parse_lines(data, pa.schema([field]))
        except (pa.ArrowException, ValueError):
            if field.name in repeated:
                return f"it has {field.name!r} more than once"
            return cannot_hold(field, row.get(field.name))
    return error


def array_of(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Convert values that were parsed from JSON to a column.

    Raises:
        ValueError: for a value that is not as sinks write those of this type.

    Example:
        >>> array_of(["VUE=", None], pa.binary()).to_pylist()
        [b'UA', None]
        >>> array_of([[["UA", 1.5]]], pa.map_(pa.string(), pa.duration("us"))).to_pylist()
        [[('UA', datetime.timedelta(seconds=1, microseconds=500000))]]
    """
    try:
        return pa.array(list(map(_restorer(kind), values)), in_microseconds(kind)).cast(kind)
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
        inner = (kind.field(place).type for place in range(kind.num_fields))
        return all(_is_read_by_arrow(of_field, has_words=has_words) for of_field in inner)
    if pa.types.is_floating(kind):
        return not has_words and not pa.types.is_float16(kind)
    return any(test(kind) for test in _READ_BY_ARROW)


_READ_BY_ARROW: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


def _parsed_by_arrow(data: bytes, columns: pa.Schema) -> pa.Table:
    fine = pa.schema([field.with_type(in_microseconds(field.type)) for field in columns])
    parsing = pa_json.ParseOptions(explicit_schema=fine, unexpected_field_behavior="ignore")
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pa_json.read_json(pa.BufferReader(data), read_options=reading, parse_options=parsing).cast(columns)


def _has_one_object_a_line(data: bytes, objects: int) -> bool:
    """Return whether each line is exactly one object, which Arrow does not check."""
    return objects in {1 + data.count(b"}\n{"), 1 + len(_BETWEEN.findall(data))} or objects == 0


def _object(
    line: bytes,
    parse_float: Callable[[str], Any] = decimal.Decimal,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> dict[str, Any]:
    value = json.loads(
        line.decode("utf-8-sig"), parse_int=_integer, parse_float=parse_float, object_pairs_hook=object_pairs_hook
    )
    if not isinstance(value, dict):
        raise ValueError(_NO_OBJECT)  # noqa: TRY004 - about the data
    return value


def _object_and_repeated(line: bytes) -> tuple[dict[str, Any], set[str]]:
    """Return the object of a line, and the names that it has more than once."""
    names: list[list[str]] = []

    def noted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names.append([name for name, _ in pairs])
        return dict(pairs)

    row = _object(line, parse_float=float, object_pairs_hook=noted)
    times = collections.Counter(names[-1])  # the outermost object ends last
    return row, {name for name in row if times[name] > 1}


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= _LONGEST_NUMBER else text


def _restorer(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return the inverse of `json_lines.plain` for values of a type."""
    restore: Callable[[Any], Any]
    if pa.types.is_dictionary(kind):
        return _restorer(kind.value_type)
    if pa.types.is_map(kind):
        key, item = _restorer(kind.key_type), _restorer(kind.item_type)
        restore = lambda pairs: [(key(first), item(second)) for first, second in map(_list, _list(pairs))]  # noqa: E731
    elif pa.types.is_struct(kind):
        fields = [(kind.field(place).name, _restorer(kind.field(place).type)) for place in range(kind.num_fields)]
        restore = lambda row: {name: of_field(row.get(name)) for name, of_field in fields}  # noqa: E731
    elif pa.types.is_nested(kind):
        of_item = _restorer(kind.value_type)
        restore = lambda items: list(map(of_item, _list(items)))  # noqa: E731
    else:
        restore = next((restore for test, restore in _SCALARS if test(kind)), lambda value: value)
    return lambda value: None if value is None else restore(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):  # Python would take text apart
        raise ValueError(f"{value!r} is not a list")  # noqa: TRY004 - about the data
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:  # Arrow would round it
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _number(value: Any) -> float:
    if type(value) not in _NUMBERS and value not in _WORDS:
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _in_units(per_second: int) -> Callable[[Any], int]:
    def restore(seconds: Any) -> int:
        if type(seconds) not in _NUMBERS:
            raise ValueError(f"{seconds!r} is not a number of seconds")
        return round(decimal.Decimal(seconds) * per_second)

    return restore


_SCALARS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _number),
    (pa.types.is_timestamp, dt.datetime.fromisoformat),
    (pa.types.is_date, dt.date.fromisoformat),
    (pa.types.is_time, dt.time.fromisoformat),
    (lambda kind: kind == pa.duration("ns"), _in_units(10**9)),
    (pa.types.is_duration, _in_units(10**6)),
    (pa.types.is_decimal, lambda number: decimal.Decimal(str(number))),
    (is_binary, lambda text: base64.b64decode(text, validate=True)),
)
"""How to read values that JSON has no type for, or that Arrow would also accept in another form."""
