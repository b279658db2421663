"""The console script `dataflow-model`; one module per command."""

from __future__ import annotations

from dataflow_model.cli.command import main

__all__ = ["main"]
