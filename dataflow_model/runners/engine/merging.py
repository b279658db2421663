"""Merging: windows of one key are merged, and their cells with them."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.runners.engine.cells import Cell
from dataflow_model.runners.engine.cells_in_order import CellsInOrder
from dataflow_model.values import Window, encode_window, is_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.runners.engine.cells import KeyState
    from dataflow_model.runners.engine.grouping import GroupingEngine
    from dataflow_model.windowing import WindowFn

__all__ = ["merge_windows", "merges_of"]


def merge_windows(engine: GroupingEngine, state: KeyState, arriving: Window) -> tuple[Window, Collection[Window]]:
    """Merge a key's windows with that of an arriving element.

    The arriving window is not a source, since it has no state. A window that gets other bounds, by growing or merging,
    is a new window with pane index 0. A window function that merges only intersecting windows gets only the windows
    that intersect the arriving one, so that the cost of an element does not depend on the number of open windows.

    Returns:
        the element's window after merging, and the windows whose cells were removed or created.

    Raises:
        InvalidArgument: if the window function merges one window into two targets.
    """
    fn = engine.strategy.window_fn
    others = _in_order(state).meeting(arriving) if fn.merges_intersecting else state.cells
    target, results = merges_of(fn, others, arriving)
    taken = {window: state.cells.pop(window) for sources, _ in results for window in sources}
    for sources, result in results:
        bystander = state.cells.pop(result, None)  # an existing window with the new bounds is merged too
        if bystander is not None:
            taken[result] = bystander
            sources.append(result)
        state.cells[result] = _merged_cell(engine, result, [(window, taken[window]) for window in sources])
    return target, {*taken, *(result for _, result in results)}


def merges_of(
    fn: WindowFn, windows: Collection[Window], arriving: Window
) -> tuple[Window, list[tuple[list[Window], Window]]]:
    """Ask a window function how a key's windows merge with an arriving one.

    Args:
        fn: the window function.
        windows: the windows that have a cell and may merge.
        arriving: the window of an element.

    Returns:
        the element's window after merging; and the merges that change cells, each as those of `windows` that it
        merges, and the window that they become.

    Raises:
        InvalidArgument: if it merges one window into two targets.
        InvalidType: if what it returns are no merges.
    """
    target = arriving
    moved: set[Window] = set()
    results: list[tuple[list[Window], Window]] = []
    for members, result in _merges(fn, sorted({*windows, arriving}, key=_bounds)):
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
        InvalidType: if they are not.
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
        yield members, target


def _in_order(state: KeyState) -> CellsInOrder:
    """Return a key's cells in order of time; they are sorted when the key is first used."""
    if not isinstance(state.cells, CellsInOrder):
        state.cells = CellsInOrder(state.cells)
    return state.cells


def _merged_cell(engine: GroupingEngine, result: Window, sources: Sequence[tuple[Window, Cell]]) -> Cell:
    engine.machine.clocks(watermark=engine.watermark, processing_time=engine.clock, percentiles=engine.percentiles)
    tree = engine.machine.merge(result, [(window, cell.tree) for window, cell in sources])
    cells = [cell for _, cell in sources]
    earliest = [cell.earliest for cell in cells if cell.earliest is not None]
    latest = [cell.latest for cell in cells if cell.latest is not None]
    # If the end moves behind the watermark, elements that were on time for the window no longer are.
    overtaken = (
        int(result.end) <= engine.watermark < max((int(window.end) for window, _ in sources), default=int(result.end))
    )
    return Cell(
        engine.combine.merge_accumulators([cell.accumulator for cell in cells]),
        tree,
        pending=sum(cell.pending for cell in cells),
        pending_on_time=not overtaken and any(cell.pending_on_time for cell in cells),
        had_on_time=any(cell.had_on_time for cell in cells),
        earliest=min(earliest, default=None),
        latest=max(latest, default=None),
        held=sum(cell.held for cell in cells),
        standing=tuple(standing for cell in cells for standing in cell.standing),
    )


def _bounds(window: Window) -> tuple[int, int, bytes]:
    return int(window.start), int(window.end), encode_window(window)
