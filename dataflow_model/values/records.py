"""Records: named tuples, dataclasses and attrs values, whose stored fields are restored by their names.

The functions that restore them are named in pickles; see `record_pickles`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import CheckpointMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

_MOST_KINDS: Final = 1_000
HASH_OF_ATTRS: Final = "_attrs_cached_hash"
"""The slot in which attrs keeps a hash, which differs in each process."""


def fields_of(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the names of the fields of a record's class; `None` for any other class.

    Example:
        >>> import collections
        >>> fields_of(collections.namedtuple("Point", "x y")), fields_of(int)
        (('x', 'y'), None)
    """
    if attrs.has(kind):
        return tuple(field.name for field in attrs.fields(kind))
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    fields = getattr(kind, "_fields", None)
    return tuple(fields) if issubclass(kind, tuple) and isinstance(fields, tuple | list) else None


def slots_of(base: type[Any]) -> Sequence[str]:
    """Return the slots that a class adds to those of its bases."""
    slots = base.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return [name for name in names if name not in {"__weakref__", "__dict__"}]


@functools.lru_cache(maxsize=_MOST_KINDS)
def by_position(kind: type[Any], stored: str) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function that creates named tuples of their stored fields.

    Args:
        kind: the class.
        stored: the names of the fields when they were stored.

    Raises:
        CheckpointMismatch: if the class has a further field without a default.
    """
    names, fields = tuple(stored.split()), fields_of(kind)
    if fields is None or not issubclass(kind, tuple):
        raise _no_record(kind, names, "a named tuple")
    create = functools.partial(tuple.__new__, kind)
    if names == fields:
        return create
    defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
    for name in fields:
        if name not in names and name not in defaults:
            raise _no_default(kind, name, names)

    def restored(values: tuple[Any, ...]) -> Any:
        by_name = dict(zip(names, values, strict=True))
        return create([by_name[name] if name in by_name else defaults[name] for name in fields])

    return restored


@functools.lru_cache(maxsize=_MOST_KINDS)
def into_fields(kind: type[Any], stored: str) -> Callable[[Any, Any], None]:
    """Return the function that sets the fields of a new record to the stored ones.

    It takes the record, and the values in order or by name.

    Args:
        kind: the class.
        stored: the names of the fields when they were stored.

    Raises:
        CheckpointMismatch: if the class has a further field without a default.
    """
    names, fields = tuple(stored.split()), fields_of(kind)
    if fields is None or issubclass(kind, tuple):
        raise _no_record(kind, names, "a dataclass or an attrs class")
    defaults = {name: _default_of(kind, name, names) for name in fields if name not in names}
    gone = set(names) - set(fields)
    fill = _filling(kind, names, gone)
    if not defaults:
        return fill

    def complete(record: Any, state: Any) -> None:
        fill(record, state)
        for name, default in defaults.items():
            object.__setattr__(record, name, default(record))

    return complete


def _filling(kind: type[Any], names: tuple[str, ...], gone: Collection[str]) -> Callable[[Any, Any], None]:
    """Return the function that sets the stored fields of a record, except those that are gone from its class."""
    slots = {name for base in kind.__mro__ for name in slots_of(base)}
    assign = object.__setattr__

    def fill_by_name(record: Any, by_name: Mapping[str, Any]) -> None:
        for name, value in by_name.items():
            if name not in gone:
                assign(record, name, value)
        if HASH_OF_ATTRS in slots:
            assign(record, HASH_OF_ATTRS, None)

    def fill_dict(record: Any, state: Any) -> None:
        record.__dict__.update(state if type(state) is dict else zip(names, state))  # noqa: B905 - they are as many

    def fill_slots(record: Any, state: Any) -> None:
        if type(state) is dict:
            fill_by_name(record, state)
            return
        for assign_slot, value in zip(setters, state):  # noqa: B905
            assign_slot(record, value)

    def fill_any(record: Any, state: Any) -> None:
        fill_by_name(record, state if type(state) is dict else dict(zip(names, state, strict=True)))

    if gone or (slots and (kind.__dictoffset__ or HASH_OF_ATTRS in slots)):
        return fill_any
    if not slots:
        return fill_dict
    descriptors = [getattr(kind, name, None) for name in names]
    setters = [of.__set__ for of in descriptors if isinstance(of, types.MemberDescriptorType)]
    return fill_slots if len(setters) == len(names) else fill_any


def _default_of(kind: type[Any], name: str, stored: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return the function that returns the default of a field of a record."""
    if attrs.has(kind):
        default: Any = attrs.fields_dict(kind)[name].default
        if default is attrs.NOTHING:
            raise _no_default(kind, name, stored)
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type] # it is a class at run time
            factory: Any = default
            return factory.factory if factory.takes_self else lambda _: factory.factory()
        return lambda _: default
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    if field.default is not dataclasses.MISSING:
        return lambda _: field.default
    if field.default_factory is dataclasses.MISSING:
        raise _no_default(kind, name, stored)
    make = field.default_factory
    return lambda _: make()


def _no_default(kind: type[Any], name: str, stored: tuple[str, ...]) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"a stored value of the class {kind.__qualname__!r} of the module {kind.__module__!r} has the fields "
        f"{', '.join(stored)}, and none for the new field {name!r}",
        hint=f"give {name!r} a default, which stored values then have; or start over with another checkpoint",
    )


def _no_record(kind: type[Any], stored: tuple[str, ...], was: str) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"a stored value of the class {kind.__qualname__!r} of the module {kind.__module__!r} has the fields "
        f"{', '.join(stored)}, but the class is no longer {was}",
        hint="restore the class, or start over with another checkpoint",
    )
