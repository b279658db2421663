"""Which collections may contain retractions, and which functions keep their outputs because of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.functions.dofn import ValuesFn
from dataflow_model.plan.logical.graph import without_dropped
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Read, Ref

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def retracted_collections(plan: Plan) -> dict[Ref, GroupByKeyAndWindow]:
    """Return the collections that may contain retractions, each with the grouping that emits them.

    A grouping emits retractions only under its own retracting strategy; other transforms pass them on. If the outputs
    of several groupings are flattened, the one with the greatest allowed lateness is named. The record of a dropped
    element is a new element.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> minutes = dm.Window.into(dm.FixedWindows(60)).accumulating_and_retracting()
        >>> sums = p | dm.Create([("a", 1)]) | minutes | dm.Sum.per_key()
        >>> [ref.label for ref in retracted_collections(p.plan())]
        ['Sum.PerKey']
    """
    groupings: dict[Ref, GroupByKeyAndWindow] = {}
    for node in plan.nodes:
        source: GroupByKeyAndWindow | None
        match node:
            case GroupByKeyAndWindow():
                source = node if node.strategy.retracting else None
            case Read():
                groupings.update((Ref(node.label, tag), source) for tag, source in node.retracting.items())
                continue
            case ParDo():  # the outputs of a stateful one are new elements
                stops = node.is_stateful or isinstance(node.fn, ValuesFn)
                source = None if stops else groupings.get(node.input)
            case _:
                sources = [groupings[ref] for ref in node.inputs if ref in groupings]
                source = max(sources, key=lambda grouping: grouping.strategy.allowed_lateness, default=None)
        if source is not None:
            groupings.update(dict.fromkeys(without_dropped(node), source))
    return groupings


def memoised(plan: Plan) -> frozenset[str]:
    """Return the labels of the memoised functions whose input may contain retractions, so that outputs are kept.

    A memoised function without retractions in its input keeps nothing.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> hourly = dm.Window.into(dm.FixedWindows("1 hour"))
        >>> pairs = p | dm.Create([("a", 1)]) | "before" >> dm.Map(lambda pair: pair).retractable("memoised")
        >>> sums = pairs | hourly.accumulating_and_retracting() | dm.Sum.per_key()
        >>> _ = sums | "behind" >> dm.Map(lambda pair: pair).retractable("memoised")
        >>> sorted(memoised(p.plan()))
        ['behind']
    """
    memoising = [node for node in plan.nodes if isinstance(node, ParDo) and node.retractable == "memoised"]
    if not memoising:
        return frozenset()
    retracted = retracted_collections(plan)
    return frozenset(node.label for node in memoising if node.input in retracted and not node.is_stateful)
