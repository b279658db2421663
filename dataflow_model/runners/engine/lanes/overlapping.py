"""Windows that overlap, as columns: each element is in many windows, which follow from its event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.lanes.bundle import firings
from dataflow_model.runners.engine.lanes.lanes import Intervals, Lane, Repeated
from dataflow_model.values import interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.values import Window
    from dataflow_model.windowing import SlidingWindows

PAIRS: Final = 2**18
"""The number of pairs of element and window that a grouping processes at a time, unless one element is in more."""


class Overlapping(Lane["tuple[Window, ...]"]):
    """The sliding windows of each element, which are made only where they are read.

    Attributes:
        window_fn: the function that assigns them.
        times: the event times, in microseconds.

    Example:
        >>> from dataflow_model.windowing import SlidingWindows
        >>> windows = Overlapping(SlidingWindows(20, 10), np.array([5_000_000, 15_000_000]))
        >>> windows.counts(), [len(several) for several in windows]
        (array([2, 2]), [2, 2])
    """

    def __init__(self, window_fn: SlidingWindows, times: NDArray[np.int64]) -> None:
        self.window_fn, self.times = window_fn, times

    def __len__(self) -> int:
        return len(self.times)

    def counts(self) -> NDArray[np.int64]:
        """Return the number of windows of each element."""
        return self.window_fn.count_many(self.times)

    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return each element's row once for each of its windows, and the windows' starts and ends."""
        row, starts, ends = self.window_fn.assign_many(self.times)
        return np.arange(len(self)) if row is None else row, starts, ends

    def items(self) -> Iterator[tuple[Window, ...]]:
        """Return an iterator over the windows; equal ones are the same object."""
        made: dict[tuple[int, int], Window] = {}
        for row in range(len(self)):
            _, starts, ends = self.sliced(row, row + 1).bounds()
            bounds = list(zip(starts.tolist(), ends.tolist(), strict=True))
            yield tuple([made.get(ends) or made.setdefault(ends, interval(*ends)) for ends in bounds])

    def item(self, row: int) -> tuple[Window, ...]:
        """Return the windows of an element."""
        return next(self.sliced(row, row + 1).items())

    def sliced(self, start: int, stop: int) -> Overlapping:
        """Return the windows of the elements `[start, stop)`."""
        return Overlapping(self.window_fn, self.times[start:stop])

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Overlapping:
        """Return the windows of the elements at these rows."""
        return Overlapping(self.window_fn, self.times[np.asarray(rows, np.int64)])

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> Overlapping | None:
        """Return the windows of all; `None` if several functions have assigned them."""
        window_fn = lanes[0].window_fn
        if any(lane.window_fn != window_fn for lane in lanes):
            return None
        return cls(window_fn, np.concatenate([lane.times for lane in lanes]))


def parts_of(bundle: Bundle) -> list[int]:
    """Return where the parts of a bundle begin that hold about `PAIRS` pairs of element and window, and its end.

    A retraction is in one part with its replacement.
    """
    windows, count = bundle.windows, len(bundle)
    if isinstance(windows, Intervals | Repeated) or not count:
        return [0, count]
    sizes = windows.counts() if isinstance(windows, Overlapping) else np.fromiter(map(len, windows), np.int64, count)
    if int(sizes.sum()) <= PAIRS:
        return [0, count]
    ends = np.cumsum(sizes)
    begins = np.flatnonzero(np.diff((ends - sizes) // PAIRS)) + 1
    if bundle.updates:
        numbers = firings(bundle.updates, count)
        last = np.full(int(numbers.max()) + 2, -1)
        last[numbers] = np.arange(count)  # the last row with each number
        open_until = np.maximum.accumulate(np.where(numbers < 0, -1, last[numbers]))
        begins = begins[open_until[begins - 1] < begins]
    return [0, *begins.tolist(), count]
