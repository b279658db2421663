"""A bounded run: sources that are read again and again while a stream runs are read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.logical.nodes import Read

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node


def for_bounded_run(plan: Plan) -> Plan:
    """Return the plan as a run executes it that ends with its input.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> names = dm.io.ReadCsv("names.csv", event_time=None)
        >>> _ = p | dm.io.ReadAgain(names, every="1 hour")
        >>> [plan.nodes[0].source.is_bounded for plan in (p.plan(), for_bounded_run(p.plan()))]
        [False, True]
    """

    def bounded(node: Node) -> Node:
        return attrs.evolve(node, source=node.source.for_bounded_run()) if isinstance(node, Read) else node

    return plan.changed(bounded)
