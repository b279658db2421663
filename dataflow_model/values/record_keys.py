"""Records as keys: the fields that the `==` of a dataclass or an attrs class compares."""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compared_fields", "equality_owner"]

_ATTRS_GENERATED: Final = "<attrs generated "


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
        if not owner.__eq__.__code__.co_filename.startswith(_ATTRS_GENERATED):
            return None
        return tuple(_getter(field.name, field.eq_key) for field in attrs.fields(owner) if field.eq)
    if "__dataclass_fields__" not in owner.__dict__:
        return None
    names = tuple(field.name for field in dataclasses.fields(owner) if field.compare)
    return tuple(_getter(name, None) for name in names) if _is_generated(owner.__eq__, names) else None


def _getter(name: str, eq_key: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    get = operator.attrgetter(name)
    return get if eq_key is None else lambda record: eq_key(get(record))


def _is_generated(equality: Any, names: tuple[str, ...]) -> bool:
    """Return whether this is the `__eq__` that `dataclass` generates for these fields, which has no mark of its own."""
    code, generated = getattr(equality, "__code__", None), _generated_equality(names)
    return code is not None and (code.co_code, code.co_names) == (generated.co_code, generated.co_names)


@functools.lru_cache(maxsize=256)
def _generated_equality(names: tuple[str, ...]) -> Any:
    return dataclasses.make_dataclass("Record", names).__eq__.__code__
