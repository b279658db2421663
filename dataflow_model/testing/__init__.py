"""Tools to test pipelines, triggers and window functions; ours and yours."""

from __future__ import annotations

from dataflow_model.testing.panes import assert_panes
from dataflow_model.testing.scripts import panes_of, run_script
from dataflow_model.testing.streams import TestStream
from dataflow_model.testing.window_fns import check_window_fn

__all__ = ["TestStream", "assert_panes", "check_window_fn", "panes_of", "run_script"]
