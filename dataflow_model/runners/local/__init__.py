"""LocalRunner: the engine in process, without Java.

Begin with `runner` and `stream`, a micro-batch that survives crashes, and `run_file`, its store. `bounded` runs without
a checkpoint, `workers` does so in several processes.
"""

from __future__ import annotations

from dataflow_model.runners.local.runner import LocalRunner

__all__ = ["LocalRunner"]
