"""LocalRunner: the engine in process, without Java."""

from __future__ import annotations

from dataflow_model.runners.local.runner import LocalRunner

__all__ = ["LocalRunner"]
