"""Tools to test pipelines, combiners, triggers and window functions, both built-in and your own.

Begin with `streams`, `scripts` and `panes`; `proving` has the laws, `checks` are for users' own parts.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.plan.names.spellings import unknown
from dataflow_model.testing.asserting import assert_that, equal_to
from dataflow_model.testing.checks.combine_fns import check_combine_fn
from dataflow_model.testing.checks.trigger_checks import check_trigger
from dataflow_model.testing.checks.vectorized_checks import check_vectorized
from dataflow_model.testing.checks.window_fns import check_window_fn
from dataflow_model.testing.clocks import ManualClock
from dataflow_model.testing.crashes import CrashPoint
from dataflow_model.testing.panes import assert_panes
from dataflow_model.testing.proving.proof import LawBroken, prove
from dataflow_model.testing.scripts import panes_of, run_script
from dataflow_model.testing.streams import TestStream

__all__ = [
    "CrashPoint",
    "LawBroken",
    "ManualClock",
    "TestStream",
    "assert_panes",
    "assert_that",
    "check_combine_fn",
    "check_trigger",
    "check_vectorized",
    "check_window_fn",
    "equal_to",
    "panes_of",
    "prove",
    "run_script",
]

if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> NoReturn:
        """Raise the error for a name that is missing, with our spelling of a well-known one."""
        raise unknown(__name__, name, sys.modules[__name__])
