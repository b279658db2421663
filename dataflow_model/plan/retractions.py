"""Where retractions can flow, and what a plan may not do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import NotYetSupported, PlanError, explain
from dataflow_model.plan.dofn import DoFn
from dataflow_model.plan.graph import outputs_of
from dataflow_model.plan.nodes import GroupByKeyAndWindow, ParDo, Read
from dataflow_model.plan.stages import dynamic_sides

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import Ref

__all__ = ["check_retractions", "retracted_collections"]


def retracted_collections(plan: Plan) -> dict[Ref, GroupByKeyAndWindow]:
    """Return the collections in which values may be taken back, each with the grouping that last did it.

    A grouping's result is a retraction only under its own retracting strategy; everything between passes them on. Of
    several groupings whose results are put together, the one that goes on longest is named.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> minutes = dm.Window.into(dm.FixedWindows(60)).accumulating_and_retracting()
        >>> sums = p | dm.Create([("a", 1)]) | minutes | dm.Sum.per_key()
        >>> [ref.label for ref in retracted_collections(p.plan())]
        ['Sum.PerKey']
    """
    found: dict[Ref, GroupByKeyAndWindow] = {}
    for node in plan.nodes:
        source: GroupByKeyAndWindow | None
        match node:
            case GroupByKeyAndWindow():
                source = node if node.strategy.retracting else None
            case Read():
                source = None
            case ParDo():  # what a stateful one gives are elements of its own
                source = None if node.is_stateful else found.get(node.input)
            case _:
                several = [found[ref] for ref in node.inputs if ref in found]
                source = max(several, key=lambda one: one.strategy.allowed_lateness, default=None)
        if source is not None:
            found.update(dict.fromkeys(outputs_of(node), source))
    return found


def check_retractions(plan: Plan) -> None:
    """Raise `PlanError` where retractions would come to something that cannot apply them."""
    retracted = retracted_collections(plan)
    if not retracted:
        return
    changing = dynamic_sides(plan)
    for node in plan.nodes:
        if isinstance(node, ParDo) and node.input in retracted:
            _check_function(node, retracted[node.input])
            if any(side in changing for side in node.side_inputs):
                raise PlanError(
                    explain(
                        f"{node.label!r} runs on retractions of {retracted[node.input].label!r}, and its side input "
                        "changes: the retraction of an output might not be that output",
                        hint="join the two with dm.CoGroupByKey, or use .accumulating()",
                    )
                )
        if isinstance(node, GroupByKeyAndWindow) and node.input in retracted:
            _check_grouping(node, retracted[node.input])


def _check_function(node: ParDo, source: GroupByKeyAndWindow) -> None:
    if node.fn.retractable == "memoised":
        raise NotYetSupported(
            explain(
                f"{node.label!r} wants its outputs memoised for retractions, which no runner does yet",
                hint="make the function deterministic, and leave `retractable` at True",
            )
        )
    if not node.fn.retractable:
        raise PlanError(
            explain(
                f"{node.label!r} says that it is not retractable, but {source.label!r} takes values back",
                hint="use .accumulating() before it",
            )
        )
    if type(node.fn).finish_bundle is not DoFn.finish_bundle:
        raise PlanError(
            explain(
                f"{node.label!r} gives outputs at the end of a bundle, and {source.label!r} takes values back: "
                "no one could say which outputs a retraction takes back",
                hint="give outputs in `process` only, or use .accumulating() before it",
            )
        )


def _check_grouping(node: GroupByKeyAndWindow, source: GroupByKeyAndWindow) -> None:
    strategy = node.strategy
    if strategy.allowed_lateness < source.strategy.allowed_lateness:
        raise PlanError(
            explain(
                f"{node.label!r} allows {strategy.allowed_lateness!r} of lateness, but {source.label!r} before it "
                f"takes values back for {source.strategy.allowed_lateness!r}: what comes too late could not be mended",
                hint=f"say .allowed_lateness({source.strategy.allowed_lateness!r}) or more",
            )
        )
    if strategy.merges:
        raise PlanError(
            explain(
                f"{node.label!r} merges windows ({strategy.window_fn!r}), but {source.label!r} takes values back: "
                "windows that a value has joined cannot be parted again",
                hint="use windows that do not merge, such as dm.FixedWindows, or .accumulating() before it",
            )
        )
    if not strategy.accumulates and not node.combine.can_subtract:
        raise PlanError(
            explain(
                f"{node.label!r} discards what it has emitted, and {type(node.combine).__name__} cannot subtract: "
                f"the values that {source.label!r} takes back are gone by then",
                hint="use .accumulating() or .accumulating_and_retracting(), or give the CombineFn `subtract_input`",
            )
        )
