"""Which collections may contain retractions, and which functions keep their outputs because of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.functions.dofn import ValuesFn
from dataflow_model.plan.logical.graph import without_dropped
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Read, Ref, Retracting

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def retracted_collections(plan: Plan) -> dict[Ref, Retracting]:
    """Return the collections that may contain retractions, each with what emits them.

    A grouping emits retractions only under its own retracting strategy, and a stateful function only if its class
    declares that; other transforms pass them on. If several such collections are flattened, what has the greatest
    allowed lateness is named. The record of a dropped element, and the dead letter of a stateful function, are new
    elements.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> minutes = dm.Window.into(dm.FixedWindows(60)).accumulating_and_retracting()
        >>> sums = p | dm.Create([("a", 1)]) | minutes | dm.Sum.per_key()
        >>> [ref.label for ref in retracted_collections(p.plan())]
        ['Sum.PerKey']
    """
    retracted: dict[Ref, Retracting] = {}
    for node in plan.nodes:
        outputs = without_dropped(node)
        source: Retracting | None
        match node:
            case GroupByKeyAndWindow():
                source = Retracting(node.label, node.strategy.allowed_lateness) if node.strategy.retracting else None
            case Read():
                retracted.update((Ref(node.label, tag), source) for tag, source in node.retracting.items())
                continue
            case ParDo() if node.is_stateful:  # its outputs are new elements
                lateness = plan.strategy(node.input).allowed_lateness
                source = Retracting(node.label, lateness) if node.retracts else None
                outputs = tuple(ref for ref in outputs if ref.tag != node.dead_letters)
            case ParDo():
                source = None if isinstance(node.fn, ValuesFn) else retracted.get(node.input)
            case _:
                sources = [retracted[ref] for ref in node.inputs if ref in retracted]
                source = max(sources, key=lambda source: source.allowed_lateness, default=None)
        if source is not None:
            retracted.update(dict.fromkeys(outputs, source))
    return retracted


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
