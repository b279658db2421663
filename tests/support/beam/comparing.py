"""Where Beam's panes are not ours, and by which of the departures in `docs/departures.md`."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing import run_script
from tests.support.beam.beam_side import Pane, ours, run_on_beam

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

TIMING = "timing by the output watermark"
TIMERS = "a firing for each timer"
LAST = "is_last at expiry"
TURN = "a turn without elements"
CLOSED = "merging with a finished window"
AGAIN = "on time again after merging"


class Disagreement(AssertionError):
    """Panes that no known departure explains."""


def departures(script: TestStream, strategy: WindowingStrategy) -> set[str]:
    """Run a case on both sides, and return the departures that it shows.

    Raises:
        Disagreement: with both sides.
    """
    # Beam has no panes at expiry: what no trigger has let out stays inside.
    mine = [pane for pane in run_script(script, strategy, dm.Sum()) if pane.info.trigger is not None]
    shown: set[str] = set()
    left, right = _by_window(ours(mine)), _by_window(run_on_beam(script, strategy))
    for cell in [*left, *(cell for cell in right if cell not in left)]:
        if not right[cell] and strategy.merges and _joins_a_finished_one(cell, left):
            shown.add(CLOSED)
        else:
            again = strategy.merges and any(pane.timing == "ON_TIME" for pane in _of_merged(cell, left))
            shown |= _compare(cell, left[cell], right[cell], again=again)
    return shown


def _joins_a_finished_one(cell: Any, panes: dict[Any, list[Pane]]) -> bool:
    """Tell whether a window lies over another of its key whose trigger has finished."""
    return any(pane.is_last for pane in _of_merged(cell, panes))


def _of_merged(cell: Any, panes: dict[Any, list[Pane]]) -> Iterator[Pane]:
    """Return the panes of the other windows of a key that lie within a window."""
    key, (start, end) = cell
    for (of, bounds), session in panes.items():
        if of == key and bounds != (start, end) and start <= bounds[0] and bounds[1] <= end:
            yield from session


def _compare(cell: Any, left: list[Pane], right: list[Pane], *, again: bool) -> set[str]:
    """Walk along both; what is empty may be on one side only, and moves the indices behind it.

    Args:
        cell: the key and the window.
        left: our panes.
        right: Beam's panes.
        again: whether a window that was merged into this one has had its pane on time.
    """
    shown: set[str] = set()
    ahead, before, timed = 0, 0, True
    expected, actual = deque(left), deque(right)
    while expected or actual:
        empty = {before, 0}
        mine, theirs = (side[0] if side else None for side in (expected, actual))
        if mine is not None and theirs is not None and mine.value == theirs.value:
            _ = expected.popleft(), actual.popleft()
            before = mine.value
            same_time = (mine.timing, mine.on_time_index + ahead) == (theirs.timing, theirs.on_time_index)
            if theirs.index != mine.index + ahead or (theirs.is_last and not mine.is_last):
                raise Disagreement(_both(cell, left, right))
            if again and (mine.timing, theirs.timing) == ("LATE", "ON_TIME"):
                shown.add(AGAIN)
            elif timed and not same_time:
                if theirs.timing != "EARLY":
                    raise Disagreement(_both(cell, left, right))
                shown.add(TIMING)
                timed = False  # what follows counts on from there
            if mine.is_last != theirs.is_last:
                shown.add(LAST)
        elif theirs is not None and theirs.value in empty:
            actual.popleft()
            shown.add(TIMERS)
            ahead += 1
        elif mine is not None and mine.value in empty and mine.timing == "ON_TIME":
            expected.popleft()
            shown.add(TURN)
            ahead -= 1
        else:
            raise Disagreement(_both(cell, left, right))
    return shown


def _by_window(panes: Iterable[Pane]) -> defaultdict[Any, list[Pane]]:
    panes_by_window: defaultdict[Any, list[Pane]] = defaultdict(list)
    for pane in panes:
        panes_by_window[pane.key, pane.window].append(pane)
    return panes_by_window


def _both(cell: Any, left: list[Pane], right: list[Pane]) -> str:
    def row(pane: Pane) -> str:
        return f"{pane.value} {pane.timing} index {pane.index}, {pane.on_time_index}{' last' * pane.is_last}"

    rows = [*(f"  ours  {row(pane)}" for pane in left), *(f"  Beam  {row(pane)}" for pane in right)]
    return "\n".join([f"{cell}:", *rows])
