"""Elements in each of their windows, in columns, with the retracted ones that each replaces."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from dataflow_model.runners.engine.core.operations import GLOBAL_KIND, INTERVAL_KIND
from dataflow_model.runners.engine.lanes.bundle import firings, retracted
from dataflow_model.runners.engine.lanes.lanes import Intervals, Repeated, array_of, windows_in_columns
from dataflow_model.runners.engine.lanes.matching import matched
from dataflow_model.runners.engine.lanes.order_lanes import dense_ranks
from dataflow_model.runners.engine.lanes.overlapping import Overlapping
from dataflow_model.runners.engine.protocol.sharding import encoded_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.values import Window


@attrs.frozen(eq=False)
class Placements:
    """Each element in each of its windows, a row's windows side by side.

    Attributes:
        row: the row of the element.
        start, end, kind: the window.
        time: the event time.
        replaces: the number of retracted elements that it replaces; −1 for a retraction that nothing replaces.
        replaced: the rows of the retracted elements that are replaced, in the order of their replacements.
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int64]
    time: NDArray[np.int64]
    replaces: NDArray[np.int64]
    replaced: NDArray[np.int64]

    def rows(self) -> NDArray[np.int64]:
        """Return the row of every element that is added or subtracted, once for each window."""
        return np.concatenate([self.row, self.replaced]) if len(self.replaced) else self.row


NOWHERE: Final = Placements(*[np.empty(0, np.int64)] * 7)
"""No elements."""


def placed(label: str, bundle: Bundle, instants: NDArray[np.int64], kind_of: Callable[[Window], int]) -> Placements:
    """Return the elements of a bundle in each of their windows.

    Args:
        label: the label of the grouping.
        bundle: the elements.
        instants: the instant of each element; a retraction and its replacement have the same one.
        kind_of: returns the number of a window's kind.
    """
    row, start, end, kind = _in_windows(bundle.windows, kind_of)
    time = array_of(bundle.times)[row]
    none = np.empty(0, np.int64)
    if not bundle.updates:
        return Placements(row, start, end, kind, time, np.zeros(len(row), np.int64), none)
    emissions, is_retraction = firings(bundle.updates, len(bundle))[row], retracted(bundle.updates, len(bundle))[row]
    updated = np.flatnonzero(emissions >= 0)
    _, key = encoded_keys(label, bundle.values)
    columns = (kind, end, start, instants[row], key[row], emissions)
    counts, indices = matched(dense_ranks([column[updated] for column in columns]), is_retraction[updated])
    replaces, exchanged = np.zeros(len(row), np.int64), updated[indices]
    replaces[updated] = counts
    is_kept = np.ones(len(row), np.bool_)
    is_kept[exchanged] = False
    return Placements(
        row[is_kept], start[is_kept], end[is_kept], kind[is_kept], time[is_kept], replaces[is_kept], row[exchanged]
    )


def watermarks_behind(
    bundle: Bundle, firsts: Sequence[int], kind_of: Callable[[Window], int] = lambda _: INTERVAL_KIND
) -> NDArray[np.int64]:
    """Return the watermark of a bounded job at each element, which passes no window that a later element is in.

    It follows the event times of a key's elements. Windows usually contain their elements, and then it is at the
    element; a window that has ended before its element keeps it back, as nothing is late in a bounded job.

    Args:
        bundle: the elements; those of a key are consecutive, and in order of event time.
        firsts: the row of each key's first element.
        kind_of: returns the number of a window's kind.
    """
    times = array_of(bundle.times)
    row, _, end, _ = _in_windows(bundle.windows, kind_of)
    has_ended = end <= times[row]
    if not has_ended.any():
        return times
    reached = times.copy()
    np.minimum.at(reached, row[has_ended], end[has_ended] - 2)  # the instant before the window's last one
    for first, until in itertools.pairwise([*firsts, len(times)]):
        reached[first:until] = np.minimum.accumulate(reached[first:until][::-1])[::-1]
    return reached


def _in_windows(
    windows: Sequence[tuple[Window, ...]], kind_of: Callable[[Window], int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each element in each of its windows, and the window's start, end and kind."""
    windows = windows_in_columns(windows)
    if isinstance(windows, Intervals):
        kind = GLOBAL_KIND if windows.is_global else INTERVAL_KIND
        return np.arange(len(windows)), windows.starts, windows.ends, np.full(len(windows), kind, np.int64)
    if isinstance(windows, Overlapping):
        indices, starts, ends = windows.bounds()
        return indices, starts, ends, np.full(len(indices), INTERVAL_KIND, np.int64)
    if isinstance(windows, Repeated):
        several: tuple[Window, ...] = windows.value
        bounds_of_each = [(int(window.start), int(window.end), kind_of(window)) for window in several]
        start, end, kind = np.tile(np.array(bounds_of_each, np.int64).reshape(-1, 3), (len(windows), 1)).T
        return np.repeat(np.arange(len(windows)), len(several)), start, end, kind
    bounds: dict[Window, tuple[int, int, int]] = {}
    rows: list[int] = []
    in_windows: list[tuple[int, int, int]] = []
    for row, several in enumerate(windows):
        for window in several:
            at = bounds.get(window)
            if at is None:
                at = bounds[window] = int(window.start), int(window.end), kind_of(window)
            rows.append(row)
            in_windows.append(at)
    columns = np.array(in_windows, np.int64).reshape(-1, 3)
    return np.array(rows, np.int64), columns[:, 0], columns[:, 1], columns[:, 2]
