"""The cells of one key in order of time, for windows that do not intersect."""

from __future__ import annotations

import bisect
import operator
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.values import Window
from tests.support.reference.key_states import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CellsInOrder"]

_START: Final = operator.attrgetter("start")
_END: Final = operator.attrgetter("end")


class CellsInOrder(dict[Window, Cell]):
    """Cells by window; it also finds the windows that intersect a given window in O(log n) comparisons.

    No two of its windows may intersect, which holds after intersecting windows have merged. So the order by start is
    also the order by end. It is pickled as a plain dict.

    Example:
        >>> from dataflow_model.values import interval
        >>> cells = CellsInOrder({interval(at, at + 10): Cell(None) for at in (0, 10, 30)})
        >>> [(int(window.start), int(window.end)) for window in cells.meeting(interval(9, 30))]
        [(0, 10), (10, 20)]
    """

    def __init__(self, cells: Mapping[Window, Cell]) -> None:
        super().__init__(cells)
        self._windows = sorted(cells, key=_START)

    def meeting(self, window: Window) -> list[Window]:
        """Return the windows that share an instant with `window`, in order of time."""
        first = bisect.bisect_right(self._windows, window.start, key=_END)
        last = bisect.bisect_left(self._windows, window.end, first, key=_START)
        return self._windows[first:last]

    def __setitem__(self, window: Window, cell: Cell) -> None:
        if window not in self:
            bisect.insort(self._windows, window, key=_START)
        super().__setitem__(window, cell)

    def __delitem__(self, window: Window) -> None:
        super().__delitem__(window)
        first = bisect.bisect_left(self._windows, window.start, key=_START)
        del self._windows[self._windows.index(window, first)]

    def pop(self, window: Window, default: Any = None) -> Any:
        """Remove a window and return its cell, or the default."""
        cell = self.get(window)
        if cell is None:
            return default
        del self[window]
        return cell

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
