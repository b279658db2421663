"""The continuation of a trigger: what the grouping after its own inherits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.triggers.delays import AfterProcessingTime
from dataflow_model.triggers.repetition import Repeatedly
from dataflow_model.triggers.watermark import AfterWatermark

if TYPE_CHECKING:
    from dataflow_model.triggers.base import Trigger

END_OF_TICK: Final = AfterProcessingTime(0)
"""Fires at the end of the tick in which the first element arrived."""
EVERY_TICK: Final = Repeatedly(END_OF_TICK)
"""Fires at the end of each tick in which elements arrived; the default continuation."""
EVERY_TICK_AND_ON_TIME: Final = AfterWatermark(early=END_OF_TICK, late=END_OF_TICK)
"""The same, and also when the watermark passes the end of the window."""


def continuation_of_tree(trigger: Trigger) -> Trigger:
    """Return the continuation of a tree of built-in triggers, which depends on whether a leaf awaits the low watermark.

    Example:
        >>> from dataflow_model.triggers import AfterAny, AfterCount, AfterWatermark
        >>> continuation_of_tree(AfterAny(AfterCount(9), AfterWatermark()))
        AfterWatermark(early=AfterProcessingTime('0 seconds'), late=AfterProcessingTime('0 seconds'))
        >>> continuation_of_tree(AfterAny(AfterCount(9), AfterWatermark(percentile=95)))
        Repeatedly(AfterProcessingTime('0 seconds'))
    """
    return EVERY_TICK_AND_ON_TIME if _awaits_low_watermark(trigger) else EVERY_TICK


def _awaits_low_watermark(trigger: Trigger) -> bool:
    tree = trigger.lowered()
    if isinstance(tree, AfterWatermark):
        return tree.percentile == LOW_WATERMARK
    return any(_awaits_low_watermark(child) for child in tree.children)
