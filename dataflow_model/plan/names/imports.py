"""The hint for an import of a name or module of another system, such as `from dataflow_model import pvalue`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import explain
from dataflow_model.plan.names.spellings import hint_in_package

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT: Final = "dataflow_model"


class _Hints:
    """The last finder that Python asks for a module: for one that no other finder has found."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> Any:
        """Raise `ModuleNotFoundError` with a hint if there is one; a module is never found here."""
        del path, target
        module, _, name = fullname.rpartition(".")
        if module.partition(".")[0] != _ROOT or (hint := hint_in_package(module, name)) is None:
            return
        # Without the name of the module: `from package import name` would take the error for its own and replace it.
        raise ModuleNotFoundError(explain(f"{module!r} has no {name!r} to import", hint=hint))


def explain_imports() -> None:
    """Let failing imports from this package say what to write instead; others are not affected.

    Python asks the finder only for modules that all others have not found, so that imports that succeed cost nothing.
    """
    if not any(getattr(finder, "__module__", None) == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Hints)
