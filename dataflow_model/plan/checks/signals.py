"""Signals from outside: which of them a plan's triggers wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.logical.triggering import awaited_signals

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def check_signal(plan: Plan, name: str) -> None:
    """Reject a signal that would have no effect.

    Raises:
        InvalidArgument: for a name that no trigger waits for.

    Example:
        >>> import dataflow_model as dm
        >>> check_signal(dm.Pipeline().plan(), "flush")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: no trigger waits for the signal 'flush'
        Hint: add the trigger dm.AfterSignal('flush')
    """
    names = awaited_signals(plan)
    if name not in names:
        hint = f"the signals are {', '.join(sorted(names))}" if names else f"add the trigger dm.AfterSignal({name!r})"
        raise InvalidArgument(f"no trigger waits for the signal {name!r}", hint=hint)
