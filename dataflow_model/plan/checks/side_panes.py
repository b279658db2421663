"""Which panes of a side input a newer pane replaces, where the groupings behind it accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dataflow_model.errors import PlanError
from dataflow_model.plan.functions.dofn import MapFn, VectorizedMapFn
from dataflow_model.plan.logical.graph import main_inputs
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    GroupByKeyAndWindow,
    ParDo,
    Read,
    Reshuffle,
    ToPairs,
)
from dataflow_model.plan.logical.refinements import groupings_before, keeps_all_panes, may_refine

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node, Ref

Replaced: TypeAlias = Literal["nothing", "key", "window"]
"""The values that those of a newer pane replace: none, those of the same key, or all of the window."""
_IN_ROUNDS: Final = "use mode='streaming', or dm.CoGroupByKey instead of the side input"


def replaced_by_newer(plan: Plan, ref: Ref) -> Replaced:
    """Return which values of a side input those of a newer pane replace.

    Values of panes that refine each other have to be told apart by what they belong to. That is known where nothing but
    the grouping has made them, and where the grouping has a single key and functions turn each value into one.

    Args:
        plan: the plan.
        ref: the collection of the side input.

    Raises:
        PlanError: if it is not known.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> each = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Always()).accumulating()
        >>> sums = p | dm.Create([("a", 1)]) | each | dm.Sum.per_key()
        >>> replaced_by_newer(p.plan(), sums.ref)
        'key'
        >>> doubled = sums | dm.MapTuple(lambda name, total: f"{name}: {total}")
        >>> replaced_by_newer(p.plan(), doubled.ref)
        Traceback (most recent call last):
        dataflow_model.errors.PlanError: the side input 'MapTuple' consists of panes of 'Sum.PerKey' that replace ...
        Hint: use .accumulating_and_retracting() before 'Sum.PerKey', which takes replaced values back
    """
    return _replaced(plan, ref, in_rounds=False)


def refining_groupings(plan: Plan, ref: Ref) -> list[GroupByKeyAndWindow]:
    """Return the groupings whose newer panes replace older ones in a side input, without retractions that say so."""
    return [grouping for grouping in groupings_before(plan, ref, keeps_all_panes) if _refines(grouping)]


def opens_empty(plan: Plan, ref: Ref) -> bool:
    """Return whether a side input is known from its first watermark on, even if it has no elements then.

    It is so for the rows of a table that is read again and again, unless a grouping behind it has yet to emit them.
    """
    node = plan[ref.label]
    if isinstance(node, Read):
        return node.source.opens_empty
    if isinstance(node, GroupByKeyAndWindow):
        return False
    return all(opens_empty(plan, before) for before in main_inputs(node))


def check_side_inputs(plan: Plan, *, in_rounds: bool = False) -> None:
    """Raise if it is unknown which values of a side input a newer pane replaces.

    Args:
        plan: the plan, as it is run.
        in_rounds: whether it was rewritten to run in rounds, so that its accumulation modes are not the user's.

    Raises:
        PlanError: for such a side input.
    """
    for node in plan.nodes:
        for side in node.side_inputs if isinstance(node, ParDo) else ():
            _replaced(plan, side.ref, in_rounds=in_rounds)


def _replaced(plan: Plan, ref: Ref, *, in_rounds: bool) -> Replaced:
    refining = refining_groupings(plan, ref)
    if not refining:
        return "nothing"
    grouping = refining[0]
    doubtful = grouping if grouping.strategy.merges else _doubtful(plan, ref)
    if doubtful is None:
        return "window" if grouping.has_one_key else "key"
    why = (
        "its windows merge"
        if doubtful is grouping
        else f"after {doubtful.label!r} it is unknown which values belong to one pane"
    )
    raise PlanError(
        f"the side input {ref.label!r} consists of panes of {grouping.label!r} that replace each other, but {why}",
        hint=_IN_ROUNDS
        if in_rounds
        else f"use .accumulating_and_retracting() before {grouping.label!r}, which takes replaced values back",
    )


def _refines(grouping: GroupByKeyAndWindow) -> bool:
    """Return whether values of newer panes replace those of older ones, without retractions that say so."""
    strategy = grouping.strategy
    replaces = strategy.accumulates or strategy.merges  # a window that has merged takes the place of others
    return replaces and not strategy.retracting and may_refine(strategy)


def _doubtful(plan: Plan, ref: Ref) -> Node | None:
    """Return the nearest transform after which it is unknown to which pane a value belongs."""
    making: Node | None = None
    while True:
        node = plan[ref.label]
        match node:
            case GroupByKeyAndWindow():
                return None if node.has_one_key else making
            case ParDo() if _is_one_to_one(node):
                making = making or (None if getattr(node.fn.user_function(), "keeps_keys", False) else node)
            case ToPairs() | AssignTimestamps():
                making = making or (node if isinstance(node, ToPairs) else None)
            case Reshuffle():
                pass
            case AssignWindows() if not node.assigns:
                pass
            case _:
                return node
        ref = node.inputs[0]


def _is_one_to_one(node: ParDo) -> bool:
    has_other_outputs = node.tags or node.dead_letters is not None
    return isinstance(node.fn, MapFn | VectorizedMapFn) and not has_other_outputs
