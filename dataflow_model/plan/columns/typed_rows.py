"""Rows as instances of a class of the user: a named tuple, a dataclass or an attrs class."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import functools
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any, Final, Union

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.columns.rows import kind_of_column
from dataflow_model.plan.columns.type_schemas import column_type, fields_of
from dataflow_model.time import Duration, EventTime, ProcessingTime, duration, event_time, processing_time

if TYPE_CHECKING:
    from collections.abc import Callable


def _datetime(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):  # rows hold instants beyond the years of `datetime` as numbers
        raise ValueError(f"{value!r} µs since the epoch is beyond the years 1 to 9999 of datetime")  # noqa: TRY004
    return value


def _of_micros(make: Callable[..., Any], kind: type) -> Callable[[Any], Any]:
    return lambda value: kind(value) if isinstance(value, int) else make(value)


_CONVERTERS: Final[dict[Any, Callable[[Any], Any]]] = {
    dt.datetime: _datetime,
    EventTime: _of_micros(event_time, EventTime),
    ProcessingTime: _of_micros(processing_time, ProcessingTime),
    Duration: duration,
    np.int32: np.int32,
    np.int64: np.int64,
    np.float32: np.float32,
    np.float64: np.float64,
}
"""By the type of a field: what turns the value of a row into one of that type, where they differ."""


@attrs.frozen
class TypedRows:
    """Turns rows of a source into instances of a class, by the names of its fields.

    Values that rows hold in another form are converted: instants and durations to those of this package, lists to
    sets and tuples, and dicts to records. Null is only accepted by fields whose type includes `None`.

    Args:
        kind: the class.

    Raises:
        InvalidType: for what is no named tuple, dataclass or attrs class, and for a class with a field of a type that
            no column can have, or that cannot be created from its fields.

    Example:
        >>> from typing import NamedTuple
        >>> from dataflow_model.plan.columns.rows import named_row_type
        >>> class Delay(NamedTuple):
        ...     carrier: str
        ...     minutes: int | None
        >>> TypedRows(Delay)(named_row_type((("minutes", "int"), ("carrier", "str")))(None, "UA"))
        Delay(carrier='UA', minutes=None)
    """

    kind: type[Any]

    def __attrs_post_init__(self) -> None:
        """Check the class."""
        fields = None if typing.is_typeddict(self.kind) else fields_of(self.kind)
        if fields is None:
            raise InvalidType(
                f"`row_type` must be a NamedTuple, a dataclass or an attrs class, got {self.kind!r}",
                hint="write the names and types of the columns as a class: class Reading(NamedTuple): …",
            )
        if not fields:
            raise InvalidType(
                f"`row_type` must have at least one field, but {self.kind.__name__} has none",
                hint="add a field for each column to read",
            )
        for name, hint in fields.items():
            if column_type(hint, self.kind) is None:
                raise InvalidType(
                    f"no column has the type of {self.kind.__name__}.{name}, {_shown(hint)}",
                    hint="use int, float, str, bool, bytes, times, or lists and records of these; other types, such as "
                    "decimals, need schema=pa.schema({…}) in place of `row_type`",
                )
        names = _argument_names(self.kind)
        try:
            taken = inspect.signature(self.kind)
            taken.bind(*fields) if names is None else taken.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise InvalidType(
                f"{self.kind.__name__} cannot be created from its fields {', '.join(fields)}: {error}",
                hint="let its constructor take each field and nothing else, or convert the rows with dm.Map(…)",
            ) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(fields_of(self.kind) or ())

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        fields = fields_of(self.kind) or {}
        return pa.schema([pa.field(name, column_type(hint, self.kind)) for name, hint in fields.items()])

    def check_columns(self, columns: pa.Schema) -> None:
        """Check that values of typed columns are of the types of the fields, be they of fewer bits or another unit.

        Raises:
            InvalidArgument: for a column that is missing, or of another type.
        """
        kinds = dict(zip(columns.names, columns.types, strict=True))
        for field in self.schema:
            column = kinds.get(field.name)
            if column is None:
                raise InvalidArgument(
                    f"{self.kind.__name__} has a field {field.name!r}, but there is no such column",
                    hint=f"the columns are {', '.join(kinds)}",
                )
            if kind_of_column(column) != kind_of_column(field.type):
                hint = (fields_of(self.kind) or {})[field.name]
                raise InvalidArgument(
                    f"column {field.name!r} is {column}, but {self.kind.__name__}.{field.name} is {_shown(hint)}",
                    hint=f"declare the field as {kind_of_column(column)}, or convert the rows with dm.Map(…)",
                )

    def __call__(self, row: Any) -> Any:
        """Return a row as an instance of the class.

        Raises:
            ValueError: for a value that the type of its field excludes.
        """
        kind: Any = self.kind
        return _maker(kind)(row)


@functools.lru_cache(maxsize=1024)
def _maker(kind: type[Any]) -> Callable[[Any], Any]:
    """Return the function from rows to instances of a class."""
    fields = fields_of(kind) or {}
    names, convert = tuple(fields), _record(kind)

    def make(row: Any) -> Any:
        return convert(row if row._fields == names else tuple(row[name] for name in names))

    return make


def _record(kind: type[Any]) -> Callable[[Any], Any]:
    """Return the function from the values of the fields, in order, to a record."""
    fields = fields_of(kind) or {}
    steps = [(index, _checked(hint, f"{kind.__name__}.{name}")) for index, (name, hint) in enumerate(fields.items())]
    needed = [(index, step) for (index, step), hint in zip(steps, fields.values(), strict=True) if _changes(hint)]
    arguments = list(fields) if typing.is_typeddict(kind) else _argument_names(kind)

    def convert(values: Any) -> Any:
        if None in values:
            values = [step(value) for (_, step), value in zip(steps, values, strict=True)]
        elif needed:
            values = list(values)
            for index, step in needed:
                values[index] = step(values[index])
        if arguments is None:
            return kind(*values)
        return kind(**dict(zip(arguments, values, strict=True)))

    return convert


def _argument_names(kind: type[Any]) -> list[str] | None:
    """Return the names by which a constructor takes the fields; `None` if it takes them by position."""
    if attrs.has(kind):
        return [field.alias or field.name for field in attrs.fields(kind)]
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return None


def _checked(hint: Any, where: str) -> Callable[[Any], Any]:
    """Return a function that converts a value to the type of a hint, and rejects null unless the hint includes it."""
    inner, takes_null = _without_none(hint)
    convert = _converter(inner, where)

    def checked(value: Any) -> Any:
        if value is not None:
            return value if convert is None else convert(value)
        if takes_null:
            return None
        raise ValueError(f"null does not fit {where}, which is {_shown(hint)}; {_shown(hint)} | None would hold it")

    return checked


def _changes(hint: Any) -> bool:
    """Return whether values of a hint that are not null have to be converted."""
    return _converter(_without_none(hint)[0], "") is not None


def _without_none(hint: Any) -> tuple[Any, bool]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) not in {Union, types.UnionType} or type(None) not in arguments:
        return hint, False
    return Union[tuple(kind for kind in arguments if kind is not type(None))], True  # noqa: UP007 - made from data


def _converter(hint: Any, where: str) -> Callable[[Any], Any] | None:
    """Return what converts a value of a row, which is not null, to the type of a hint; `None` if that is its type."""
    if hint in _CONVERTERS:
        return _CONVERTERS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        key, value = (_checked(argument, where) for argument in arguments)
        return lambda pairs: {key(one): value(other) for one, other in pairs}
    if origin is tuple and arguments[-1] is not ...:
        parts = [_checked(argument, where) for argument in arguments]
        return lambda struct: tuple(part(value) for part, value in zip(parts, struct.values(), strict=True))
    if origin in {list, set, frozenset, tuple, collections.abc.Sequence}:
        item = _checked(arguments[0], where)
        collect: Any = list if origin is collections.abc.Sequence else origin
        return lambda values: collect(map(item, values))
    fields = fields_of(hint)
    if fields is not None:
        names, record = tuple(fields), _record(hint)
        return lambda struct: record(tuple(map(struct.get, names)))
    return None


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
