"""Sources bound on the driver, so that every task reads the same files with the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.nodes import Read

if TYPE_CHECKING:
    from dataflow_model.plan.stages import StagedPlan

__all__ = ["bound_plan"]


def bound_plan(staged: StagedPlan) -> StagedPlan:
    """Return a staged plan whose sources know their columns."""
    bound = staged.plan.changed(
        lambda node: attrs.evolve(node, source=node.source.bound()) if isinstance(node, Read) else node
    )
    return attrs.evolve(staged, plan=bound)
