"""Input and windowing of the comparisons with early and late panes, in process and on Spark."""

from __future__ import annotations

from typing import Any, Final

import dataflow_model as dm
from benchmarks.data import DELAY, Events

__all__ = ["WINDOWS", "arriving", "arriving_rows", "windowing"]

WINDOWS: Final = dm.FixedWindows("10 seconds")
_BEHIND: Final = "2 seconds"


def arriving_rows(events: Events) -> Any:
    """Return the source of rows that are replayed as they arrived, the watermark two seconds behind."""
    return dm.io.ReadParquet(
        events.events,
        event_time="event_time",
        processing_time="arrived_at",
        watermark=dm.BoundedOutOfOrderness(_BEHIND),
    )


def arriving(pipeline: Any, events: Events) -> Any:
    """Return these rows as pairs of key and value."""
    return pipeline | arriving_rows(events) | dm.WithKeys("key", value="value")


def windowing(windows: dm.WindowFn = WINDOWS, early: dm.Trigger | None = None) -> Any:
    """Return windowing with early panes, by default one for each ten elements, and a pane for each late element."""
    trigger = dm.AfterWatermark(early=early or dm.AfterCount(10), late=dm.AfterCount(1))
    return dm.Window.into(windows).trigger(trigger).allowed_lateness(DELAY)
