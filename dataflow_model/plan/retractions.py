"""What a plan may not do with retractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import NotYetSupported, PlanError, explain
from dataflow_model.plan.dofn import DoFn
from dataflow_model.plan.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
from dataflow_model.plan.retracted import retracted_collections
from dataflow_model.plan.stages import dynamic_sides

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan

__all__ = ["check_retractions"]


def check_retractions(plan: Plan) -> None:
    """Raise where retractions would come to something that cannot apply them.

    Raises:
        PlanError: for what can never be.
        NotYetSupported: for a function that keeps its outputs, with a side input that changes.
    """
    retracted = retracted_collections(plan)
    if not retracted:
        return
    changing = dynamic_sides(plan)
    for node in plan.nodes:
        if isinstance(node, ParDo) and node.input in retracted:
            _check_function(node, retracted[node.input])
            if any(side in changing for side in node.side_inputs):
                _refuse_changing_side(node, retracted[node.input])
        if isinstance(node, GroupByKeyAndWindow) and node.input in retracted:
            _check_grouping(node, retracted[node.input])
        if isinstance(node, Deduplicate) and node.input in retracted:
            raise PlanError(
                explain(
                    f"{node.label!r} passes one element of each id, but {retracted[node.input].label!r} takes values "
                    "back: it would take the retraction for a duplicate",
                    hint="put dm.Deduplicate right behind the source, or use .accumulating() before it",
                )
            )


def _refuse_changing_side(node: ParDo, source: GroupByKeyAndWindow) -> None:
    if node.retractable == "memoised":
        raise NotYetSupported(
            explain(
                f"{node.label!r} keeps its outputs for the retractions of {source.label!r}, and its side input changes "
                "while the pipeline runs, which no runner joins yet",
                hint="look the side input up in a dm.Map before the grouping, or join the two with dm.CoGroupByKey",
            )
        )
    raise PlanError(
        explain(
            f"{node.label!r} runs on retractions of {source.label!r}, and its side input "
            "changes: the retraction of an output might not be that output",
            hint="join the two with dm.CoGroupByKey, or use .accumulating()",
        )
    )


def _check_function(node: ParDo, source: GroupByKeyAndWindow) -> None:
    if node.is_stateful and node.retractable == "memoised":
        raise PlanError(
            explain(
                f"{node.label!r} keeps state, and what it gives depends on that: its outputs cannot be kept by input "
                f"for the retractions of {source.label!r}",
                hint="leave `retractable` at True, name the parameter `is_retraction` in `process` and undo what is "
                "taken back",
            )
        )
    if not node.retractable:
        raise PlanError(
            explain(
                f"{node.label!r} says that it is not retractable, but {source.label!r} takes values back",
                hint='use .accumulating() before it, or say retractable="memoised" if it only gives something else '
                "each time",
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
