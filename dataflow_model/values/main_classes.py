"""Classes of the program's `__main__`, which other processes of a run find under the same names.

A pickle refers to a class by its module and its name. A worker has another `__main__` than the program, so there such a
pickle could not be read, and one of its own would contain the whole class. What is stored in that form belongs to the
program that stored it: the next start of the program has a class of its own, and values of the two are not equal.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAIN: Final = "__main__"
SPAWNED_MAIN: Final = "__mp_main__"
"""What `multiprocessing` calls the main module of the program in a process that it has spawned."""
_OWN: Final = sys.modules[MAIN]
"""The `__main__` of this process, which runs on under another one; nothing else may refer to it then."""


def is_of_main(kind: type) -> bool:
    """Return whether a class is defined in the main module of the program."""
    return kind.__module__ in {MAIN, SPAWNED_MAIN}


def is_named(kind: Any) -> bool:
    """Return whether an object is a class of `__main__` that can be found there by its name.

    Example:
        >>> is_named(int)
        False
    """
    if not isinstance(kind, type) or not is_of_main(kind):
        return False
    scope: Any = sys.modules[MAIN]
    for name in kind.__qualname__.split("."):  # `<locals>` is never found
        scope = getattr(scope, name, None)
    return scope is kind


def named_classes(kinds: Iterable[type]) -> dict[str, type]:
    """Return the classes of `__main__` that can be found by name, by that name."""
    return {kind.__qualname__: kind for kind in kinds if is_named(kind)}


def stand_in_for_main(kinds: Mapping[str, type]) -> None:
    """Replace this process's `__main__` by a module with a program's classes, unless it has them already.

    Args:
        kinds: what `named_classes` has returned in the process of the program.
    """
    if all(map(is_named, kinds.values())):
        return
    sys.modules[MAIN] = sys.modules[SPAWNED_MAIN] = module = types.ModuleType(MAIN)
    for name, kind in sorted(kinds.items()):  # a class comes before those in it
        kind.__qualname__ = name  # cloudpickle restores only the last part
        if is_named(kind):
            continue
        owner: Any = module
        *scopes, last = name.split(".")
        for scope in scopes:
            if not hasattr(owner, scope):
                setattr(owner, scope, types.SimpleNamespace())
            owner = getattr(owner, scope)
        setattr(owner, last, kind)
