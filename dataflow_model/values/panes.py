"""Panes: the output of one firing of a trigger for one key and window."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.display import MOST_ROWS, brief_repr, html_table, text_table
from dataflow_model.readable import readable_instant
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.values.windows import readable_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.values.windows import Window

_CLOCK_START: Final = ProcessingTime(0)


class PaneTiming(enum.Enum):
    """The timing of a pane: emitted before, when, or after the watermark passes the end of its window.

    `UNKNOWN` is the timing of an element that has not been through a grouping.

    Source: Beam's `PaneInfoTiming`.
    """

    EARLY = "EARLY"
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    UNKNOWN = "UNKNOWN"

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(order=False, repr=False)
class PaneInfo:
    """The position of a pane in the sequence of its window's panes, and its timing.

    Attributes:
        index: 0 for the window's first pane, 1 for the second, …; a window that grows or merges is a new window.
        on_time_index: the number of earlier panes that were not `EARLY`, so 0 for the first such pane; −1 for an
            `EARLY` pane before it.
        is_first: whether `index` is 0.
        is_last: whether no pane follows, because the window expired or its trigger finished.
        timing: `EARLY`, `ON_TIME` or `LATE`; `UNKNOWN` for an element that has not been through a grouping.
        trigger: the `repr` of the trigger that fired; `None` if no trigger fired.

    Source: Beam's `PaneInfo`; `on_time_index` is its `nonspeculative_index`.
    """

    index: int = 0
    on_time_index: int = 0
    is_first: bool = True
    is_last: bool = True
    timing: PaneTiming = PaneTiming.UNKNOWN
    trigger: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PaneInfo, (self.index, self.on_time_index, self.is_first, self.is_last, self.timing, self.trigger)

    def __repr__(self) -> str:
        return brief_repr(self)

    def describe(self, *, is_retraction: bool = False) -> str:
        """Say in words which pane it is; nothing for an element that no grouping has made.

        Example:
            >>> PaneInfo(index=2, timing=PaneTiming.ON_TIME, is_first=False, is_last=True).describe()
            'on time, #2, last'
        """
        if self.timing is PaneTiming.UNKNOWN:
            return "retraction" if is_retraction else ""
        parts = ["retraction"] * is_retraction + [self.timing.name.lower().replace("_", " "), f"#{self.index}"]
        return ", ".join(parts + ["last"] * self.is_last)


NO_FIRING: Final = PaneInfo()
"""The pane info of an element that has not been through a grouping."""


@attrs.frozen(order=False, repr=False)
class Pane:
    """One emitted pane, as the testing tools return it.

    Attributes:
        key: the key of the group.
        window: the window in event time.
        value: the combined value, or the list of elements if the grouping does not combine.
        timestamp: the pane's own event time, which the timestamp combiner determines.
        info: its index and timing, and whether it is the first or last pane.
        is_retraction: whether the pane retracts an earlier value.
        processing_time: the deadline that fired the pane, or the clock if none did.
    """

    key: Any
    window: Window
    value: Any
    timestamp: EventTime
    info: PaneInfo
    is_retraction: bool = False
    processing_time: ProcessingTime = _CLOCK_START

    def __repr__(self) -> str:
        return brief_repr(self)

    def _repr_html_(self) -> str:
        return _html([self])


class Panes(list[Pane]):
    """A list of panes that prints itself as a table, and that a notebook shows as one."""

    def __repr__(self) -> str:
        if not self:
            return "no panes"
        return text_table(_HEADINGS, map(_row, self[:MOST_ROWS]), total=len(self), notes=[_note(self)])

    def _repr_html_(self) -> str:
        return _html(self)


_HEADINGS: Final = ("emitted", "key", "window", "value", "pane")


def _row(pane: Pane) -> tuple[object, ...]:
    return (
        readable_instant(int(pane.processing_time)),
        pane.key,
        readable_window(pane.window),
        pane.value,
        pane.info.describe(is_retraction=pane.is_retraction),
    )


def _note(panes: Sequence[Pane]) -> str:
    return f"{len(panes):,} pane{'' if len(panes) == 1 else 's'}, times in UTC"


def _html(panes: Sequence[Pane]) -> str:
    if not panes:
        return html_table("no panes", (), ())
    return html_table("", _HEADINGS, map(_row, panes), total=len(panes), notes=[_note(panes)])
