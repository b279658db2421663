"""Apache Beam's Python SDK and this package, together; needs the extra `beam`.

`--runner=dataflow_model.beam.LocalRunner` runs an unmodified program of Beam's. `Apply` is a transform of Beam's in a
pipeline of this package; `Read`, `Write` and `Native` are transforms of this package in a pipeline of Beam's. Beam is
imported when one of these names is first used. `applying` is the module to read first.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import explain
from dataflow_model.plan.names.spellings import unknown as _unknown

if TYPE_CHECKING:
    from dataflow_model.beam.applying import Apply
    from dataflow_model.beam.native import Native, Read, Write
    from dataflow_model.beam.runners import LocalRunner, SparkRunner

__all__ = ["Apply", "LocalRunner", "Native", "Read", "SparkRunner", "Write"]

_MODULES: Final = {
    "Apply": "dataflow_model.beam.applying",
    "LocalRunner": "dataflow_model.beam.runners",
    "Native": "dataflow_model.beam.native",
    "Read": "dataflow_model.beam.native",
    "SparkRunner": "dataflow_model.beam.runners",
    "Write": "dataflow_model.beam.native",
}


if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """Import what has that name, and Beam with it."""
        if name not in _MODULES:
            raise _unknown(__name__, name, sys.modules[__name__])
        try:
            return getattr(importlib.import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "apache_beam":
                raise
            raise ModuleNotFoundError(
                explain(
                    f"dataflow_model.beam.{name} needs Apache Beam, which is not installed",
                    hint="run pip install 'dataflow-model[beam]'",
                ),
                name=error.name,
            ) from error
