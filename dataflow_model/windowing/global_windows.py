"""One window for all of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values import GLOBAL_WINDOW, GlobalWindow
from dataflow_model.windowing.base import WindowFn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataflow_model.time import EventTime

_ONLY: Final = (GLOBAL_WINDOW,)


@attrs.frozen(order=False)
class GlobalWindows(WindowFn):
    """Put every element in the single `GlobalWindow`, in which every element is at first.

    The window ends when the input does.

    Source: Beam's `GlobalWindows`.

    Example:
        >>> from dataflow_model.time import event_time
        >>> GlobalWindows().assign(event_time(0), "any")
        (GlobalWindow(),)
    """

    is_global: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> tuple[GlobalWindow]:
        """Return the global window."""
        del event_time, element
        return _ONLY

    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]]:
        """Return the bounds of the global window for each event time."""
        count = len(event_times)
        return None, np.full(count, int(MIN_TIMESTAMP)), np.full(count, int(MAX_TIMESTAMP))
