"""The state of a grouping for one key as Python objects, as the reference engine keeps it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.triggers import TreeState

if TYPE_CHECKING:
    from dataflow_model.values import PaneInfo, Window

__all__ = ["Cell", "KeyState", "Standing"]


@attrs.frozen
class Standing:
    """A value that was emitted and not retracted, with everything that its retraction repeats."""

    window: Window
    value: Any
    time: int
    info: PaneInfo

    def __reduce__(self) -> tuple[Any, ...]:
        return Standing, (self.window, self.value, self.time, self.info)


@attrs.define
class Cell:
    """The state of one key and window.

    Attributes:
        accumulator: the combiner's accumulator.
        held: the number of elements in it, without retracted ones.
        pending: the number of elements and retractions since the last pane.
        pending_on_time: whether one of them was on time for the window.
        index, on_time_index: the index of the next pane, and that of the last pane that was not early (−1 if none was).
        had_on_time: whether this window, or one that merged into it, has had its ON_TIME pane.
        earliest, latest: the event times of the pending elements that were not late on arrival, which can determine
            that of the next pane.
        has_closed: whether the window has had its last pane.
        tree: the trigger's state.
        standing: with a retracting strategy, the values that the next pane retracts; several after a merge.
        history: the panes so far, if the trigger reads them.
    """

    accumulator: Any
    tree: TreeState = attrs.field(factory=TreeState)
    pending: int = 0
    pending_on_time: bool = False
    index: int = 0
    on_time_index: int = -1
    had_on_time: bool = False
    has_closed: bool = False
    earliest: int | None = None
    latest: int | None = None
    held: int = 0
    standing: tuple[Standing, ...] = ()
    history: tuple[PaneInfo, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Cell, _fields_of_cell(self)


_fields_of_cell = operator.attrgetter(*(field.name for field in attrs.fields(Cell)))


@attrs.define
class KeyState:
    """The state of a grouping for one key."""

    key: Any
    cells: dict[Window, Cell] = attrs.field(factory=dict)
    reopened: dict[Window, Cell] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyState, (self.key, self.cells, self.reopened)
