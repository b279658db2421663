"""Values of side inputs: lists, dicts and sets that a function cannot change, since other elements read them too."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


def read_only(value: Any, side: str) -> Any:
    """Return a value in which no list, dict or set can be changed, also those inside of others and of tuples.

    Apart from that they are lists, dicts and sets, and pickled or copied they become plain ones. Other objects are left
    as they are.

    Args:
        value: the value.
        side: the label of the side input, for errors.

    Example:
        >>> carriers = read_only({"UA": ["ORD", "SFO"]}, "hubs")
        >>> carriers == {"UA": ["ORD", "SFO"]}, isinstance(carriers["UA"], list)
        (True, True)
        >>> carriers["UA"].append("EWR")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: the side input 'hubs' cannot be changed, but a function calls append() on it
        Hint: change a copy, such as list(values), dict(values), {*values} or copy.deepcopy(values)
    """
    return _frozen(value, side, {}) if type(value) in _KINDS else value


def _frozen(value: Any, side: str, known: dict[int, Any]) -> Any:
    """Return a value in read-only form; `known` has those that contain it, by identity, and others before it."""
    kind = type(value)
    if kind is tuple:
        return tuple(_all_frozen(value, side, known)) if _holds_any([value]) else value
    if id(value) not in known:
        own = known[id(value)] = _READ_ONLY[kind]()
        own.side = side
        if kind is list:
            list.extend(own, _all_frozen(value, side, known))
        elif kind is dict:
            dict.update(own, zip(value, _all_frozen(value.values(), side, known), strict=True))
        else:
            set.update(own, value)
    return known[id(value)]


def _all_frozen(values: Collection[Any], side: str, known: dict[int, Any]) -> Iterable[Any]:
    if not _holds_any([values]):
        return values
    return [_frozen(value, side, known) if type(value) in _KINDS else value for value in values]


def _holds_any(groups: Iterable[Iterable[Any]]) -> bool:
    """Return whether some values hold a list, a dict or a set, also inside of tuples."""
    while True:
        kinds = set(map(type, itertools.chain.from_iterable(groups)))
        if not kinds.isdisjoint(_READ_ONLY):
            return True
        if tuple not in kinds:
            return False
        groups = [value for value in itertools.chain.from_iterable(groups) if type(value) is tuple]


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        how = f"calls {name}() on it" if not name.startswith("__") else f"uses {_SIGNS[name]} on it"
        raise InvalidType(
            f"the side input {self.side!r} cannot be changed, but a function {how}",
            hint="change a copy, such as list(values), dict(values), {*values} or copy.deepcopy(values)",
        )

    return refuse


_SIGNS: Final = {
    "__setitem__": "[…] = …",
    "__delitem__": "del […]",
    "__iadd__": "+=",
    "__imul__": "*=",
    "__ior__": "|=",
    "__iand__": "&=",
    "__isub__": "-=",
    "__ixor__": "^=",
}


def _subclass(kind: type, pickled: Callable[[Any], Any], *changing: str) -> type[Any]:
    """Return a subclass of a class of containers without the methods that change one.

    Args:
        kind: the class.
        pickled: returns a container as `__reduce__` does, so that it becomes a plain one.
        changing: the names of the methods.
    """
    refusals = {name: _refused(name) for name in changing}
    methods = {
        "__reduce_ex__": lambda self, _: pickled(self),
        "__repr__": lambda self: repr(kind(self)),
        "copy": kind,
    }
    return type(f"ReadOnly{kind.__name__.title()}", (kind,), {"__slots__": ("side",), **methods, **refusals})


_READ_ONLY: Final[Mapping[type, type[Any]]] = {
    list: _subclass(
        list,
        lambda values: (list, (), None, iter(values)),
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
        *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
    ),
    dict: _subclass(
        dict,
        lambda pairs: (dict, (), None, None, iter(pairs.items())),
        *("clear", "pop", "popitem", "setdefault", "update", "__setitem__", "__delitem__", "__ior__"),
    ),
    set: _subclass(
        set,
        lambda values: (set, (list(values),)),
        *("add", "remove", "discard", "pop", "clear", "update"),
        *("intersection_update", "difference_update", "symmetric_difference_update"),
        *("__ior__", "__iand__", "__isub__", "__ixor__"),
    ),
}
_KINDS: Final = frozenset({*_READ_ONLY, tuple})
