"""Arrow schemas from type hints: what a sink's columns are when a collection's element type says so."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import types
import typing
from typing import TYPE_CHECKING, Any, Final, Union

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidType, PlanError, SinkError
from dataflow_model.time import Duration, EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "PANE_FIELDS",
    "RETRACTION_FIELD",
    "checked_schema",
    "full_schema",
    "schema_from_type",
    "unified_schema",
    "unknown_columns",
]

_MICROS: Final = pa.timestamp("us", "UTC")
_SCALARS: Final[dict[Any, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.datetime: _MICROS,
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.timedelta: pa.duration("us"),
    EventTime: _MICROS,
    ProcessingTime: _MICROS,
    Duration: pa.duration("us"),
    np.int32: pa.int32(),
    np.int64: pa.int64(),
    np.float32: pa.float32(),
    np.float64: pa.float64(),
}
PANE_FIELDS: Final = (
    pa.field("window_start", _MICROS),
    pa.field("window_end", _MICROS),
    pa.field("pane_index", pa.int64()),
    pa.field("pane_timing", pa.string()),
)
"""The columns of `panes=True`; the bounds are null where they are infinite."""
RETRACTION_FIELD: Final = pa.field("is_retraction", pa.bool_())
"""The last column wherever values may be taken back: true in the rows that do."""


def schema_from_type(element_type: Any) -> pa.Schema | None:
    """Return the columns of elements of a type, or `None` where the hints do not tell.

    A named tuple, typed dict, attrs class or dataclass gives its fields; a pair `tuple[K, V]` gives `key`, then `value`
    or the value's fields; anything else that is known gives `value`.

    Example:
        >>> schema_from_type(tuple[str, float])
        key: string
        value: double
        >>> schema_from_type(object) is None
        True
    """
    fields = _fields(element_type)
    if fields is None and _is_pair(element_type):
        key, value = typing.get_args(element_type)
        inner = _fields(value)
        fields = {"key": key, **({"value": value} if inner is None else inner)}
        if inner is not None and "key" in inner:
            return None
    if fields is None:
        fields = {"value": element_type}
    types = {name: _arrow_type(hint) for name, hint in fields.items()}
    if any(kind is None for kind in types.values()):
        return None
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def full_schema(schema: pa.Schema, *, panes: bool, retractions: bool) -> pa.Schema:
    """Return the schema with what a sink adds behind its own columns, those apart that it has already.

    Args:
        schema: the rows' own columns.
        panes: whether window and pane are columns.
        retractions: whether values may be taken back, so that a column says which rows do so.

    Example:
        >>> full_schema(pa.schema({"value": pa.int64()}), panes=True, retractions=True).names
        ['value', 'window_start', 'window_end', 'pane_index', 'pane_timing', 'is_retraction']
    """
    added = (*(PANE_FIELDS if panes else ()), *((RETRACTION_FIELD,) if retractions else ()))
    return pa.schema([*schema, *(field for field in added if field.name not in schema.names)])


def checked_schema(value: Any) -> pa.Schema | None:
    """Return a schema that a user has given, or `None` for none.

    Raises:
        InvalidType: for anything else.
    """
    if value is None or isinstance(value, pa.Schema):
        return value
    raise InvalidType(
        f"`schema` must be a pyarrow.Schema, got {value!r}",
        hint="use pa.schema({'key': pa.string(), 'value': pa.int64()})",
    )


def unified_schema(schemas: Iterable[pa.Schema], label: str) -> pa.Schema:
    """Return the columns that hold what several tasks have inferred each for itself.

    Raises:
        SinkError: when they do not go together.

    Example:
        >>> unified_schema([pa.schema({"value": pa.int64()}), pa.schema({"value": pa.float64()})], "Write")
        value: double
    """
    try:
        return pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise SinkError(
            f"{label!r} has rows with incompatible columns: {error}", hint="pass schema=pa.schema({…})"
        ) from error


def unknown_columns(label: str) -> PlanError:
    """Return the error of a sink that would have to see rows before it knows its columns."""
    return PlanError(
        f"the columns of {label!r} are not known, and a stream cannot infer them from its rows",
        hint="pass schema=pa.schema({…}), or add .with_output_types(tuple[str, float]) to the step before",
    )


def _is_pair(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    return typing.get_origin(hint) is tuple and len(arguments) == 2 and ... not in arguments  # noqa: PLR2004


def _fields(hint: Any) -> dict[str, Any] | None:
    if not isinstance(hint, type):
        return None
    named = issubclass(hint, tuple) and hasattr(hint, "_fields")
    if not (named or typing.is_typeddict(hint) or attrs.has(hint) or dataclasses.is_dataclass(hint)):
        return None
    try:
        hints = typing.get_type_hints(hint)
    except (NameError, TypeError):
        hints = {}
    if attrs.has(hint):
        names = [field.name for field in attrs.fields(hint)]
    elif dataclasses.is_dataclass(hint):
        names = [field.name for field in dataclasses.fields(hint)]
    else:
        names = list(getattr(hint, "_fields", hints))
    return {name: hints.get(name, Any) for name in names}


def _arrow_type(hint: Any) -> pa.DataType | None:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {Union, types.UnionType}:
        kinds = {_arrow_type(argument) for argument in arguments if argument is not type(None)}
        return kinds.pop() if len(kinds) == 1 else None
    if origin in {list, set, frozenset, collections.abc.Sequence} and len(arguments) == 1:
        inner = _arrow_type(arguments[0])
        return None if inner is None else pa.list_(inner)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:  # noqa: PLR2004
        inner = _arrow_type(arguments[0])
        return None if inner is None else pa.list_(inner)
    if origin is tuple and arguments:
        return _struct({f"_{place}": argument for place, argument in enumerate(arguments, 1)})
    if origin is dict:
        key, value = (_arrow_type(argument) for argument in arguments)
        return None if key is None or value is None else pa.map_(key, value)
    fields = _fields(hint)
    return _struct(fields) if fields else None


def _struct(fields: dict[str, Any]) -> pa.DataType | None:
    types = {name: _arrow_type(hint) for name, hint in fields.items()}
    if any(kind is None for kind in types.values()):
        return None
    return pa.struct([pa.field(name, kind) for name, kind in types.items()])
