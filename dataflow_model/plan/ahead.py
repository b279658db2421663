"""What runs ahead of a pipeline: the transforms that only static side inputs need, which are computed before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.graph import Plan, main_inputs
from dataflow_model.plan.nodes import ParDo, Read
from dataflow_model.plan.sources import ElementsSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dataflow_model.plan.nodes import Node, SideInput

__all__ = ["nodes_ahead", "without_input_ahead"]

_NOTHING: Final = ElementsSource(())


def nodes_ahead(plan: Plan, changing: Collection[SideInput]) -> frozenset[str]:
    """Return the labels of the nodes whose output reaches static side inputs and nothing else.

    Args:
        plan: the plan.
        changing: the side inputs that change while the plan runs; the others are static.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> known = p | "known" >> dm.Create(["ua"]) | "upper" >> dm.Map(str.upper)
        >>> _ = p | "codes" >> dm.Create(["UA"]) | dm.Filter(lambda code, known: code in known, dm.AsIter(known))
        >>> sorted(nodes_ahead(p.plan(), ()))
        ['known', 'upper']
    """
    ahead: set[str] = set()
    for_sides: set[str] = set()
    for_run: set[str] = set()
    for node in reversed(plan.nodes):
        is_ahead = node.label in for_sides and node.label not in for_run
        if is_ahead:
            ahead.add(node.label)
        for label, is_static in _inputs(node, changing):
            (for_sides if is_ahead or is_static else for_run).add(label)
    return frozenset(ahead)


def without_input_ahead(plan: Plan, ahead: Collection[str]) -> Plan:
    """Return a plan for the run itself: the sources that run ahead have no elements there.

    Args:
        plan: the plan.
        ahead: the labels of the nodes that run ahead.
    """
    return plan.changed(
        lambda node: attrs.evolve(node, source=_NOTHING) if isinstance(node, Read) and node.label in ahead else node
    )


def _inputs(node: Node, changing: Collection[SideInput]) -> Iterator[tuple[str, bool]]:
    """Yield the labels of a node's inputs, each with whether it is a static side input."""
    for ref in main_inputs(node):
        yield ref.label, False
    for side in node.side_inputs if isinstance(node, ParDo) else ():
        yield side.ref.label, side not in changing
