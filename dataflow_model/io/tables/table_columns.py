"""Columns of database tables: the type that each type of Arrow becomes."""

from __future__ import annotations

import datetime as dt
import decimal
import string
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.tables.table_values import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine

_LOWERED: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_UINT64_DIGITS: Final = 20
_FINEST: Final = ("s", "ms", "us")
_DECIMALS_OF_UNIT: Final = {"s": 0, "ms": 3, "us": 6}


class _ExactDecimal(TypeDecorator[Any]):
    """Decimals; as text in SQLite, whose numbers are binary floats."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        native: TypeEngine[Any] = sa.Text() if dialect.name == "sqlite" else self.impl_instance
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return str(value) if value is not None and dialect.name == "sqlite" else value


class _Span(TypeDecorator[Any]):
    """Durations; as microseconds in SQLite, which has no type for them."""

    impl = sa.Interval
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        native: TypeEngine[Any] = sa.BigInteger() if dialect.name == "sqlite" else self.impl_instance
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value // _MICROSECOND if value is not None and dialect.name == "sqlite" else value


_MICROSECOND: Final = dt.timedelta(microseconds=1)
_TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], TypeEngine[Any]]], ...]] = (
    (pa.types.is_boolean, lambda _: sa.Boolean()),
    (lambda kind: kind in {pa.int8(), pa.int16(), pa.uint8()}, lambda _: sa.SmallInteger()),
    (lambda kind: kind in {pa.int32(), pa.uint16()}, lambda _: sa.Integer()),
    (lambda kind: kind in {pa.int64(), pa.uint32()}, lambda _: sa.BigInteger()),
    (pa.types.is_integer, lambda _: _ExactDecimal(_UINT64_DIGITS, 0)),
    (lambda kind: kind in {pa.float16(), pa.float32()}, lambda _: sa.REAL()),
    (pa.types.is_floating, lambda _: sa.Double()),
    (pa.types.is_decimal, lambda kind: _ExactDecimal(kind.precision, kind.scale)),
    (is_text, lambda _: sa.Text()),
    (pa.types.is_null, lambda _: sa.Text()),
    (lambda kind: "binary" in str(kind) and not pa.types.is_nested(kind), lambda _: sa.LargeBinary()),
    (pa.types.is_date, lambda _: sa.Date()),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit in _FINEST, lambda kind: sa.DateTime(kind.tz is not None)),
    (lambda kind: pa.types.is_time(kind) and kind.unit in _FINEST, lambda _: sa.Time()),
    (lambda kind: pa.types.is_duration(kind) and kind.unit in _FINEST, lambda _: _Span()),
    (pa.types.is_nested, lambda _: sa.JSON(none_as_null=True)),
)


def check_columns(schema: pa.Schema, keys: Sequence[str], label: str, *, ignores_case: bool = False) -> None:
    """Raise `InvalidArgument` for a key that is not a column, or a column that databases do not support.

    Args:
        schema: the columns.
        keys: the names of the columns that tell rows apart.
        label: of the transform.
        ignores_case: whether names that differ only in case are the same to the database, as to SQLite.

    Example:
        >>> check_columns(pa.schema({"key": pa.string(), "value": pa.int64()}), ["carrier"], "delays")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: 'delays' has the key 'carrier', but its rows have no such column
        Hint: the columns are key, value
    """
    for name in keys:
        if name not in schema.names:
            raise InvalidArgument(
                f"{label!r} has the key {name!r}, but its rows have no such column",
                hint=f"the columns are {', '.join(schema.names)}",
            )
        if pa.types.is_nested(schema.field(name).type):
            raise InvalidArgument(
                f"{label!r} has the key {name!r} of type {schema.field(name).type}, but databases compare only "
                "plain values",
                hint="use a column of numbers, text or instants",
            )
    for field in schema:
        if not field.name:
            raise InvalidArgument(
                f"{label!r} has a column whose name is empty, which databases do not support; its columns are "
                f"{', '.join(map(repr, schema.names))}",
                hint="rename the column, or leave it out: ReadCsv(…, rename={'': 'rest'}), for example",
            )
        _type_of(field, label)
    if ignores_case:
        _check_case(schema.names, label)


def _check_case(names: Sequence[str], label: str) -> None:
    """Raise `InvalidArgument` if two names differ only in the case of letters of ASCII."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.translate(_LOWERED), name)
        if other != name:
            raise InvalidArgument(
                f"{label!r} has the columns {other!r} and {name!r}, which are the same to SQLite",
                hint="rename one of them in a dm.Map before the sink",
            )


def columns_of(schema: pa.Schema, keys: Sequence[str], label: str) -> list[sa.Column[Any]]:
    """Return the columns of a table that has such rows; the keys are its primary key."""
    return [
        sa.Column(
            field.name,
            _type_of(field, label),
            primary_key=field.name in keys,
            autoincrement=False,
            nullable=field.nullable and field.name not in keys,
            info={"decimals": _decimals_of(field.type)},
        )
        for field in schema
    ]


def is_held_as(row_type: TypeEngine[Any], column_type: TypeEngine[Any], dialect: Dialect) -> bool:
    """Return whether an existing column can hold values of a type without loss; one of an unknown type is trusted."""
    if isinstance(row_type, TypeDecorator):
        row_type = row_type.load_dialect_impl(dialect)
    try:
        row_python, column_python = row_type.python_type, column_type.python_type
    except NotImplementedError:
        return True
    if row_python is dt.datetime and column_python is dt.datetime and dialect.name != "sqlite":
        return bool(getattr(row_type, "timezone", False)) == bool(getattr(column_type, "timezone", False))
    return (
        column_python is row_python
        or (row_python is int and column_python is decimal.Decimal)
        or {row_python, column_python} <= {dict, list}
    )


def decimals_kept(column_type: TypeEngine[Any]) -> int | None:
    """Return how many decimal places an existing column rounds to; `None` if it does not round.

    Example:
        >>> from sqlalchemy.dialects.postgresql import TIMESTAMP
        >>> decimals_kept(sa.Numeric(10, 2)), decimals_kept(TIMESTAMP(precision=3)), decimals_kept(sa.Double(53))
        (2, 3, None)
    """
    if isinstance(column_type, sa.Float | sa.Double):
        return None
    attribute = "scale" if isinstance(column_type, sa.Numeric) else "precision"
    decimals: int | None = getattr(column_type, attribute, None)
    return decimals


def _type_of(field: pa.Field, label: str) -> TypeEngine[Any]:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    for test, make in _TYPES:
        if test(kind):
            return make(kind)
    raise InvalidArgument(
        f"{label!r} has a column {field.name!r} of type {kind}, which databases do not support",
        hint="pass schema=pa.schema({…}), with units no finer than microseconds",
    )


def _decimals_of(kind: pa.DataType) -> int:
    """Return how many decimal places the numbers or the seconds of a column have."""
    if pa.types.is_dictionary(kind):
        return _decimals_of(kind.value_type)
    if pa.types.is_decimal(kind):
        return int(kind.scale)
    has_unit = pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind)
    return _DECIMALS_OF_UNIT[kind.unit] if has_unit else 0
