"""Bundles as sinks take them: one record for each element and window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.sinks import Record
from dataflow_model.runners.engine.order import at_instant
from dataflow_model.time import EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.order import At

__all__ = ["records_of"]


def records_of(bundle: Bundle, instants: Sequence[At]) -> list[Record]:
    """Return a bundle's elements as records, one for each window.

    Args:
        bundle: the elements.
        instants: the instant of each.
    """
    columns = zip(
        bundle.values, bundle.times, bundle.windows, bundle.panes, bundle.orders, bundle.produced, instants, strict=True
    )
    return [
        Record(value, EventTime(time), window, pane, taken_back, at_instant(at, order), ProcessingTime(produced))
        for row, (value, time, windows, pane, order, produced, at) in enumerate(columns)
        for taken_back in [bool(bundle.updates) and bundle.is_retraction(row)]
        for window in windows
    ]
