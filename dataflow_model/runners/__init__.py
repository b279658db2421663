"""The runners, which run plans: one engine, and the hosts that feed it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.plan.spellings import unknown

if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> NoReturn:
        """Raise the error for a name that is missing, with our spelling of a well-known one."""
        raise unknown(__name__, name, sys.modules[__name__])
