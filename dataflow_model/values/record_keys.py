"""Records as keys: the fields that the `==` of a dataclass or an attrs class compares."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.values.records import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

_OWN: Final = "dataflow_model."
"""The prefix of the modules of the package: the name of a row's type there contains its fields."""


def equality_owner(kind: type[Any]) -> type[Any]:
    """Return the class that defines the `__eq__` of `kind`: itself or the nearest base that does.

    Example:
        >>> equality_owner(bool)
        <class 'int'>
    """
    return next(base for base in kind.__mro__ if "__eq__" in base.__dict__)


def compared_fields(kind: type[Any]) -> tuple[Callable[[Any], Any], ...] | None:
    """Return getters of the values that a record's generated `__eq__` compares; `None` if `__eq__` is not generated.

    Fields with `compare=False` (attrs: `eq=False`) are left out. For a field of an attrs class with a function as
    `eq=`, the getter returns the result of that function.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Order:
        ...     number: int
        ...     note: str = dataclasses.field(default="", compare=False)
        >>> [get(Order(5, "soon")) for get in compared_fields(Order)]
        [5]
    """
    owner = equality_owner(kind)
    if "__attrs_attrs__" in owner.__dict__:
        fields = tuple((field.name, field.eq_key) for field in attrs.fields(owner) if field.eq)
        generated = _equality_by_attrs(tuple((name, key is not None) for name, key in fields))
        return tuple(itertools.starmap(_getter, fields)) if _is_generated(owner.__eq__, generated) else None
    if "__dataclass_fields__" not in owner.__dict__:
        return None
    names = tuple(field.name for field in dataclasses.fields(owner) if field.compare)
    generated = _equality_by_dataclass(names)
    return tuple(_getter(name, None) for name in names) if _is_generated(owner.__eq__, generated) else None


def is_record(kind: type[Any]) -> bool:
    """Return whether a class of the user's has fields, by whose positions its keys are told apart."""
    return not kind.__module__.startswith(_OWN) and names_of_key(kind) is not None


def names_of_key(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the names of the fields that a key of a class consists of, in order; `None` if it is no record.

    Example:
        >>> import typing
        >>> names_of_key(typing.NamedTuple("Point", [("x", int), ("y", int)])), names_of_key(int)
        (('x', 'y'), None)
    """
    if attrs.has(kind):
        return tuple(field.name for field in attrs.fields(kind) if field.eq)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    return fields_of(kind)


def _getter(name: str, eq_key: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    get = operator.attrgetter(name)
    return get if eq_key is None else lambda record: eq_key(get(record))


def _is_generated(equality: Any, generated: Any) -> bool:
    """Return whether an `__eq__` is the generated one, which has no mark of its own once it has been pickled."""
    code = getattr(equality, "__code__", None)
    return code is not None and (code.co_code, code.co_names) == (generated.co_code, generated.co_names)


@functools.lru_cache(maxsize=256)
def _equality_by_dataclass(names: tuple[str, ...]) -> Any:
    return dataclasses.make_dataclass("Record", names).__eq__.__code__


@functools.lru_cache(maxsize=256)
def _equality_by_attrs(fields: tuple[tuple[str, bool], ...]) -> Any:
    """Return the code that attrs generates for fields, given which of them are compared by a function."""
    made: dict[str, Any] = {name: attrs.field(eq=repr if is_by_function else True) for name, is_by_function in fields}
    return attrs.make_class("Record", made).__eq__.__code__
