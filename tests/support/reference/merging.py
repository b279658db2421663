"""Merging: windows of one key are merged, and their cells with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.grouping.merging import merges_of
from tests.support.reference.cells_in_order import CellsInOrder
from tests.support.reference.key_states import Cell

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dataflow_model.values import Window
    from tests.support.reference.grouping import GroupingEngine
    from tests.support.reference.key_states import KeyState


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
    # If the end moves to or behind the watermark, elements that were on time for the window no longer are.
    last = max((int(window.end) for window, _ in sources), default=int(result.end))
    overtaken = int(result.end) <= engine.watermark and int(result.end) < last
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
