"""Warn when a pipeline runs without the compiled core, which is easily overlooked where there is no C compiler."""

from __future__ import annotations

import functools
import warnings
from typing import Final

from dataflow_model.errors import explain
from dataflow_model.runners.engine.core.build import SWITCH, CoreBuild, build_of_core

_INSTALL: Final = (
    "use a wheel, which needs no compiler; or get a C compiler (Debian/Ubuntu: apt-get install gcc python3-dev; macOS: "
    "xcode-select --install) and repeat the installation, with pip's --force-reinstall --no-deps --no-cache-dir if it "
    "is not from a clone"
)
_HINTS: Final = {
    CoreBuild.PYTHON: _INSTALL,
    CoreBuild.STALE: "repeat the installation, as the source has changed since it was compiled; in a clone, run make "
    "set-up",
}


@functools.cache
def warn_if_uncompiled() -> None:
    """Warn once in a process if the core runs as Python, unless `DATAFLOW_MODEL_COMPILED=no` asks for that.

    Warns:
        RuntimeWarning: with the way out. It points at the call of `Pipeline.run`.

    Example:
        >>> warn_if_uncompiled()  # silent where the core is compiled, or switched off
    """
    hint = _HINTS.get(build_of_core())
    if hint is not None:
        problem = (
            "the core of dataflow_model is not compiled here, so groupings and stateful functions run about 30 times "
            "slower"
        )
        warnings.warn(explain(problem, hint=f"{hint}. {SWITCH}=no silences this warning"), RuntimeWarning, stacklevel=5)
