"""Windows of one length that start at a fixed period, and so overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.arguments import calls_explained
from dataflow_model.time import Duration, duration, duration_text
from dataflow_model.values import interval
from dataflow_model.windowing._bounds import inside, inside_many, minus, plus, positive, remainders
from dataflow_model.windowing.base import WindowFn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataflow_model.time import EventTime
    from dataflow_model.values import IntervalWindow
    from dataflow_model.windowing.base import AssignedColumn


@calls_explained(
    {
        **dict.fromkeys(("duration", "length", "width", "window"), "use `size`"),
        **dict.fromkeys(("slide", "step", "hop", "every"), "use `period`"),
        "period": "pass the time from one start to the next, as in dm.SlidingWindows('1 hour', '10 minutes')",
    }
)
@attrs.frozen(order=False, repr=False)
class SlidingWindows(WindowFn):
    """Assign each element to every window of length `size` that contains it; a window starts every `period`.

    An element is in `size / period` windows; if that is not a whole number, some elements are in one more. A period
    longer than the size leaves gaps. An element in a gap is in no window: it is neither emitted nor counted as dropped.

    Args:
        size: the length of each window, positive.
        period: the time from one start to the next, positive.
        offset: shifts the starts from the epoch; taken modulo `period`, may be negative.

    Raises:
        InvalidArgument: if `size` or `period` is not positive.

    Known as hopping windows elsewhere.

    Source: the Dataflow Model paper, section 1.2; Beam's `SlidingWindows`, which lists the latest window first, where
    this lists the earliest first.

    Example:
        >>> from dataflow_model.time import event_time
        >>> for window in SlidingWindows("2 minutes", "1 minute").assign(event_time(150), None):
        ...     print(window)
        [1970-01-01T00:01:00Z, 1970-01-01T00:03:00Z)
        [1970-01-01T00:02:00Z, 1970-01-01T00:04:00Z)
    """

    size: Duration = attrs.field(converter=duration)
    period: Duration = attrs.field(converter=duration)
    offset: Duration = attrs.field(default=Duration(0), converter=duration)

    def __attrs_post_init__(self) -> None:
        """Check the lengths and bring the offset into `[0, period)`."""
        positive("size", self.size)
        positive("period", self.period)
        object.__setattr__(self, "offset", Duration(micros=int(self.offset) % int(self.period)))

    @property
    def length(self) -> Duration:
        """The size."""
        return self.size

    def assign(self, event_time: EventTime, element: Any) -> tuple[IntervalWindow, ...]:
        """Return the windows that contain the event time, the earliest first."""
        del element
        time, size, period = inside(event_time), int(self.size), int(self.period)
        since = (time - int(self.offset)) % period  # since the latest start
        count = max(0, -((since - size) // period))
        latest = time - since
        starts = range(latest - (count - 1) * period, latest + 1, period)
        return tuple([interval(start, start + size) for start in starts])

    def assign_many(self, event_times: NDArray[np.int64]) -> AssignedColumn:
        """Assign a column of event times; rows in order, each one's windows the earliest first."""
        times, size, period = inside_many(event_times), int(self.size), int(self.period)
        since = self._since(times)
        back = np.arange(-(-size // period) - 1, -1, -1, dtype=np.int64) * period
        contains = back[None, :] < size - since[:, None]
        rows, columns = np.nonzero(contains)
        past = since[rows] + back[columns]
        row = None if contains.shape[1] == 1 and contains.all() else rows.astype(np.int64, copy=False)
        return row, minus(times[rows], past), plus(times[rows], size - past)

    def count_many(self, event_times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many windows `assign_many` assigns to each event time.

        Example:
            >>> SlidingWindows("2 minutes", "1 minute").count_many(np.array([0, 90_000_000]))
            array([2, 2])
        """
        since = self._since(inside_many(event_times))
        return np.maximum(-((since - int(self.size)) // int(self.period)), 0)

    def _since(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time since the latest start of a window."""
        period = int(self.period)
        return remainders(remainders(times, period) - int(self.offset), period)  # in this order no step leaves int64

    def __repr__(self) -> str:
        offset = f", offset={duration_text(self.offset)!r}" if self.offset else ""
        return f"SlidingWindows({duration_text(self.size)!r}, {duration_text(self.period)!r}{offset})"
