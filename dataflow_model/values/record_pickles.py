"""Records in pickles: named tuples, dataclasses and attrs values are restored by the names of their fields.

Python pickles the fields of a named tuple, and those of a frozen dataclass with slots, by position. If the class has
other fields when a stream resumes, values would be restored with their fields exchanged. So a pickle of ours contains
the names of the fields once for each class.
"""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import functools
import io
import operator
import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.durable import reduced_by_name
from dataflow_model.values.records import HASH_OF_ATTRS, by_position, fields_of, into_fields, slots_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PROTOCOL: Final = 5
_MOST_KINDS: Final = 1_000
_SMALL: Final = 1 << 16
"""The size in bytes up to which a pickler is used again; clearing the memo of larger values would take long."""
_OWN: Final = "dataflow_model."
"""The prefix of the modules of the package, whose classes have names of their own in pickles."""
_DEFAULT: Final = operator.methodcaller("__reduce_ex__", _PROTOCOL)
_METHODS: Final = ("__getnewargs__", "__getstate__", "__setstate__")
Reduce = Any
"""A function that returns how a value is restored; see `__reduce__` in Python's documentation."""


class Reducers(dict[Any, Any]):
    """A dispatch table for a pickler: how the values of each type are pickled.

    Args:
        given: what is known already; for other types, the table of `copyreg` comes first.

    Example:
        >>> import collections
        >>> Point = collections.namedtuple("Point", "x y")
        >>> Point.__module__ = "docs"
        >>> Reducers()[Point](Point(1, 2))[1]
        ((1, 2),)
    """

    def __init__(self, given: Mapping[Any, Any] | None = None) -> None:
        super().__init__()
        self._given = given or {}

    def __missing__(self, kind: type[Any]) -> Reduce:
        """Return how values of a type are pickled that was not asked for before."""
        if issubclass(kind, type):
            raise KeyError(kind)  # the pickler refers to a class by its name
        if len(self) > _MOST_KINDS:  # classes that a notebook has defined anew are not kept
            self.clear()
        given = self._given.get(kind) or copyreg.dispatch_table.get(kind)
        by_name = reduced_by_name if kind.__module__.startswith(_OWN) else None
        reduce = self[kind] = given or by_name or _reducer_of(kind) or _DEFAULT
        return reduce


class Picklers:
    """Pickles values with a dispatch table; for small values, a pickler is used again, which takes half the time.

    Args:
        reducers: the dispatch table.
    """

    def __init__(self, reducers: Reducers) -> None:
        self._reducers = reducers
        self._idle: list[tuple[io.BytesIO, pickle.Pickler]] = []  # `pop` and `append` are atomic

    def dump(self, value: Any) -> bytes:
        """Return the pickle of a value."""
        try:
            file, pickler = self._idle.pop()
        except IndexError:
            file = io.BytesIO()
            pickler = pickle.Pickler(file, protocol=_PROTOCOL)
            pickler.dispatch_table = self._reducers
        pickler.dump(value)
        pickled = file.getvalue()
        if len(pickled) < _SMALL:
            file.seek(0)
            file.truncate()
            pickler.clear_memo()
            self._idle.append((file, pickler))
        return pickled


def _reducer_of(kind: type[Any]) -> Reduce | None:
    """Return how values of a record's class are pickled; `None` for all others, and if the class says so itself."""
    fields = fields_of(kind)
    given: Any = kind
    if not fields or given.__reduce__ is not object.__reduce__ or given.__reduce_ex__ is not object.__reduce_ex__:
        return None
    if issubclass(kind, tuple):
        return _reducer_of_tuples(kind, fields) if _is_generated(kind) else None
    return _reducer_of_objects(kind, fields) if given.__new__ is object.__new__ and _is_generated(kind) else None


def _reducer_of_tuples(kind: type[Any], fields: tuple[str, ...]) -> Reduce | None:
    create = _Reference(by_position, kind, fields)
    if not kind.__dictoffset__:
        return lambda record: (create, (tuple(record),))
    return lambda record: (create, (tuple(record),), vars(record) or None)


def _reducer_of_objects(kind: type[Any], fields: tuple[str, ...]) -> Reduce | None:
    new: Any = copyreg.__newobj__  # type: ignore[attr-defined] # not in the stubs
    arguments, fill = (kind,), _Reference(into_fields, kind, fields)
    slots = {name for base in kind.__mro__ for name in slots_of(base)}
    if kind.__dictoffset__ and not slots:

        def reduce_dict(record: Any) -> Any:
            state = record.__dict__
            return new, arguments, tuple(state.values()) if tuple(state) == fields else state, None, None, fill

        return reduce_dict
    if kind.__dictoffset__ or not slots <= {*fields, HASH_OF_ATTRS}:
        return None
    get = operator.attrgetter(*fields)
    is_one = len(fields) == 1

    def reduce_slots(record: Any) -> Any:
        try:
            state = (get(record),) if is_one else get(record)
        except AttributeError:  # a field without a value
            by_name = {name: getattr(record, name) for name in fields if hasattr(record, name)}
            return new, arguments, by_name, None, None, fill
        return new, arguments, state, None, None, fill

    return reduce_slots


class _Reference:
    """Stands in a pickle for the function that restores the records of one class.

    Args:
        function: given the class and the names of its fields, it returns that function.
        kind: the class.
        fields: the names of its fields.
    """

    __slots__ = ("_reduced",)

    def __init__(self, function: Callable[..., Any], kind: type[Any], fields: tuple[str, ...]) -> None:
        self._reduced = function, (kind, " ".join(fields))

    def __call__(self, *_: Any) -> None:
        raise AssertionError("it is called only where it was restored")

    def __reduce__(self) -> Any:
        return self._reduced


def _is_generated(kind: type[Any]) -> bool:
    """Return whether a class leaves to Python, or to what has generated it, how its instances are pickled."""
    code = tuple(getattr(getattr(kind, name, None), "__code__", None) for name in _METHODS)
    if code == (None, None, None):
        given: Any = kind
        return given.__getstate__ is object.__getstate__
    return tuple(each and (each.co_code, each.co_names) for each in code) in _generated()


@functools.cache
def _generated() -> frozenset[Any]:
    """Return the code of the methods that named tuples, dataclasses and attrs generate, of which there are copies."""
    kinds = (
        collections.namedtuple("Record", "a"),  # noqa: PYI024
        dataclasses.make_dataclass("Record", ["a"], frozen=True, slots=True),
        attrs.make_class("Record", ["a"], slots=True),
    )
    code = ([getattr(getattr(kind, name, None), "__code__", None) for name in _METHODS] for kind in kinds)
    return frozenset(tuple(each and (each.co_code, each.co_names) for each in of_kind) for of_kind in code)
