"""Collected records: which labels a result can be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.nodes import Write

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan

__all__ = ["check_collected"]


def check_collected(plan: Plan, label: str) -> None:
    """Refuse a label under which nothing is collected.

    Raises:
        InvalidArgument: for a label that is none of an `io.Collect` or `io.ToDataFrame` sink.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([1]) | "kept" >> dm.io.Collect()
        >>> check_collected(p.plan(), "Collect")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: no dm.io.Collect() sink has the label 'Collect'
        Hint: the labels are ['kept']
    """
    sinks = [node for node in plan.nodes if isinstance(node, Write)]
    labels = [node.label for node in sinks if node.sink.keeps_records]
    if label not in labels:
        hint = f"the labels are {labels}" if labels else f"add one to the pipeline: {label!r} >> dm.io.Collect()"
        raise InvalidArgument(f"no dm.io.Collect() sink has the label {label!r}", hint=hint)
