"""Read the sources that cannot be read again before a run without a checkpoint, which then has their rows in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.wrapped import HeldSource
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.functions.user_code import source_calls

if TYPE_CHECKING:
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.stages import StagedPlan


def with_rows_held(staged: StagedPlan, clock: int) -> StagedPlan:
    """Return a staged plan in which each source that cannot be read again is one of the rows that it has had.

    Args:
        staged: the plan, whose sources are bounded.
        clock: the wall clock.
    """

    def held(node: Node) -> Node:
        source = node.source.as_columns if isinstance(node, Read) else None
        if source is None or not isinstance(node, Read):
            return node
        with source_calls(node.label, "poll", source.is_users):
            kept = source.kept(lambda part, _: HeldSource.of(part, node.label, clock))
        return node if kept is source else attrs.evolve(node, source=kept)

    return attrs.evolve(staged, plan=staged.plan.changed(held))
