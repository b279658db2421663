"""Checks of what a plan does with retractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import NotYetSupported, PlanError
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.time import duration_text
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node, Retracting, SideInput


def check_retractions(plan: Plan) -> None:
    """Raise if retractions would reach a transform that cannot apply them.

    Raises:
        PlanError: if the transform can never apply them.
        NotYetSupported: for a memoised function with a side input that changes.
    """
    retracted = retracted_collections(plan)
    if not retracted:
        return
    changing = changing_sides(plan)
    for node in plan.nodes:
        if isinstance(node, ParDo) and node.input in retracted:
            _check_function(node, retracted[node.input])
            if node.has_side_among(changing):
                _refuse_changing_side(node, retracted[node.input])
        if isinstance(node, GroupByKeyAndWindow) and node.input in retracted:
            _check_grouping(node, retracted[node.input])
        if isinstance(node, Deduplicate) and node.input in retracted:
            raise PlanError(
                f"{node.label!r} keeps one element per id, but {retracted[node.input].label!r} emits retractions, "
                "which it would drop as duplicates",
                hint="put dm.Deduplicate directly after the source, or use .accumulating() before it",
            )


def applies_retractions(node: Node, changing: Collection[SideInput]) -> bool:
    """Return whether a transform can apply retractions of its input as it applies its elements, if no window expires.

    A function that emits at the ends of bundles cannot: its bundles would have one element each.

    Args:
        node: the transform.
        changing: the side inputs that change while the pipeline runs.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([1]) | dm.Deduplicate(lambda x: x, horizon="1 hour") | dm.Map(abs)
        >>> [(node.label, applies_retractions(node, ())) for node in p.plan().nodes[2:]]
        [('Deduplicate', False), ('Map', True)]
    """
    match node:
        case ParDo():
            return bool(node.retractable) and not (
                node.is_stateful
                or type(node.fn).finish_bundle is not DoFn.finish_bundle
                or node.has_side_among(changing)
            )
        case GroupByKeyAndWindow():
            return not node.strategy.merges
        case _:
            return not isinstance(node, Deduplicate)


def _refuse_changing_side(node: ParDo, source: Retracting) -> None:
    if node.retractable == "memoised":
        raise NotYetSupported(
            f"{node.label!r} keeps its outputs for the retractions of {source.label!r}, but its side input changes "
            "while the pipeline runs; no runner supports both together yet",
            hint="look the side input up in a dm.Map before the grouping, or join the two with dm.CoGroupByKey",
        )
    raise PlanError(
        f"{node.label!r} processes retractions of {source.label!r}, but its side input changes, "
        "so the retraction of an output might differ from that output",
        hint="join the two with dm.CoGroupByKey, or use .accumulating()",
    )


def _check_function(node: ParDo, source: Retracting) -> None:
    if node.is_stateful and node.retractable == "memoised":
        raise PlanError(
            f"{node.label!r} is stateful, and its outputs depend on its state, so they cannot be kept by input "
            f"for the retractions of {source.label!r}",
            hint="leave `retractable` at True, add the parameter `is_retraction` to `process`, and reverse the "
            "effect of retracted values there",
        )
    if not node.retractable:
        raise PlanError(
            f"{node.label!r} is declared not retractable, but {source.label!r} emits retractions",
            hint='use .accumulating() before it, or set retractable="memoised" if it is only nondeterministic',
        )
    if node.retractable == "memoised" and type(node.fn).finish_bundle is not DoFn.finish_bundle:
        raise PlanError(
            f"{node.label!r} emits outputs at the end of a bundle, which are not kept for the retractions of "
            f"{source.label!r}",
            hint="emit outputs only in `process`, or use .accumulating() before it",
        )


def _check_grouping(node: GroupByKeyAndWindow, source: Retracting) -> None:
    strategy = node.strategy
    expires = not isinstance(strategy.window_fn, GlobalWindows)
    if expires and strategy.allowed_lateness < source.allowed_lateness:
        lateness, needed = map(duration_text, (strategy.allowed_lateness, source.allowed_lateness))
        raise PlanError(
            f"{node.label!r} allows {lateness} of lateness, but {source.label!r} before it emits retractions for "
            f"{needed}: later ones would be dropped, and wrong results would remain",
            hint=f"use .allowed_lateness({needed!r}) or more",
        )
    if strategy.merges:
        raise PlanError(
            f"{node.label!r} merges windows ({strategy.window_fn!r}), but {source.label!r} emits retractions: "
            "windows that were merged by a retracted value cannot be separated again",
            hint="use windows that do not merge, such as dm.FixedWindows, or use .accumulating() before it",
        )
    if not strategy.accumulates and not node.combine.can_subtract:
        raise PlanError(
            f"{node.label!r} discards what it has emitted, and {node.combine.title()} cannot subtract, "
            f"so it cannot process the retractions of {source.label!r}",
            hint="use .accumulating() or .accumulating_and_retracting(), or give the CombineFn `subtract_input`",
        )
