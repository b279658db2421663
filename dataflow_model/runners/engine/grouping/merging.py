"""Users' window functions that merge: which cells of a key become one cell, as their `merge` says."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.runners.engine.lanes.order import by_window
from dataflow_model.values import Window, by_bounds, check_within_time, is_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
    from dataflow_model.windowing import WindowFn


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
            candidates: the number of the machine's `sources` that may merge with it.
        """
        core, machine = self._core, self._core.machine
        table = machine.cells
        slots = {
            core.window(table.start[slot], table.end[slot], table.kind[slot]): slot
            for slot in list(machine.sources[:candidates])
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
        for index, slot in enumerate(reversed(members)):
            machine.sources[index] = slot
        return machine.merge_cells(len(members), key, *self._bounds(result))

    def _bounds(self, window: Window) -> tuple[int, int, int]:
        return int(window.start), int(window.end), self._core.kind(window)


def merges_of(
    fn: WindowFn, windows: Collection[Window], arriving: Window
) -> tuple[Window, list[tuple[list[Window], Window]]]:
    """Ask a window function how a key's windows merge with an arriving one.

    Args:
        fn: the window function.
        windows: the windows that have a cell and may merge.
        arriving: the window of an element.

    Returns:
        the element's window after merging; and the merges that change cells, each as the members of `windows` that it
        merges, and the window that they become.

    Raises:
        InvalidArgument: if it merges one window into two targets, or into one beyond −∞ or +∞.
        InvalidType: if it returns something that is not a merge.
    """
    target = arriving
    moved: set[Window] = set()
    results: list[tuple[list[Window], Window]] = []
    for members, result in _merges(fn, sorted({*windows, arriving}, key=by_bounds)):
        twice = moved.intersection(members)
        if twice:
            raise InvalidArgument(
                f"{fn!r} merges {min(twice, key=repr)!r} into two windows",
                hint="include each window in only one merge; testing.check_window_fn finds such cases",
            )
        moved.update(members)
        if arriving in members:
            target = result
        sources = [window for window in members if window in windows]
        if sources and sources != [result]:
            results.append((sources, result))
    return target, results


def _merges(fn: WindowFn, windows: Sequence[Window]) -> Iterator[tuple[Collection[Window], Window]]:
    """Yield the merges of a window function after checking that they are pairs of given windows and a target window.

    Raises:
        InvalidArgument: for a target beyond −∞ or +∞.
        InvalidType: if one of them is not such a pair.
    """
    sources = set(windows)
    merges: Any = fn.merge(windows)
    for merge in merges if isinstance(merges, Iterable) else [merges]:
        members, target = merge if is_pair(merge) else ((), None)
        if not (isinstance(members, Collection) and sources.issuperset(members) and isinstance(target, Window)):
            raise InvalidType(
                f"`merge` of {fn!r} must yield pairs of the windows to merge, which must be among the given "
                f"windows, and the merged window, got {merge!r} for {reprlib.repr(windows)}",
                hint="yield ([first, second], dm.IntervalWindow(first.start, second.end)) from its merge",
            )
        check_within_time(target, fn, "merge into")
        yield members, target
