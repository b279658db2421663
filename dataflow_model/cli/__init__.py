"""The console script `dataflow-model`; one module per command.

Begin with `command` and `program`, what a command line names; `answer` is how commands print.
"""

from __future__ import annotations

from dataflow_model.cli.command import main

__all__ = ["main"]
