"""Values as bytes that later versions of the package can still read."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import pickle
import sys
import types
from collections import ChainMap
from typing import IO, TYPE_CHECKING, Any, Final

import cloudpickle

from dataflow_model.errors import CheckpointMismatch, InvalidType, is_interrupt
from dataflow_model.values.main_classes import MAIN, SPAWNED_MAIN, is_named, is_of_main, named_classes
from dataflow_model.values.record_pickles import Picklers, Reducers
from dataflow_model.values.variables import ModuleVariables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PROTOCOL: Final = 5
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_RECORDS: Final = Picklers(Reducers())
_REPLACED: Final = "<dynamic-code>"


def _reduced_file(file: io.TextIOWrapper) -> Any:
    """Refer to the standard streams by name, and reject other files.

    `cloudpickle` would replace a file by a `StringIO` with its content: each process would read all of the lines.
    """
    for name in ("stdout", "stderr"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    raise TypeError(f"cannot pickle the open file {getattr(file, 'name', file)!r}")


_CachedType: Final = type(functools.lru_cache(len))
_OTHERS: Any = cloudpickle.Pickler.dispatch_table
REDUCERS: Final[ChainMap[type, Callable[[Any], Any]]] = ChainMap({io.TextIOWrapper: _reduced_file}, _OTHERS)
"""How objects of some types are pickled for another process."""


def dump(value: Any) -> bytes:
    """Pickle a value; what cannot be referred to by name, such as a lambda, is pickled by value.

    Records are restored by the names of their fields; see `record_pickles`.

    Example:
        >>> load(dump({"count": 3}))
        {'count': 3}
    """
    if type(value) in _PLAIN:
        return pickle.dumps(value, protocol=_PROTOCOL)
    try:
        return _RECORDS.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        file = io.BytesIO()
        _NamedWherePossible(file).dump(value)
        return file.getvalue()


def dump_by_value(value: Any) -> bytes:
    """Pickle a value for a process with another `__main__`, with what `__main__` defines by value."""
    file = io.BytesIO()
    _ByValue(file).dump(value)
    return file.getvalue()


def dump_with_classes(value: Any) -> bytes:
    """Pickle a value as `dump_by_value` does; a list of the classes of `__main__` in it follows.

    See `load_with_classes`.
    """
    file = io.BytesIO()
    pickler = _ByValue(file)
    pickler.dump(value)
    pickler.dump(named_classes(pickler.of_main))  # the second pickle refers to objects of the first one
    return file.getvalue()


def load_with_classes(pickled: bytes) -> tuple[Any, dict[str, type]]:
    """Return the value that `dump_with_classes` wrote, and its classes of `__main__` by name."""
    unpickler = pickle.Unpickler(io.BytesIO(pickled))
    with _explained():
        return unpickler.load(), unpickler.load()


def load(pickled: bytes) -> Any:
    """Load a value that `dump` wrote.

    Raises:
        CheckpointMismatch: if it refers to a class or function that cannot be found.
        InvalidType: if the class of a value does not restore it.
    """
    try:
        return pickle.loads(pickled)
    except BaseException as error:  # a class that fails, or is not found; all other pickles take the fast path above
        if is_interrupt(error):
            raise
        with _explained():
            return _Explaining(io.BytesIO(pickled)).load()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise what classes of the user's raise while their instances are restored as `InvalidType`."""
    try:
        yield
    except (CheckpointMismatch, ImportError, AttributeError):  # a class that cannot be found
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise InvalidType(
            f"a value was pickled, but its class does not restore it: {type(error).__name__}: {error}",
            hint="emit plain values, such as str(error) in place of an exception, or define __reduce__ in the class",
        ) from error


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]  # it ships no types
    """Keeps the names of the files with the code of functions, which errors show and cloudpickle 3.1.3 replaces.

    Attributes:
        of_main: the classes of `__main__` that were pickled.
    """

    dispatch_table: Any = REDUCERS

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self.of_main: list[type] = []
        main = sys.modules[MAIN]
        if main.__name__ == SPAWNED_MAIN:  # cloudpickle takes it for a module that other processes can import
            cloudpickle.register_pickle_by_value(main)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and is_of_main(obj):
            self.of_main.append(obj)
        if isinstance(obj, _CachedType) and not _is_importable(obj):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, contextvars.ContextVar):
            return ModuleVariables().reduced(obj) or super().reducer_override(obj)
        if not isinstance(obj, types.CodeType):
            return super().reducer_override(obj)
        reduced: Any = self.dispatch_table[types.CodeType](obj)
        make, arguments = reduced
        return make, tuple(obj.co_filename if argument == _REPLACED else argument for argument in arguments)


def _cached(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """Return a function under `functools.lru_cache`, with an empty cache."""
    return functools.lru_cache(**parameters)(function)


def _is_importable(function: Any) -> bool:
    """Return whether other processes find a function in a module, under its name."""
    name = function.__module__
    scope: Any = sys.modules.get(name)
    by_value = cloudpickle.list_registry_pickle_by_value()
    if name in {MAIN, SPAWNED_MAIN} or any(f"{name}.".startswith(f"{module}.") for module in by_value):
        return False
    for part in function.__qualname__.split("."):
        scope = getattr(scope, part, None)
    return scope is function


class _NamedWherePossible(_ByValue):
    """Refers to classes of `__main__` by name, as plain pickle does: state outlives the classes of one process."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.dispatch_table = Reducers(REDUCERS)

    def reducer_override(self, obj: Any) -> Any:
        return NotImplemented if is_named(obj) else super().reducer_override(obj)


class _Explaining(pickle.Unpickler):
    """Says which class or function cannot be found."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return super().find_class(module_name, global_name)
        except (ImportError, AttributeError) as error:
            raise CheckpointMismatch(
                f"a stored value is of the class or function {global_name!r} of the module {module_name!r}, "
                f"which cannot be found here: {error}",
                hint="keep classes of stored values where they are, and refer to those of the main program in a "
                "function; where this program is not the one that stored them, import their module from both",
            ) from error
