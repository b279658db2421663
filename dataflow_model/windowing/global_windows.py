"""One window for all of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.values import GLOBAL_WINDOW, GlobalWindow
from dataflow_model.windowing.base import WindowFn

if TYPE_CHECKING:
    from dataflow_model.time import EventTime

__all__ = ["GlobalWindows"]

_ONLY: Final = (GLOBAL_WINDOW,)


@attrs.frozen(order=False)
class GlobalWindows(WindowFn):
    """Put every element in the one `GlobalWindow`, where each fresh element is anyway.

    The window ends when the input does. `assign_many` is not for it: its window is no interval.

    Source: Beam's `GlobalWindows`.

    Example:
        >>> from dataflow_model.time import event_time
        >>> GlobalWindows().assign(event_time(0), "any")
        (GlobalWindow(),)
    """

    def assign(self, event_time: EventTime, element: Any) -> tuple[GlobalWindow]:
        """Return the global window."""
        del event_time, element
        return _ONLY
