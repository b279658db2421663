"""Users' window functions that merge: which cells of a key become one cell, as their `merge` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.merging import merges_of
from dataflow_model.runners.engine.order import by_window

if TYPE_CHECKING:
    from dataflow_model.runners.engine.core.grouping import CoreGrouping
    from dataflow_model.values import Window
    from dataflow_model.windowing import WindowFn

__all__ = ["UserMerging"]


class UserMerging:
    """Merges cells of one key as a user's window function says; the machine merges sessions by itself.

    Args:
        core: the grouping.
        fn: the window function.

    Attributes:
        changed: the cells that the last call has made by merging, and that of the arriving window, in order of their
            windows; empty if it has not merged any.
    """

    def __init__(self, core: CoreGrouping, fn: WindowFn) -> None:
        self.changed: list[int] = []
        self._core = core
        self._fn = fn

    def arrive(self, key: int, bounds: tuple[int, int, int], candidates: int) -> int:
        """Return the cell of an arriving window after merging; it is a new one if the window has none.

        Args:
            key: the number of the key.
            bounds: the start, end and kind of the arriving window.
            candidates: how many of the slots that the machine has collected may merge with it.
        """
        core, machine = self._core, self._core.machine
        table = machine.cells
        slots = {
            core.window(table.start[slot], table.end[slot], table.kind[slot]): slot
            for slot in list(machine.collected[:candidates])
        }
        target, merges = merges_of(self._fn, slots, core.window(*bounds))
        taken = {window: slots.pop(window) for sources, _ in merges for window in sources}
        for sources, result in merges:
            members = [taken[window] for window in sources]
            if result in slots:  # an existing window with the new bounds is merged too
                members.append(slots.pop(result))
            slots[result] = self._merged(key, members, result)
        if target not in slots:
            slots[target] = machine.opened(key, *self._bounds(target))
        changed = {target, *(result for _, result in merges)} if merges else ()
        self.changed = [slots[window] for window in sorted(changed, key=by_window)]
        return slots[target]

    def is_earlier(self, kind: int, other: int, start: int, end: int) -> bool:
        """Return whether a window comes before another one with the same bounds, which is of another kind."""
        core = self._core
        return by_window(core.window(start, end, kind)) < by_window(core.window(start, end, other))

    def _merged(self, key: int, members: list[int], result: Window) -> int:
        """Return the cell that several cells become."""
        machine = self._core.machine
        for place, slot in enumerate(reversed(members)):
            machine.collected[place] = slot
        return machine.merge_collected(len(members), key, *self._bounds(result))

    def _bounds(self, window: Window) -> tuple[int, int, int]:
        return int(window.start), int(window.end), self._core.kind(window)
