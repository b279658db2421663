"""Arrow schemas from type hints: what the columns of a collection are when its element type says so."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import types
import typing
from typing import Any, Final, Union

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.time import Duration, EventTime, ProcessingTime

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


def schema_from_type(element_type: Any) -> pa.Schema | None:
    """Return the columns of elements of a type, or `None` if the type hints do not determine them.

    A named tuple, typed dict, attrs class or dataclass gives its fields; a pair `tuple[K, V]` gives `key`, then `value`
    or the value's fields; anything else that is known gives `value`.

    Example:
        >>> schema_from_type(tuple[str, float])
        key: string
        value: double
        >>> schema_from_type(object) is None
        True
    """
    fields = fields_of(element_type)
    if fields is None and _is_pair(element_type):
        key, value = typing.get_args(element_type)
        inner = fields_of(value)
        fields = {"key": key, **({"value": value} if inner is None else inner)}
        if inner is not None and "key" in inner:
            return None
    if fields is None:
        fields = {"value": element_type}
    types = {name: column_type(hint, element_type) for name, hint in fields.items()}
    if any(kind is None for kind in types.values()):
        return None
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def _is_pair(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    return typing.get_origin(hint) is tuple and len(arguments) == 2 and ... not in arguments  # noqa: PLR2004


def column_type(hint: Any, within: Any) -> pa.DataType | None:
    """Return the type of the column for a field of a record, or `None` if its type hint does not determine one.

    Example:
        >>> column_type(str | None, object), column_type(complex, object)
        (DataType(string), None)
    """
    return _arrow_type(hint, (within,))


def fields_of(hint: Any) -> dict[str, Any] | None:
    """Return the type hints of a named tuple, typed dict, attrs class or dataclass by field; `None` for other types.

    Example:
        >>> import typing
        >>> fields_of(typing.NamedTuple("Delay", [("carrier", str)])), fields_of(str)
        ({'carrier': <class 'str'>}, None)
    """
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


def _arrow_type(hint: Any, within: tuple[Any, ...]) -> pa.DataType | None:
    """Return the type of a column, or `None` if the hint does not determine it.

    Args:
        hint: the type of the values.
        within: the records that contain them; Arrow has no type for a record that contains itself.
    """
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {Union, types.UnionType}:
        kinds = {_arrow_type(argument, within) for argument in arguments if argument is not type(None)}
        return kinds.pop() if len(kinds) == 1 else None
    if origin in {list, set, frozenset, collections.abc.Sequence} and len(arguments) == 1:
        inner = _arrow_type(arguments[0], within)
        return None if inner is None else pa.list_(inner)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:  # noqa: PLR2004
        inner = _arrow_type(arguments[0], within)
        return None if inner is None else pa.list_(inner)
    if origin is tuple and arguments:
        return _struct({f"_{index}": argument for index, argument in enumerate(arguments, 1)}, within)
    if origin is dict:
        key, value = (_arrow_type(argument, within) for argument in arguments)
        return None if key is None or value is None else pa.map_(key, value)
    fields = None if hint in within else fields_of(hint)
    return _struct(fields, (*within, hint)) if fields else None


def _struct(fields: dict[str, Any], within: tuple[Any, ...]) -> pa.DataType | None:
    types = {name: _arrow_type(hint, within) for name, hint in fields.items()}
    if any(kind is None for kind in types.values()):
        return None
    return pa.struct([pa.field(name, kind) for name, kind in types.items()])
