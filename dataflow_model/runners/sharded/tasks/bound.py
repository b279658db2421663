"""A plan bound on the driver, so that every task reads the same files with the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.logical.nodes import Read
from dataflow_model.plan.rewrites.own_objects import with_own_objects

if TYPE_CHECKING:
    from dataflow_model.plan.logical.stages import StagedPlan


def bound_plan(staged: StagedPlan) -> StagedPlan:
    """Return a staged plan whose sources know their columns.

    The objects of the user's in it are copies, with which no other run and no other transform works.
    """
    bound = staged.plan.changed(
        lambda node: attrs.evolve(node, source=node.source.bound()) if isinstance(node, Read) else node
    )
    return with_own_objects(attrs.evolve(staged, plan=bound))
