"""What a plan's triggers wait for, beside the low watermark and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.nodes import GroupByKeyAndWindow
from dataflow_model.triggers import TriggerMachine

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan

__all__ = ["awaited_percentiles", "awaited_signals"]


def awaited_percentiles(plan: Plan) -> tuple[float, ...]:
    """Return the percentiles of the watermark below 100 that some trigger waits for, lowest first.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> awaited_percentiles(p.plan())
        ()
    """
    return tuple(sorted({one for machine in _machines(plan) for one in machine.percentiles}))


def awaited_signals(plan: Plan) -> frozenset[str]:
    """Return the names of the signals that some trigger waits for."""
    return frozenset(name for machine in _machines(plan) for name in machine.signals)


def _machines(plan: Plan) -> list[TriggerMachine]:
    return [TriggerMachine(node.strategy.trigger) for node in plan.nodes if isinstance(node, GroupByKeyAndWindow)]
