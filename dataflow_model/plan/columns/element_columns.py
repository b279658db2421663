"""The columns of elements: which an element has, and whether its values fit their types."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import itertools
import numbers
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import shown
from dataflow_model.plan.columns.foreign_times import are_foreign, has_nanoseconds, python_time
from dataflow_model.plan.columns.nested import leaves, with_leaves
from dataflow_model.time import Duration, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

BATCH_BYTES: Final = 2**26
"""About how many bytes of values become one batch: Arrow's text and bytes end at 2 GiB an array."""

_PAIR: Final = 2
_DEEPEST: Final = 100
_SCALARS: Final = frozenset({bool, int, float, str, bytes, type(None)})
"""Types whose values hold nothing that would have to be turned into something else."""


_PERHAPS_LONG: Final = 2**29
"""The fewest characters that may take 2 GiB, which is where the arrays of Arrow's text end."""
_SIZED: Final = frozenset({str, bytes, type(None)})
_HOLDERS: Final = (str, bytes, bytearray, list, tuple, set, frozenset, dict, np.ndarray, memoryview)


class _Missing:
    """Marks a field that one record lacks and others have."""


MISSING: Final = _Missing()


def fields_of(value: Any, whole: type[Any] | None = None) -> dict[str, Any]:
    """Return an element's columns: a record's fields; `key` and `value` (or its fields) of a pair; else `value`.

    Args:
        value: the element.
        whole: `dict` if the column `value` holds dicts, which are no records then; `tuple` if it holds tuples.

    Raises:
        ValueError: for a pair whose value has a field `key` too.

    Example:
        >>> fields_of(("UA", {"delay": 4}))
        {'key': 'UA', 'delay': 4}
        >>> fields_of(("UA", 4)), fields_of("UA")
        ({'key': 'UA', 'value': 4}, {'value': 'UA'})
        >>> fields_of(("UA", {"delay": 4}), dict), fields_of((3, 4), tuple)
        ({'key': 'UA', 'value': {'delay': 4}}, {'value': (3, 4)})
    """
    record = None if _is_whole(value, whole) else _record_fields(value)
    if record is not None:
        return record
    if type(value) is not tuple or len(value) != _PAIR or whole is tuple:
        return {"value": value}
    inner = None if _is_whole(value[1], whole) else _record_fields(value[1])
    if inner is None:
        return {"key": value[0], "value": value[1]}
    if "key" in inner:
        raise ValueError("the value of a pair must not have a field 'key', which is the name of the key's column")
    return {"key": value[0], **inner}


def columns_of_values(
    values: list[Any], schema: pa.Schema | None = None
) -> tuple[dict[str, list[Any]], list[int], list[tuple[int, str]]]:
    """Return columns by name, which elements they hold, and which elements have no shape, each with the reason.

    Args:
        values: the elements.
        schema: the columns that they are for, if these are known.
    """
    whole = None if schema is None else _held_whole(schema)
    columns = _columns_of_alike(values, whole)
    if columns is not None:
        return columns, list(range(len(values))), []
    columns = {}
    fitting: list[int] = []
    misfits: list[tuple[int, str]] = []
    for index, value in enumerate(values):
        try:
            fields = fields_of(value, whole)
        except ValueError as error:
            misfits.append((index, str(error)))
            continue
        for name, inner in fields.items():
            if name not in columns:
                columns[name] = [MISSING] * len(fitting)
            columns[name].append(inner)
        for name, column in columns.items():
            if name not in fields:
                column.append(MISSING)
        fitting.append(index)
    return columns, fitting, misfits


def fitted_columns(
    columns: Mapping[str, list[Any] | pa.Array], count: int, schema: pa.Schema, bad: dict[int, str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns in the types of a schema, with null for each value that does not fit, in batches of bounded size.

    A field that an element lacks is null.

    Args:
        columns: the values by name, with `MISSING` where an element lacks a field; an array, if all fit.
        count: how many elements there are.
        schema: all columns.
        bad: gets the indices of the elements that do not fit, each with the reason, before their batch is yielded: a
            field that the schema lacks, a null where there may be none, or a value that the column's type cannot hold
            without loss.

    Example:
        >>> bad = {}
        >>> [batch] = fitted_columns({"delay": [4, 0.5]}, 2, pa.schema({"delay": pa.int64()}), bad)
        >>> batch["delay"].to_pylist(), bad
        ([4, None], {1: "column 'delay' is int64 and cannot hold 0.5 of type float"})
    """
    unknown = columns.keys() - schema.names
    for name in (name for name in columns if name in unknown):
        for row, value in enumerate(columns[name]):
            if value is not MISSING:
                bad.setdefault(row, f"the schema has no column {name!r}; it has {', '.join(schema.names) or 'none'}")
    lists = [values for values in columns.values() if isinstance(values, list)]
    ragged = any(_Missing in set(map(type, values)) for values in lists)
    nullable = pa.schema([field.with_nullable(nullable=True) for field in schema])
    for rows in _ranges(lists, count):
        arrays = []
        for field in schema:
            values: Any = columns.get(field.name)
            if isinstance(values, pa.Array):
                arrays.append(values[rows])
                continue
            if values is None:
                values = [None] * (rows.stop - rows.start)
            elif ragged:
                values = [None if value is MISSING else value for value in values[rows]]
            elif len(values) != rows.stop - rows.start:
                values = values[rows]
            array = _array(values, field)
            if array is None:
                array = _fitting(values, field, bad, rows.start)
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=nullable)


def weight_of(values: Iterable[Any], depth: int = 0) -> int:
    """Return about how many bytes values take as columns: those of text and bytes, and eight for a number.

    Example:
        >>> weight_of(["UA", b"1545", {"delays": [4, 5]}])
        28
    """
    kinds = set(map(type, values := list(values)))
    if kinds <= _SIZED:
        return sum(map(len, filter(None, values)))
    if depth > _DEEPEST or not any(map(_holds_others, kinds)):
        return 8 * len(values)
    return sum(_weight(value, depth) for value in values)


def _weight(value: Any, depth: int) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, np.ndarray | memoryview):
        return int(value.nbytes)
    if isinstance(value, list | tuple | set | frozenset):
        return weight_of(value, depth + 1)
    fields = _record_fields(value)
    return 8 if fields is None else weight_of(fields, depth + 1) + weight_of(fields.values(), depth + 1)


def _holds_others(kind: type[Any]) -> bool:
    """Return whether values of a type have another size than a number."""
    return issubclass(kind, _HOLDERS) or attrs.has(kind) or dataclasses.is_dataclass(kind)


def _ranges(columns: list[list[Any]], count: int) -> Iterator[slice]:
    """Yield ranges of rows of `BATCH_BYTES` at most, or of a single row; one range where there are no rows."""
    if count < 2 or sum(map(weight_of, columns)) <= BATCH_BYTES:  # noqa: PLR2004
        yield slice(0, count)
        return
    start = size = 0
    for row, values in enumerate(zip(*columns, strict=True)):
        weight = weight_of(values)
        if size + weight > BATCH_BYTES and row > start:
            yield slice(start, row)
            start, size = row, 0
        size += weight
    yield slice(start, count)


def inferred_type(values: list[Any]) -> pa.DataType:
    """Return the type of a column of values; text where only nulls are seen."""
    known = [value for value in values if value is not None and value is not MISSING]
    if known and all(isinstance(value, Instant) for value in known):
        return pa.timestamp("us", "UTC")
    if known and all(isinstance(value, Duration) for value in known):
        return pa.duration("us")
    plain = [shape for shape in map(_plain_if_shallow, known) if shape is not None]
    kind = pa.null()
    try:
        kind = pa.infer_type(plain)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # mixed: the first value decides
        for value in plain[:1]:
            try:
                kind = pa.infer_type([value])
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                kind = pa.null()
    finest = with_leaves(kind, _in_nanoseconds)
    if finest != kind and would_change(plain, kind) and not would_change(plain, finest):
        return finest
    return pa.string() if pa.types.is_null(kind) else kind


def _in_nanoseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    return pa.duration("ns") if pa.types.is_duration(kind) else kind


def _held_whole(schema: pa.Schema) -> type[Any] | None:
    """Return which elements, or values of pairs, a schema holds whole in its column `value`: dicts, tuples or none."""
    kind = schema.field("value").type if "value" in schema.names else pa.null()
    if pa.types.is_map(kind):
        return dict
    return tuple if pa.types.is_list(kind) and "key" not in schema.names else None


def _is_whole(value: Any, whole: type[Any] | None) -> bool:
    """Return whether a value is a dict that a column holds; one with just that column is a record all the same."""
    return whole is dict and isinstance(value, dict) and value.keys() != {"value"}


def _record_fields(value: Any) -> dict[str, Any] | None:
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return None if names is None else dict(zip(names, value, strict=True))
    if isinstance(value, dict):
        return {str(name): inner for name, inner in value.items()}
    kind = type(value)
    if attrs.has(kind):
        return {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    return None


def _columns_of_alike(values: list[Any], whole: type[Any] | None = None) -> dict[str, list[Any]] | None:
    """Turn values of one type into columns at once, where that is possible: named tuples, pairs, plain values."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        if names:
            return {name: _items(values, index) for index, name in enumerate(names)}
        if kind is not tuple or whole is tuple or set(map(len, values)) != {_PAIR}:
            return None
        keys, inner = _items(values, 0), _items(values, 1)
        if any(_is_record(inner_type) for inner_type in set(map(type, inner))):
            columns = _columns_of_alike(inner) if type(inner[0]) is not tuple else None
            return None if columns is None or "key" in columns else {"key": keys, **columns}
        return {"key": keys, "value": inner}
    return None if _is_record(kind) else {"value": values}


def _items(values: list[Any], index: int) -> list[Any]:
    """Return one item of each tuple; a `zip(*values)` would make an iterator of each, which is several times slower.

    Rows look keys up by name as well, in Python, so their own `row[0]` is slower than that of `tuple`.
    """
    return list(map(tuple.__getitem__, values, itertools.repeat(index)))


def _is_record(kind: type[Any]) -> bool:
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named or issubclass(kind, dict) or attrs.has(kind) or dataclasses.is_dataclass(kind)


def _array(values: list[Any], field: pa.Field) -> pa.Array | None:
    """Return the values as a column, or `None` when one does not fit."""
    kind = field.type
    try:
        if pa.types.is_nested(kind) or pa.types.is_duration(kind):
            values = [_plain(value, kind) for value in values]
        elif pa.types.is_temporal(kind) and are_foreign(set(map(type, values))):
            values = list(map(python_time, values))
        if would_change(values, kind):
            return None
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            array = pa.array([_nanoseconds(value) for value in values], kind)  # those of a pd.Timestamp are kept
        else:
            array = pa.array(values, _in_microseconds(values, kind)).cast(kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError):
        return None
    if _lacks_value(array, field):
        return None
    wide = with_leaves(kind, _widest)
    return None if wide != kind and infinities(array) > infinities(pa.array(values, wide)) else array


def infinities(column: pa.Array) -> int:
    """Return how many infinities are in a column, which are more than before if its floats cannot hold all numbers.

    Example:
        >>> infinities(pa.array([[1e300], [0.5, 1e300]], pa.list_(pa.float32())))
        2
    """
    floats = [leaf for leaf in leaves(column) if pa.types.is_floating(leaf.type)]
    return sum(int(np.isinf(leaf.to_numpy(zero_copy_only=False)).sum()) for leaf in floats)


def _widest(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else kind


def _lacks_value(array: pa.Array, field: pa.Field) -> bool:
    """Return whether there is a null where there may be none, also inside of a value."""
    kind = field.type
    if array.null_count and not field.nullable:
        return True
    if pa.types.is_struct(kind):
        rows = array.drop_null()
        return any(_lacks_value(rows.field(index), inner) for index, inner in enumerate(kind))
    if pa.types.is_map(kind):
        return _lacks_value(array.keys, kind.key_field) or _lacks_value(array.items, kind.item_field)
    if _is_list(kind):
        return _lacks_value(array.flatten(), kind.value_field)
    return False


def would_change(values: list[Any], kind: pa.DataType) -> bool:
    """Return whether Arrow would take one of the values, or one inside of them, and change it.

    Example:
        >>> would_change([1.5], pa.int64()), would_change(["a"], pa.int64())
        (True, False)
    """
    return any_inside(values, kind, _would_change)


def lack_zone(values: list[Any], kind: pa.DataType) -> bool:
    """Return whether one of the values lacks the time zone that its column has: Arrow would take it as UTC.

    Example:
        >>> lack_zone([dt.datetime(2013, 1, 1)], pa.timestamp("us", "UTC"))
        True
    """
    if not (pa.types.is_timestamp(kind) and kind.tz is not None):
        return False
    moments = (value for value in values if isinstance(value, dt.datetime))
    return any(moment.tzinfo is None and moment == moment for moment in moments)  # noqa: PLR0124 - pandas' NaT is null


def fields_amiss(fields: Collection[str], columns: pa.Schema) -> str | None:
    """Return why the fields of a record are not just the columns; `None` if they are.

    Example:
        >>> fields_amiss(["at", "dealy"], pa.schema({"at": pa.int64(), "delay": pa.int64()}))
        "there is no column 'dealy'; the columns are at, delay"
        >>> fields_amiss(["at"], pa.schema({"at": pa.int64(), "delay": pa.int64()}))
        "the field 'delay' is missing; the columns are at, delay"
    """
    names = columns.names
    for field in fields:
        if field not in names:
            return f"there is no column {field!r}; the columns are {', '.join(names)}"
    for name in names:
        if name not in fields:
            return f"the field {name!r} is missing; the columns are {', '.join(names)}"
    return None


def any_inside(values: list[Any], kind: pa.DataType, test: Callable[[list[Any], pa.DataType], bool]) -> bool:
    """Return whether a test of values and their type is true of the values, or of those inside them.

    Example:
        >>> any_inside([[1], [2, 3]], pa.list_(pa.int64()), lambda values, kind: 3 in values)
        True
    """
    if _is_list(kind):
        return any(any_inside([*value], kind.value_type, test) for value in values if isinstance(value, list | tuple))
    if pa.types.is_map(kind):
        pairs = [pair for value in values if isinstance(value, list) for pair in value]
        keys, items = [key for key, _ in pairs], [item for _, item in pairs]
        return any_inside(keys, kind.key_type, test) or any_inside(items, kind.item_type, test)
    if pa.types.is_struct(kind):
        records = [value for value in values if isinstance(value, dict)]
        fields = (kind.field(index) for index in range(kind.num_fields))
        return any(any_inside([record.get(field.name) for record in records], field.type, test) for field in fields)
    return test(values, kind)


def _would_change(values: list[Any], kind: pa.DataType) -> bool:
    kinds = set(map(type, values))
    if (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit != "ns" and are_foreign(kinds):
        return any(map(has_nanoseconds, values))
    return any(test(kind) and any(issubclass(of_value, lossy) for of_value in kinds) for test, lossy in _LOSSY)


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _in_microseconds(values: list[Any], kind: pa.DataType) -> pa.DataType:
    """Return a type of time to make an array in, whose cast fails where Arrow would drop a fraction; or else `kind`."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    kinds = set(map(type, values))
    if pa.types.is_duration(kind) and kinds <= {dt.timedelta, type(None)}:  # a number counts units of the column
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time32(kind) and kinds <= {dt.time, type(None)} else kind


def _nanoseconds(value: Any) -> Any:
    """Return a number, which counts microseconds, in nanoseconds as Arrow takes it, and any other value unchanged."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return value
    return int(value) * 1_000


# What Arrow would take, and round or change in meaning.
_LOSSY: Final = (
    (pa.types.is_integer, (float, np.floating, decimal.Decimal)),
    (pa.types.is_floating, (bool, np.bool_)),
    (pa.types.is_timestamp, (float, np.floating)),
    (pa.types.is_date, (dt.datetime, int)),
)


def _fitting(values: list[Any], field: pa.Field, bad: dict[int, str], first: int) -> pa.Array:
    """Return a column with null where a value does not fit, and say which; `first` is the index of the first value."""
    good: list[Any] = []
    for row, given in enumerate(values, first):
        value = None if are_foreign([type(given)]) and given != given else given  # noqa: PLR0124 - NaT, a null
        if _array([value], field) is None:
            why = "must not be null" if value is None else f"is {field.type} and cannot hold {_shown(value)}"
            large = field.with_type(with_leaves(field.type, _large))
            if large.type != field.type and weight_of([value]) >= _PERHAPS_LONG and _array([value], large) is not None:
                why += ", whose text takes 2 GiB or more: pass a schema with pa.large_string() or pa.large_binary()"
            bad.setdefault(row, f"column {field.name!r} {why}")
            good.append(None)
        else:
            good.append(value)
    array = _array(good, field.with_nullable(nullable=True))
    if array is None:  # each fits alone, so all do
        raise AssertionError(field)
    return array


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def _shown(value: Any) -> str:
    return f"{shown(value)} of type {type(value).__name__}"


def _plain_if_shallow(value: Any) -> Any:
    """Return a value as Arrow takes it, or `None` for one that no column can hold."""
    try:
        return _plain(value, None)
    except ValueError:
        return None


def _plain(value: Any, kind: pa.DataType | None, depth: int = 0) -> Any:
    """Turn records and tuples inside a value into what Arrow takes for structs, lists and maps.

    Raises:
        ValueError: for a value with other fields than its column, and for one that is nested more than 100 deep.
    """
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if type(value) in _SCALARS:
        return value
    value = python_time(value)
    if kind is not None and pa.types.is_duration(kind):
        return dt.timedelta(microseconds=int(value)) if isinstance(value, Duration) else value
    if kind is not None and _is_list(kind) and isinstance(value, tuple | list | set | frozenset):
        if depth < _DEEPEST and _SCALARS.issuperset(map(type, value)):
            return list(value)
        return [_plain(item, kind.value_type, depth + 1) for item in value]
    if kind is not None and pa.types.is_map(kind) and isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else value  # a source gives a list
        if not all(isinstance(pair, tuple | list) for pair in pairs):
            raise ValueError("a map is a dict or a list of pairs")
        return [(_plain(key, kind.key_type, depth + 1), _plain(item, kind.item_type, depth + 1)) for key, item in pairs]
    fields = _record_fields(value)
    if fields is None and isinstance(value, tuple):
        fields = {f"_{index}": item for index, item in enumerate(value, 1)}
    if fields is not None:
        if kind is None or not pa.types.is_struct(kind):
            return {name: _plain(item, None, depth + 1) for name, item in fields.items()}
        inner = {kind.field(index).name: kind.field(index).type for index in range(kind.num_fields)}
        if fields.keys() - inner.keys():
            raise ValueError(f"a value has the fields {list(fields)}, but its column has {list(inner)}")
        return {name: _plain(item, inner[name], depth + 1) for name, item in fields.items()}
    if isinstance(value, set | frozenset | list):
        return [_plain(item, None, depth + 1) for item in value]
    return value
