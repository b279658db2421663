"""The elements that a keyed node drops, as an output of the node.

A record is in the global window. Its event time is the watermark at which the element was dropped, or that of the
element if it is later: so it is never late, whatever windows it is assigned to, and holds no watermark back.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self

from dataflow_model.plan.logical.dropped import Dropped, DropReason
from dataflow_model.runners.engine.lanes.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.lanes.order import of_drop
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
    from dataflow_model.runners.engine.lanes.order import Order
    from dataflow_model.values import Window

_LAST: Final = int(GLOBAL_WINDOW.max_timestamp)


class Drops:
    """Collects the elements that a node drops on one shard, in one instant or chunk.

    Args:
        label: the label of the node.
        tag: the tag of the output.
    """

    def __init__(self, label: str, tag: str) -> None:
        self._label = label
        self.tag = tag
        self._bundle = Bundle()
        self._numbers: Counter[Order] = Counter()

    @classmethod
    def of(cls, node: GroupByKeyAndWindow | Deduplicate | ParDo) -> Self | None:
        """Return what collects the elements that a node drops; `None` if nothing is done with them."""
        return None if node.dropped is None else cls(node.label, node.dropped)

    def add(
        self,
        reason: DropReason,
        element: Any,
        windows: tuple[Window, ...],
        *,
        time: int,
        watermark: int,
        order: Order,
        clock: int,
    ) -> None:
        """Add an element.

        Args:
            reason: why it is dropped.
            element: the element.
            windows: the windows in which it is dropped.
            time: its event time.
            watermark: the watermark of the node's input.
            order: the order of the element.
            clock: the processing time.
        """
        record = Dropped(element, self._label, reason, windows, EventTime(time), EventTime(watermark))
        order_of_record = of_drop(order, self._numbers[order])
        self._numbers[order] += 1
        self._bundle.append(record, min(max(time, watermark), _LAST), GLOBAL_ONLY, NO_FIRING, order_of_record, clock)

    def take(self) -> Bundle:
        """Return the records since the last call, in the order in which they were added."""
        bundle, self._bundle = self._bundle, Bundle()
        self._numbers.clear()
        return bundle
