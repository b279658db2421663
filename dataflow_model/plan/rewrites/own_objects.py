"""A plan with objects of its own: what users have passed to the transforms is copied for each transform of each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import attrs

from dataflow_model.errors import LOG
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    ParDo,
    Read,
    Reshuffle,
    SideInput,
    ToPairs,
    Write,
)
from dataflow_model.plan.logical.runner import is_observed
from dataflow_model.values.copies import copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.logical.nodes import Node, Ref
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.plan.logical.strategy import WindowingStrategy


def with_own_objects(staged: StagedPlan) -> StagedPlan:
    """Return a staged plan whose DoFns, combiners and other objects of the user's are copies; see `copied`.

    A run changes the attributes of these objects. Without copies, the next run would begin with what this one has left,
    and a transform with what another one has. Workers get copies in any case, since the plan is pickled.

    Sources are not copied, apart from their watermark estimators: they are values, and may hold the data.

    Args:
        staged: the plan.
    """
    plan = staged.plan
    totals = {node.fan_out.parts: node for node in plan.nodes if isinstance(node, GroupByKeyAndWindow) and node.fan_out}
    own: dict[str, Any] = {}
    for node in plan.nodes:
        if node.label not in own:  # the two groupings of a fan-out are one transform
            own |= _with_own_objects(node, *([totals[node.label]] if node.label in totals else []))
    stages = tuple(tuple(own[node.label] for node in stage) for stage in staged.stages)
    strategies = _own_strategies(plan.strategies)
    plan = attrs.evolve(plan, nodes=tuple(own[node.label] for node in plan.nodes), strategies=strategies)
    return attrs.evolve(staged, plan=plan, stages=stages)


def _with_own_objects(*nodes: Node) -> dict[str, Any]:
    """Return the nodes of a transform, by label, with copies of what they hold of the user's."""
    fields = [(node, name) for node in nodes for name in _names_of(node)]
    values = tuple(getattr(_owner(node), name) for node, name in fields)
    copies, shared = copied(values, (SideInput,))
    if shared and is_observed():
        LOG.warning("%r: %s cannot be copied, and is shared by all runs in this process", nodes[0].label, shared)
    if copies is values:
        return {node.label: node for node in nodes}
    changes: dict[str, dict[str, Any]] = {node.label: {} for node in nodes}
    for (node, name), copy in zip(fields, copies, strict=True):
        changes[node.label][name] = copy
    return {node.label: _changed(node, changes[node.label]) for node in nodes}


def _names_of(node: Node) -> tuple[str, ...]:
    """Return the attributes of a node, or of its source, that hold what the user has passed to it."""
    match node:
        case ParDo():
            return "fn", "args", "kwargs"
        case AssignTimestamps():
            return ("fn",)
        case AssignWindows():
            return ("strategy",)
        case GroupByKeyAndWindow():
            return "strategy", "combine", "fan_out"
        case Write():
            return ("sink",)
        case Read():
            kind = type(node.source)
            return ("watermark",) if attrs.has(kind) and "watermark" in attrs.fields_dict(kind) else ()
        case ToPairs() | Flatten() | Reshuffle() | Deduplicate():
            return ()
        case _:
            assert_never(node)


def _owner(node: Node) -> Any:
    return node.source if isinstance(node, Read) else node


def _changed(node: Node, changes: Mapping[str, Any]) -> Node:
    owner: Any = attrs.evolve(_owner(node), **changes)
    return attrs.evolve(node, source=owner) if isinstance(node, Read) else owner


def _own_strategies(strategies: Mapping[Ref, WindowingStrategy]) -> dict[Ref, WindowingStrategy]:
    """Return copies of the strategies of collections; collections with one strategy have one copy."""
    own = {id(strategy): copied((strategy,)).value[0] for strategy in strategies.values()}
    return {ref: own[id(strategy)] for ref, strategy in strategies.items()}
