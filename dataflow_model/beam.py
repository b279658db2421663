"""Runners for pipelines of Apache Beam's Python SDK; needs the extra `beam`.

`--runner=dataflow_model.beam.LocalRunner` runs an unmodified program of Beam's. Beam is imported when a runner is first
used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.names.spellings import unknown as _unknown

if TYPE_CHECKING:
    from dataflow_model.runners.beam.runner import LocalRunner, SparkRunner

__all__ = ["LocalRunner", "SparkRunner"]

_RUNNERS: Final = "dataflow_model.runners.beam.runner"


if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """Import a runner, and Beam with it."""
        if name not in __all__:
            raise _unknown(__name__, name, sys.modules[__name__])
        return getattr(importlib.import_module(_RUNNERS), name)
