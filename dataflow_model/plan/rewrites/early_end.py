"""Early termination: a bounded run may end once a percentile of its partitions is done and every result is out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Read, Ref, Write
from dataflow_model.triggers import AfterWatermark
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def percentile_that_ends(plan: Plan) -> float | None:
    """Return the percentile of the watermark at which, once it is +∞, no more output follows; `None` if there is none.

    All groupings must have `AfterWatermark(percentile=p)` as their whole trigger: it has then fired for every window
    and finished. And nothing may reach a sink or a side input without a grouping, since that would need every row.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.io.Collect()
        >>> print(percentile_that_ends(p.plan()))
        None
    """
    percentiles = []
    ungrouped: set[Ref] = set()
    for node in plan.nodes:
        raw = any(ref in ungrouped for ref in node.inputs)
        match node:
            case GroupByKeyAndWindow():
                trigger = node.strategy.trigger
                if not isinstance(trigger, AfterWatermark) or trigger.percentile == LOW_WATERMARK:
                    return None
                if node.dropped is not None:  # every row that is not read would be in it
                    return None
                percentiles.append(trigger.percentile)
                continue
            case Write() if raw:
                return None
            case ParDo() if any(side.ref in ungrouped for side in node.side_inputs):
                return None
            case Read():
                raw = node.source.as_elements is None or node.source.has_own_clock
            case _:
                pass
        if raw:
            ungrouped.update(outputs_of(node))
    return max(percentiles, default=None)
