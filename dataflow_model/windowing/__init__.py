"""Where in event time: the functions that assign elements to windows and merge windows.

Begin with `base`, then `fixed` and `sessions`.
"""

from __future__ import annotations

from dataflow_model.windowing.base import WindowFn
from dataflow_model.windowing.calendar import CalendarUnit, CalendarWindows
from dataflow_model.windowing.fixed import FixedWindows
from dataflow_model.windowing.global_windows import GlobalWindows
from dataflow_model.windowing.sessions import Sessions
from dataflow_model.windowing.sliding import SlidingWindows

__all__ = [
    "CalendarUnit",
    "CalendarWindows",
    "FixedWindows",
    "GlobalWindows",
    "Sessions",
    "SlidingWindows",
    "WindowFn",
]
