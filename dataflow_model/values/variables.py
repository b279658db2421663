"""Context variables in pickles, which refer to them by the module in which they are defined.

Python cannot pickle a `contextvars.ContextVar`. Here a variable at the top level of a module is pickled as that path,
and one of the program's `__main__` as a variable that each process creates once.
"""

from __future__ import annotations

import contextvars
import importlib
import sys
from typing import Any, Final

from dataflow_model.values.main_classes import MAIN, SPAWNED_MAIN

_MAINS: Final = frozenset({MAIN, SPAWNED_MAIN})
_STAND_INS: Final[dict[str, contextvars.ContextVar[Any]]] = {}
"""The variables of the `__main__` of another process, by name."""


class ModuleVariables:
    """The context variables at the top level of the modules that are imported now."""

    def __init__(self) -> None:
        self._paths: dict[contextvars.ContextVar[Any], tuple[str, str]] = {}
        for module_name, module in sorted(sys.modules.items(), key=_mains_last):
            for name, value in tuple(getattr(module, "__dict__", {}).items()):
                if type(value) is contextvars.ContextVar:
                    self._paths.setdefault(value, (module_name, name))

    def module_of(self, variable: contextvars.ContextVar[Any]) -> str | None:
        """Return the name of the module of a variable; `None` if it is in none."""
        return self._paths.get(variable, (None, ""))[0]

    def reduced(self, variable: contextvars.ContextVar[Any]) -> tuple[Any, ...] | None:
        """Return what `__reduce__` returns for a variable; `None` if it is in no module.

        Example:
            >>> from dataflow_model.metrics import collecting
            >>> restore, path = ModuleVariables().reduced(collecting._CURRENT)
            >>> restore(*path) is collecting._CURRENT
            True
        """
        path = self._paths.get(variable)
        if path is None:
            return None
        module, name = path
        if module not in _MAINS:
            return _imported, path
        try:
            return _of_main, (name, (contextvars.Context().run(variable.get),))
        except LookupError:  # it has no default
            return _of_main, (name, ())


def _mains_last(item: tuple[str, Any]) -> bool:
    """Put `__main__` last: it may have imported a variable from a module that other processes can import too."""
    return item[0] in _MAINS


def _imported(module: str, name: str) -> contextvars.ContextVar[Any]:
    variable: contextvars.ContextVar[Any] = getattr(importlib.import_module(module), name)
    return variable


def _of_main(name: str, default: tuple[Any, ...]) -> contextvars.ContextVar[Any]:
    own = getattr(sys.modules[MAIN], name, None)
    if type(own) is contextvars.ContextVar:  # this is the process of the program
        return own
    if name not in _STAND_INS:
        _STAND_INS[name] = contextvars.ContextVar(name, default=default[0]) if default else contextvars.ContextVar(name)
    return _STAND_INS[name]
