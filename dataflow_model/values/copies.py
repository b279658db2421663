"""Copies of users' objects within one process: what a worker would get, apart from functions, which stay the same."""

from __future__ import annotations

import enum
import functools
import io
import itertools
import pickle
import sys
import types
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from dataflow_model.values.pickles import REDUCERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PACKAGE: Final = __name__.partition(".")[0] + "."
_PROTOCOL: Final = 5
_SHARED: Final[frozenset[type]] = frozenset(
    {types.CodeType, types.ModuleType, type(functools.lru_cache(int)), type(Ellipsis), type(NotImplemented)}
)
"""Types whose instances need no copy."""
_NEVER_CHANGE: Final = frozenset({"pyarrow.lib"})
"""Modules of which no object ever changes."""
_FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
_PLAIN: Final = _SHARED | {*_FUNCTIONS, type(None), bool, int, float, complex, str, bytes}
_CONTAINERS: Final = frozenset({tuple, list, dict, set})


class Copied(NamedTuple):
    """A copy.

    Attributes:
        value: the copy; the value itself if it cannot be copied.
        shared: what the copy and the original have in common because it cannot be copied, in words.
    """

    value: Any
    shared: str = ""


def copied(value: tuple[Any, ...], shared_types: tuple[type, ...] = ()) -> Copied:
    """Return a copy of what users have passed to a transform.

    Objects and containers are copied by the rules of `pickle`, at any depth. Classes and functions stay the same, with
    what they refer to: closures, and methods with their objects. Only a function that works on what is copied, such as
    a method of an object that the object holds itself, becomes one that works on the copy. Of an object that cannot be
    copied, the attributes that can be are.

    Args:
        value: the objects.
        shared_types: further types whose instances stay the same.

    Example:
        >>> import threading
        >>> class Seen:
        ...     def __init__(self):
        ...         self.values, self.lock = [], threading.Lock()
        >>> Seen.__module__ = "docs"  # a class of a user's
        >>> seen = Seen()
        >>> copies, shared = copied((seen,))
        >>> copies[0].values is seen.values, copies[0].lock is seen.lock, shared
        (False, True, "the attribute 'lock' of Seen")
    """
    if _is_settled(value, shared_types):
        return Copied(value)
    try:
        return Copied(_copy(value, shared_types))
    except Exception:  # noqa: BLE001 - the user's classes may raise anything
        uncopied = list(_uncopied(value, shared_types, opened=True))
    try:
        shared = ", ".join(dict.fromkeys(attribute for _, attribute in uncopied))
        return Copied(_copy(value, shared_types, [part for part, _ in uncopied]), shared)
    except Exception as error:  # noqa: BLE001
        return Copied(value, f"an object ({type(error).__name__}: {error})")


def _copy(value: Any, shared_types: tuple[type, ...], parts: Iterable[Any] = ()) -> Any:
    """Return a copy, of which some parts stay the same."""
    file = io.BytesIO()
    copier = _Copier(file, shared_types, parts)
    copier.dump(value)
    file.seek(0)
    return _Loader(file, copier).load()


def _uncopied(
    values: Iterable[Any],
    shared_types: tuple[type, ...],
    attribute: str = "",
    above: frozenset[int] = frozenset(),
    *,
    opened: bool = False,
) -> Iterator[tuple[Any, str]]:
    """Yield what cannot be copied, and where it is: attributes of the objects that users have passed, as a whole.

    Half of a copy would be of no use: a queue with the lock of another one.

    Args:
        values: the values to look at, also in containers.
        shared_types: types whose instances stay the same.
        attribute: the attribute that holds the values.
        above: the objects that hold the values, by identity.
        opened: whether the values are objects of which single attributes may be copied.
    """
    for value in values:
        if id(value) in above or _is_copied(value, shared_types):
            continue
        holders = above | {id(value)}
        if type(value) in _CONTAINERS:
            parts = itertools.chain.from_iterable(value.items()) if isinstance(value, dict) else value
            yield from _uncopied(parts, shared_types, attribute, holders)
        elif opened and _attributes(value):
            is_own = type(value).__module__.startswith(_PACKAGE)
            for name, part in _attributes(value):
                inner = attribute if is_own else f"the attribute {name!r} of {type(value).__name__}"
                yield from _uncopied([part], shared_types, inner, holders, opened=is_own)
        else:
            yield value, attribute or f"the {type(value).__name__}"


def _is_copied(value: Any, shared_types: tuple[type, ...]) -> bool:
    """Return whether a value can be copied, without the copy."""
    try:
        copier = _Copier(_Nowhere(), shared_types)
        copier.dump(value)
    except Exception:  # noqa: BLE001 - the user's classes may raise anything
        return False
    return True


class _Nowhere(io.RawIOBase):
    def write(self, content: Any, /) -> int:
        return len(content)


class _Copier(pickle.Pickler):
    """Writes a copy. Objects that stay the same are put into a list, and the pickle holds their indices there."""

    dispatch_table = REDUCERS

    def __init__(
        self, file: IO[bytes] | io.RawIOBase, shared_types: tuple[type, ...], parts: Iterable[Any] = ()
    ) -> None:
        self.same: list[Any] = []
        self.buffers: list[pickle.PickleBuffer] = []
        self._shared_types = (type, enum.Enum, *shared_types)
        self._same = set(map(id, (*parts, sys.stdin, sys.stdout, sys.stderr)))
        super().__init__(file, protocol=_PROTOCOL, buffer_callback=self.buffers.append)

    def reducer_override(self, obj: Any) -> Any:
        kind: type[Any] = type(obj)
        if kind is types.FunctionType and obj.__module__ == __name__:  # one of those below
            return NotImplemented
        if (
            isinstance(obj, self._shared_types)
            or kind in _SHARED
            or id(obj) in self._same
            or kind.__module__ in _NEVER_CHANGE
        ):
            return self._keep(obj)
        if isinstance(obj, _FUNCTIONS) and not _is_own_partial(obj):
            return self._function(obj)
        return NotImplemented

    def _keep(self, obj: Any) -> Any:
        self.same.append(obj)
        return _kept, (len(self.same) - 1,)

    def _function(self, function: Any) -> Any:
        """Return a function itself, unless it works on something that is being copied."""
        contents = list(_held(function))
        if not contents or self.memo.copy().keys().isdisjoint(map(id, contents)):
            return self._keep(function)
        if not isinstance(function, types.FunctionType):
            return NotImplemented
        self.same.append(function)
        return _with_own_cells, (len(self.same) - 1,), contents, None, None, _fill


class _Loader(pickle.Unpickler):
    """Reads a copy."""

    def __init__(self, file: IO[bytes], copier: _Copier) -> None:
        super().__init__(file, buffers=map(_copied_buffer, copier.buffers))
        self._same = copier.same
        self._cells: dict[int, types.CellType] = {}
        self._originals: dict[types.FunctionType, types.FunctionType] = {}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name == __name__:
            return getattr(self, global_name)
        return super().find_class(module_name, global_name)

    def _kept(self, index: int) -> Any:
        return self._same[index]

    def _with_own_cells(self, index: int) -> types.FunctionType:
        """Return a function that closes over other objects, which `_fill` adds; functions share cells as before."""
        function: types.FunctionType = self._same[index]
        cells = [
            self._cells.setdefault(id(cell), types.CellType()) if _is_full(cell) else cell
            for cell in function.__closure__ or ()
        ]
        other = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        for name in (*functools.WRAPPER_ASSIGNMENTS, "__kwdefaults__"):
            setattr(other, name, getattr(function, name))
        other.__dict__.update(function.__dict__)
        self._originals[other] = function
        return other

    def _fill(self, function: types.FunctionType, contents: list[Any]) -> None:
        cells = zip(function.__closure__ or (), self._originals[function].__closure__ or (), strict=True)
        for cell, content in zip([own for own, original in cells if _is_full(original)], contents, strict=True):
            cell.cell_contents = content


# What stands in a pickle for the methods of the loader.


def _kept(index: int) -> Any:
    raise NotImplementedError(index)


def _with_own_cells(index: int) -> Any:
    raise NotImplementedError(index)


def _fill(function: Any, contents: list[Any]) -> None:
    raise NotImplementedError(function, contents)


def _copied_buffer(buffer: pickle.PickleBuffer) -> bytes | bytearray:
    with buffer.raw() as content:
        return bytes(content) if content.readonly else bytearray(content)


def _held(function: Any) -> Iterator[Any]:
    """Yield what a function works on, besides its arguments and what is global."""
    if isinstance(function, types.FunctionType):
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_full(cell))
    elif isinstance(function, functools.partial):
        yield from (function.func, *function.args, *function.keywords.values())
    elif not isinstance(function.__self__, types.ModuleType | None):
        yield function.__self__


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises if there are none
    except ValueError:
        return False
    return True


def _is_settled(value: Any, shared_types: tuple[type, ...]) -> bool:
    """Return whether a value holds nothing that could change: only functions and frozen objects of this package."""
    kind: type[Any] = type(value)
    if kind is tuple:
        return all(_is_settled(part, shared_types) for part in value)
    if kind is functools.partial and _is_own_partial(value):
        return _is_settled((*value.args, *value.keywords.values()), shared_types)
    if kind in _PLAIN or isinstance(value, (type, enum.Enum, *shared_types)) or kind.__module__ in _NEVER_CHANGE:
        return True
    if kind is dict:
        return not value  # no further arguments
    key: Any = kind  # mypy does not consider a class hashable
    return _is_frozen(key) and all(_is_settled(part, shared_types) for _, part in _attributes(value))


@functools.cache
def _is_frozen(kind: type) -> bool:
    """Return whether instances of a class are values of this package: nothing assigns to their attributes."""
    if not kind.__module__.startswith(_PACKAGE):
        return False
    return kind.__setattr__ is not object.__setattr__ if attrs.has(kind) else issubclass(kind, int)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object, with their names."""
    kind: type[Any] = type(value)
    if attrs.has(kind):
        return [(field.name, getattr(value, field.name)) for field in attrs.fields(kind)]
    return list(getattr(value, "__dict__", {}).items())


def _is_own_partial(value: Any) -> bool:
    """Return whether a function is one of this package with arguments of the user's."""
    return isinstance(value, functools.partial) and str(getattr(value.func, "__module__", "")).startswith(_PACKAGE)
