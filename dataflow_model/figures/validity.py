"""A user-defined window function: each element is valid until the event time of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from dataflow_model.time import MAX_TIMESTAMP, EventTime
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.values import Window


@attrs.frozen(order=False)
class ValidityWindows(WindowFn):
    """Assign each element to a window that ends at the event time of the key's next element; the last one never ends.

    An element's proto-window is `[event_time, +∞)`. Merging makes no window larger: each window ends where the next one
    starts, and only windows with the same start are merged.

    Source: the temporal validity windows of "Streaming Systems".

    Example:
        >>> from dataflow_model.time import event_time
        >>> fn = ValidityWindows()
        >>> [fn.assign(event_time(second), None)[0] for second in (0, 60)]
        [[1970-01-01T00:00:00Z, +inf), [1970-01-01T00:01:00Z, +inf)]
        >>> [merged for _, merged in fn.merge([fn.assign(event_time(second), None)[0] for second in (0, 60)])]
        [[1970-01-01T00:00:00Z, 1970-01-01T00:01:00Z)]
    """

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> tuple[IntervalWindow]:
        """Return the window from the event time on, which no other element has ended yet."""
        del element
        return (IntervalWindow(event_time, MAX_TIMESTAMP),)

    def merge(self, windows: Sequence[Window]) -> Iterator[tuple[Sequence[Window], Window]]:
        """End each window where the next one starts."""
        starts = sorted({window.start for window in windows})
        for start, following in zip(starts, [*starts[1:], MAX_TIMESTAMP], strict=True):
            members = [window for window in windows if window.start == start]
            whole = IntervalWindow(start, min(following, *(window.end for window in members)))
            if members != [whole]:
                yield members, whole
