"""Rows: one named tuple type per list of columns, the same in every process, and fast conversion from Arrow.

A row type is identified by its columns: its qualified name is `Row(carrier: str, flight: int)`, and looking up that
name in this module creates the type. So rows and their types are pickled by reference, in any process.
"""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import decimal
import functools
import gc
import unicodedata
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from dataflow_model import durable
from dataflow_model.errors import InvalidArgument, shown
from dataflow_model.micros import EPOCH
from dataflow_model.plan.columns.python_range import RANGE, in_numbers, indices_beyond, with_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_KINDS: Final[dict[str, Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "datetime": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "timedelta": dt.timedelta,
    "Decimal": decimal.Decimal,
    "list": list,
    "dict": dict,
    "Any": Any,
}
_FIRST_DATETIME: Final = int(np.datetime64("0001-01-01", "us").astype(np.int64))
_LAST_DATETIME: Final = int(np.datetime64("9999-12-31T23:59:59.999999", "us").astype(np.int64))


def row_type(schema: pa.Schema) -> type[Any]:
    """Return the named tuple type of a schema's rows, with the columns in order and Python types as annotations.

    A column is read as `row["carrier"]` or as `row.carrier`; if its name is not a Python identifier, only as the
    former.

    Raises:
        InvalidArgument: if two columns have the same name.

    Example:
        >>> Row = row_type(pa.schema({"carrier": pa.string(), "flight": pa.int32()}))
        >>> Row("UA", 1545)
        Row(carrier='UA', flight=1545)
        >>> import pickle
        >>> pickle.loads(pickle.dumps(Row)) is Row
        True
        >>> row_type(pa.schema({"user-id": pa.int64()}))(7)["user-id"]
        7
    """
    return named_row_type(tuple((field.name, kind_of_column(field.type)) for field in schema))


@functools.cache
def named_row_type(fields: tuple[tuple[str, str], ...]) -> type[Any]:
    """Return the row type of `(name, kind)` pairs, where a kind is the name of a Python type.

    Example:
        >>> named_row_type((("carrier", "str"),)).__qualname__
        'Row(carrier: str)'
    """
    names = tuple(name for name, _ in fields)
    check_names(
        names, "give each column a name of its own; for CSV files, ReadCsv does so with columns=[…], header=True"
    )
    # Some names cannot be attributes; the base class then has a placeholder, and `__getitem__` finds the name.
    in_source = [unicodedata.normalize("NFKC", name) for name in names]  # a program's `row.ﬁ` looks up `fi`
    base: Any = collections.namedtuple("Row", in_source, rename=True)  # type: ignore[misc]  # noqa: PYI024 - made from data
    body: dict[str, Any] = {
        "__slots__": (),
        "__module__": durable.__name__,  # where pickles look for it
        "__qualname__": f"Row({', '.join(f'{_encoded(name)}: {kind}' for name, kind in fields)})",
        "__annotations__": {name: _KINDS[kind] | None if kind != "Any" else Any for name, kind in fields},
        "__doc__": "One row of a source.",
        "__getitem__": _item_getter(names),
    }
    placeholders: tuple[str, ...] = base._fields
    if names != placeholders:
        body |= {"_fields": names, "_replace": _replaced, "__repr__": _text_of}
        for name, placeholder in zip(names, placeholders, strict=True):
            is_special = hasattr(tuple, name) or name in _OWN or (name.startswith("__") and name.endswith("__"))
            if name != placeholder and not is_special:
                body[name] = base.__dict__[placeholder]
    result: type[Any] = type("Row", (base,), body)
    return result


_OWN: Final = frozenset({"_asdict", "_field_defaults", "_fields", "_make", "_replace", "__match_args__", "__dict__"})
"""The attributes of every named tuple; a column with such a name can only be read as `row["_fields"]`."""


def kind_of(type_: Any) -> str:
    """Return the kind of a Python type for `named_row_type`, `Any` if it has none.

    Example:
        >>> kind_of(float), kind_of(complex)
        ('float', 'Any')
    """
    return next((kind for kind, known in _KINDS.items() if known is type_), "Any")


def _item_getter(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    indices = {name: index for index, name in enumerate(names)}
    get = tuple.__getitem__

    def __getitem__(self: Any, key: Any) -> Any:  # noqa: N807 - it becomes the row types' method
        if type(key) is str:
            index = indices.get(key)
            if index is None:
                raise KeyError(f"there is no column {key!r}; the columns are {', '.join(names)}")
            return get(self, index)
        return get(self, key)

    return __getitem__


def _replaced(row: Any, /, **changes: Any) -> Any:
    """Return a row with some columns replaced, as `namedtuple._replace` does."""
    unknown = changes.keys() - set(row._fields)
    if unknown:
        raise ValueError(f"got unexpected field names: {sorted(unknown)!r}")
    return row._make(changes.get(name, value) for name, value in zip(row._fields, row, strict=True))


def _text_of(row: Any) -> str:
    values = (
        f"{name if name.isidentifier() else repr(name)}={value!r}" for name, value in zip(row._fields, row, strict=True)
    )
    return f"Row({', '.join(values)})"


def _encoded(name: str) -> str:
    """Return a column name escaped for the row type's name, which pickle splits at dots."""
    return name if name.isidentifier() else quote(name, safe="").replace(".", "%2E")


def row_type_called(name: str) -> type[Any]:
    """Return the row type with a name, such as `"Row(carrier: str)"`."""
    parts = [part.split(": ") for part in name[4:-1].split(", ") if part]
    return named_row_type(tuple((unquote(field), kind) for field, kind in parts))


@functools.cache
def field_getter(name: str, hint: str | None = None) -> Callable[[Any], Any]:
    """Return a function that returns the field of this name of a dict, a row of a source, or an object.

    It raises `InvalidArgument` if the element has no such field.

    Args:
        name: the name.
        hint: the way out of that error, if another one is better than a function of the element.

    Example:
        >>> Row = named_row_type((("__doc__", "str"),))
        >>> get = field_getter("__doc__")
        >>> get(Row("notes")), get({"__doc__": "notes"})
        ('notes', 'notes')
    """
    is_identifier = name.isidentifier()
    is_attribute = is_identifier and not name.startswith("_")  # rows have attributes of their own that begin with `_`

    def get(element: Any) -> Any:
        try:
            if is_attribute and not isinstance(element, dict):
                return getattr(element, name)
            if not is_identifier or isinstance(element, dict) or _is_field(element, name):
                return element[name]
            return getattr(element, name)
        except KeyError:
            if isinstance(element, dict):
                raise no_field(element, name, hint) from None
            raise
        except AttributeError as error:
            raise no_attribute(error, element, name, hint) from None

    return get


def _is_field(element: Any, name: str) -> bool:
    names = getattr(type(element), "_fields", ())
    return isinstance(element, tuple) and isinstance(names, tuple) and name in names


def no_attribute(error: AttributeError, element: Any, name: str, hint: str | None = None) -> Exception:
    """Return the error for an attribute that a row does not have; an error of the row's own code stays as it is."""
    return no_field(element, name, hint) if error.obj is element and error.name == name else error


def no_field(element: Any, name: str, hint: str | None = None) -> InvalidArgument:
    """Return the error for a field that an element does not have.

    Example:
        >>> print(no_field({"carrier": "UA"}, "delay"))
        the element has no field 'delay'; it has ['carrier']
        Hint: name one of its fields, or use a function, as in lambda element: element.get('delay')
        >>> print(no_field(4, "all"))
        the element has no field 'all'; it is of type int
        Hint: text names a field: use a function, as in lambda element: element[0], or dm.Map(lambda element: ...
    """
    if not isinstance(element, dict):
        return InvalidArgument(
            f"the element has no field {name!r}; it is of type {type(element).__name__}",
            hint=hint
            or "text names a field: use a function, as in lambda element: element[0], or "
            f"dm.Map(lambda element: ({name!r}, element)) for one key for all elements",
        )
    return InvalidArgument(
        f"the element has no field {name!r}; it has {shown([*element])}",
        hint=hint or f"name one of its fields, or use a function, as in lambda element: element.get({name!r})",
    )


def check_names(names: Sequence[str], hint: str) -> None:
    """Raise `InvalidArgument` if two columns have the same name."""
    if len(set(names)) < len(names):
        name, count = collections.Counter(names).most_common(1)[0]
        raise InvalidArgument(
            f"there are {count} columns named {name!r}; the columns are {', '.join(names)}", hint=hint
        )


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    """Return a batch's rows as named tuples.

    Timestamps become aware datetimes in UTC (naive ones if the column has no zone); those with nanoseconds become a
    `pd.Timestamp`, the subclass of `datetime` that holds them.

    Example:
        >>> rows_of(pa.record_batch({"carrier": ["UA", None], "delay": [2, -4]}))
        [Row(carrier='UA', delay=2), Row(carrier=None, delay=-4)]
    """
    row = row_type(batch.schema)
    with _collector_paused():
        columns = [values_of(column) for column in batch.columns]
        if not columns:
            return [row()] * batch.num_rows
        return list(map(functools.partial(tuple.__new__, row), zip(*columns, strict=True)))


def values_of(column: pa.Array) -> list[Any]:
    """Return a column's values as a list of Python values, `None` for null.

    An instant outside the years 1 to 9999 stays a number of microseconds since the epoch. An instant with nanoseconds
    is a `pd.Timestamp`, and a duration in nanoseconds a `pd.Timedelta`: neither loses what tells two keys apart.
    Timestamps in structs, lists and maps are in UTC too, whatever their zone, which for a DataFrame is that of the
    Spark session.

    Raises:
        InvalidArgument: for another time that Python cannot hold; the rows of a source with such a time are bad rows.

    Example:
        >>> values_of(pa.array([0, None], pa.timestamp("us", "UTC")))
        [datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), None]
    """
    if pa.types.is_timestamp(column.type):
        return _datetimes(column)
    if pa.types.is_dictionary(column.type):
        return values_of(column.dictionary_decode())
    kind = with_times(column.type, _in_utc)
    try:
        result: list[Any] = (column if kind == column.type else column.cast(kind)).to_pylist()
    except OverflowError as error:
        raise _beyond(column) from error
    return result


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type of time with UTC in place of its zone."""
    has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if has_zone else kind


def _beyond(column: pa.Array) -> InvalidArgument:
    """Return the error for a column with a time that Python cannot hold."""
    number = in_numbers(column.take(pa.array(indices_beyond(column)[:1], pa.int64()))).to_pylist()
    return InvalidArgument(
        f"a column of type {column.type} holds {', '.join(map(str, number))}; {RANGE}",
        hint="change the value, leave the column out, or convert it to a type of whole numbers",
    )


def _datetimes(column: pa.Array) -> list[Any]:
    zone = column.type.tz
    if column.type.unit in {"s", "ms"} and indices_beyond(column):
        raise _beyond(column)
    micros = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    numbers = micros.fill_null(0).to_numpy()
    values: list[Any]
    if len(numbers) and not _FIRST_DATETIME <= numbers.min() <= numbers.max() <= _LAST_DATETIME:
        values = [_datetime(value) for value in numbers.tolist()]
        if zone is None:
            values = [value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value for value in values]
    elif zone is None:
        values = numbers.view("M8[us]").tolist()
    else:
        # Adding timedelta objects to the epoch is several times faster than `replace(tzinfo=…)`.
        values = (numbers.view("m8[us]").astype(object) + EPOCH).tolist()
    if column.type.unit == "ns":
        exact = column.cast(pa.int64()).fill_null(0).to_numpy()
        finer = np.flatnonzero(exact % 1_000)
        moments = column.take(pa.array(finer)).cast(pa.timestamp("ns", "UTC" if zone else None))
        for index, moment in zip(finer.tolist(), moments.to_pylist(), strict=True):
            values[index] = moment
    if column.null_count:
        for index in np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False)).tolist():
            values[index] = None
    return values


def _datetime(micros: int) -> dt.datetime | int:
    return EPOCH + dt.timedelta(microseconds=micros) if _FIRST_DATETIME <= micros <= _LAST_DATETIME else micros


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which hundreds of thousands of new tuples would trigger again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def kind_of_column(type_: pa.DataType) -> str:
    """Return the kind of the Python values of a column for `named_row_type`.

    Example:
        >>> kind_of_column(pa.int32()), kind_of_column(pa.dictionary(pa.int8(), pa.string()))
        ('int', 'str')
    """
    is_ = pa.types
    tests = (
        ("bool", is_.is_boolean),
        ("int", is_.is_integer),
        ("float", is_.is_floating),
        ("str", lambda t: is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t)),
        ("bytes", lambda t: is_.is_binary(t) or is_.is_large_binary(t) or is_.is_fixed_size_binary(t)),
        ("datetime", is_.is_timestamp),
        ("date", is_.is_date),
        ("time", is_.is_time),
        ("timedelta", is_.is_duration),
        ("Decimal", is_.is_decimal),
        ("list", lambda t: is_.is_list(t) or is_.is_large_list(t) or is_.is_map(t)),
        ("dict", is_.is_struct),
    )
    if is_.is_dictionary(type_):
        return kind_of_column(type_.value_type)
    return next((kind for kind, test in tests if test(type_)), "Any")
