"""Dropped elements: what a transform could not take any more, and why."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.plan.logical.strategy import LateData, WindowingStrategy

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dataflow_model.time import EventTime
    from dataflow_model.values import Window

STRATEGY_OF_DROPPED: Final = WindowingStrategy(late_data=LateData.DUPLICATE_WINDOW)
"""The strategy of an output of dropped elements: the global window, in which nothing is dropped."""


class DropReason(enum.Enum):
    """Why an element was dropped. The values are the reasons in `TransformReport.dropped`.

    * `LATE`: the element's window had expired, or its id may already have been removed by `Deduplicate`.
    * `CLOSED`: the trigger of the element's window had finished.
    * `RETRACTION`: the element retracts a value that can no longer be retracted, because its window had expired or
      the trigger of its window had finished.

    Example:
        >>> DropReason("late")
        <DropReason.LATE: 'late'>
    """

    LATE = "late"
    CLOSED = "closed"
    RETRACTION = "retractions"


@attrs.frozen
class Dropped:
    """An element that a transform has dropped, and the reason.

    There is one record for each time the element is counted as dropped: once for each window that did not take it, or
    once for all its windows if `Deduplicate` dropped it.

    Attributes:
        element: the element as the transform received it.
        label: the full label of the transform.
        reason: why it was dropped.
        windows: the windows in which it was dropped.
        timestamp: the event time of the element.
        watermark: the watermark of the transform's input when the element arrived. In a bounded job on Spark, where
            each key has a watermark of its own, that of the element's key.
        input: the input from which the element came, if the transform has several: its number or name in
            `CoGroupByKey`, `"left"` or `"right"` in `Join`.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import TestStream
        >>> script = TestStream().add(4, 30, key="UA").watermark(60).add(8, 40, key="UA")
        >>> with dm.Pipeline() as p:
        ...     minutes = p | script | dm.Window.into(dm.FixedWindows("1 minute"))
        ...     totals, dropped = minutes | dm.Sum.per_key().with_dropped_output()
        ...     _ = dropped | dm.io.Collect()
        >>> [(record.value.element, record.value.reason.value) for record in p.result.collected("Collect")]
        [(('UA', 8), 'late')]
    """

    element: Any
    label: str
    reason: DropReason
    windows: tuple[Window, ...]
    timestamp: EventTime
    watermark: EventTime
    input: Hashable = None
