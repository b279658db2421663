"""Functions of Apache Beam's classes where ours are expected: found without importing Beam, and then converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CONVERTERS: Final[list[Callable[[], Any]]] = []
_MODULES: Final = {"DoFn": "core", "CombineFn": "core", "WindowFn": "window"}


def set_converters(module: Callable[[], Any]) -> None:
    """Set what returns the module that converts them, in a function for each kind."""
    _CONVERTERS[:] = [module]


def is_of_beam(value: object, kind: str) -> bool:
    """Return whether a value is an instance of a class of Beam's, or a subclass of it.

    Args:
        value: the value.
        kind: the name of the class: `"DoFn"`, `"CombineFn"` or `"WindowFn"`.

    Example:
        >>> is_of_beam(print, "DoFn")
        False
    """
    bases = value.__mro__ if isinstance(value, type) else type(value).__mro__
    module = f"apache_beam.transforms.{_MODULES[kind]}"
    return any((base.__module__, base.__name__) == (module, kind) for base in bases)


def converters() -> Any:
    """Return the module that converts them: `dataflow_model.beam.functions`."""
    return _CONVERTERS[0]()
