"""Read the sources that cannot be read again before a run without a checkpoint, which then has their rows in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.wrapped import HeldSource
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.functions.user_code import source_calls

if TYPE_CHECKING:
    from dataflow_model.plan.endpoints.sources import ColumnSource
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.stages import StagedPlan


def with_rows_held(staged: StagedPlan, clock: int) -> StagedPlan:
    """Return a staged plan in which each source that cannot be read again is one of the rows that it has had.

    Args:
        staged: the plan, whose sources are bounded.
        clock: the wall clock.
    """

    def held(node: Node) -> Node:
        source = read_once(node)
        if source is None or not isinstance(node, Read):
            return node
        with source_calls(node.label, "poll", source.is_users):
            return attrs.evolve(node, source=HeldSource.of(source, node.label, clock))

    if all(read_once(node) is None for node in staged.plan.nodes):
        return staged
    return attrs.evolve(staged, plan=staged.plan.changed(held))


def read_once(node: Node) -> ColumnSource | None:
    """Return the source of a node if it cannot be read again, else `None`."""
    source = node.source.as_columns if isinstance(node, Read) else None
    return None if source is None or source.reads_again else source
