"""Periods of activity: windows that grow as long as events keep arriving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.time import Duration, EventTime, duration, duration_text
from dataflow_model.values import IntervalWindow, interval
from dataflow_model.windowing._bounds import inside, inside_many, plus, positive
from dataflow_model.windowing.base import WindowFn
from dataflow_model.windowing.intersecting import intersecting_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.values import Window


@calls_explained(dict.fromkeys(("gap_size", "gap_duration", "timeout", "size"), "use `gap`"))
@attrs.frozen(order=False, repr=False)
class Sessions(WindowFn):
    """Group each key's elements into windows that end after a gap of event time without elements.

    An element's proto-window is `[event_time, event_time + gap)`; windows that intersect merge. Windows that only touch
    do not: two events exactly one gap apart are two sessions.

    Args:
        gap: the time without elements after which a session ends; positive.

    Raises:
        InvalidArgument: if `gap` is not positive.

    Source: the Dataflow Model paper, sections 1.2 and 2.2.2; Beam's `Sessions`. Spark's `session_window` also merges
    windows that touch.

    Example:
        >>> from dataflow_model.time import event_time
        >>> sessions = Sessions("1 minute")
        >>> protos = [sessions.assign(event_time(second), None)[0] for second in (0, 59, 119)]
        >>> [merged for _, merged in sessions.merge(protos)]
        [[1970-01-01T00:00:00Z, 1970-01-01T00:01:59Z)]
    """

    is_merging: ClassVar[bool] = True
    merges_intersecting: ClassVar[bool] = True
    gap: Duration = attrs.field(converter=duration)

    def __attrs_post_init__(self) -> None:
        """Check the gap."""
        positive("gap", self.gap)

    @property
    def length(self) -> Duration:
        """The gap: the length of each proto-window."""
        return self.gap

    def assign(self, event_time: EventTime, element: Any) -> tuple[IntervalWindow]:
        """Return the proto-window that the event opens."""
        del element
        time = inside(event_time)
        return (interval(time, time + int(self.gap)),)

    def merge(self, windows: Sequence[Window]) -> Iterator[tuple[Sequence[Window], IntervalWindow]]:
        """Merge each run of windows that intersect into the window that spans it."""
        for run, end in intersecting_runs(windows, _bounds):
            if len(run) > 1:
                yield run, IntervalWindow(run[0].start, EventTime(end))

    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]]:
        """Return a column's proto-windows."""
        times = inside_many(event_times)
        return None, times, plus(times, int(self.gap))

    def __repr__(self) -> str:
        return f"Sessions({duration_text(self.gap)!r})"


def _bounds(window: Window) -> tuple[int, int]:
    return int(window.start), int(window.end)
