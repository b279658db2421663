"""Panes: what one firing of a trigger yields for one key and window."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.time import EventTime, ProcessingTime

if TYPE_CHECKING:
    from dataflow_model.values.windows import Window

__all__ = ["NO_FIRING", "Pane", "PaneInfo", "PaneTiming"]

_CLOCK_START: Final = ProcessingTime(0)


class PaneTiming(enum.Enum):
    """Where a pane stands to the watermark: before it, as it passes the end of the window, or after.

    Source: Beam's `PaneInfoTiming`.
    """

    EARLY = "EARLY"
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    UNKNOWN = "UNKNOWN"

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(order=False)
class PaneInfo:
    """The place of a pane in the sequence of its window's panes.

    Attributes:
        index: 0 for the window's first pane, then counting up; a window that grows or merges is a new window.
        on_time_index: counts from 0 the panes that are not early; −1 until there is one.
        is_first: whether `index` is 0.
        is_last: whether the window expired with this pane, or its trigger finished.
        timing: `EARLY`, `ON_TIME` or `LATE`; `UNKNOWN` for an element that no grouping has made.
        trigger: the `repr` of the trigger that fired; `None` for a pane that no trigger fired.

    Source: Beam's `PaneInfo`; `on_time_index` is its `nonspeculative_index`.
    """

    index: int = 0
    on_time_index: int = 0
    is_first: bool = True
    is_last: bool = True
    timing: PaneTiming = PaneTiming.UNKNOWN
    trigger: str | None = None


NO_FIRING: Final = PaneInfo()
"""The pane info of an element that has not been through a grouping."""


@attrs.frozen(order=False)
class Pane:
    """One emitted pane as the testing tools show it.

    Attributes:
        key: the key it is grouped by.
        window: the window in event time.
        value: the combined value, or the list of elements where nothing was combined.
        timestamp: the pane's own event time, by the timestamp combiner.
        info: index, timing, first and last.
        is_retraction: whether this takes an earlier value back.
        processing_time: the deadline that fired it, else the clock.
    """

    key: Any
    window: Window
    value: Any
    timestamp: EventTime
    info: PaneInfo
    is_retraction: bool = False
    processing_time: ProcessingTime = _CLOCK_START
