"""The runners, which run plans: one engine, and the hosts that feed it.

Begin with `engine`, which knows no host, then `sharded`, the runtime of streams, and the hosts `local` and `spark`.
`runs` and `reporting` are what all runs have in common; `operating` works on checkpoints from outside.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.plan.names.spellings import unknown

if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> NoReturn:
        """Raise the error for a name that is missing, with our spelling of a well-known one."""
        raise unknown(__name__, name, sys.modules[__name__])
