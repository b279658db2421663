"""Windows of elements that all have the end of time as their event time, about which `run()` warns."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import PlanWarning, explain
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    ParDo,
    Reshuffle,
    ToPairs,
)
from dataflow_model.plan.logical.refinements import groupings_before
from dataflow_model.plan.logical.strategy import TimestampCombiner
from dataflow_model.windowing import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node

_BY_EVENT_TIME: Final = CalendarWindows | FixedWindows | Sessions | SlidingWindows


def warn_about_end_times(plan: Plan) -> None:
    """Warn where windows of event time are assigned to the panes of a grouping in the global window.

    These panes have the end of that window as their event time, so all of them are in the last window before +∞. There
    is no warning if a transform in between may move event times back, for which it needs a `late_data_horizon`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create(["a", "a"]) | dm.Distinct() | dm.Window.into(dm.FixedWindows("1 day"))
        >>> with warnings.catch_warnings(record=True) as shown:
        ...     warnings.simplefilter("always")
        ...     warn_about_end_times(p.plan())
        >>> print(shown[0].message)
        'Window.into' assigns windows by event time to the panes of 'Distinct/Count.PerElement/CombinePerKey', but ...
        Hint: put Window.into before 'Distinct/Count.PerElement/CombinePerKey', or ...
    """
    for node in plan.nodes:
        if not isinstance(node, AssignWindows) or not node.assigns:
            continue
        if not isinstance(node.strategy.window_fn, _BY_EVENT_TIME):
            continue  # windows of a class of the user's may depend on the elements
        for before in groupings_before(plan, node.input, _keeps_end_times):
            at_end = before.strategy.timestamp_combiner is TimestampCombiner.END_OF_WINDOW
            if at_end and isinstance(before.strategy.window_fn, GlobalWindows):
                problem = explain(
                    f"{node.label!r} assigns windows by event time to the panes of {before.label!r}, but these all "
                    "have the end of time as their event time, since that grouping is in the global window",
                    hint=f"put Window.into before {before.label!r}, or Window.into(dm.GlobalWindows())"
                    ".timestamp_combiner('earliest'), which keeps event times",
                )
                warnings.warn(problem, PlanWarning, stacklevel=3)


def _keeps_end_times(node: Node) -> bool:
    if isinstance(node, ParDo | AssignTimestamps):
        return node.late_data_horizon is None  # without it, an event time cannot be moved back
    return isinstance(node, AssignWindows | Deduplicate | Flatten | Reshuffle | ToPairs)
