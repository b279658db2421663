"""Which window of a side input an element sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import PlanError
from dataflow_model.plan.logical.nodes import ParDo
from dataflow_model.windowing.instants import looks_at_elements

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import SideInput
    from dataflow_model.plan.logical.strategy import WindowingStrategy


def share_windows(main: WindowingStrategy, side: WindowingStrategy) -> bool:
    """Return whether an element sees the window of a side input that equals its own.

    So it is where both have the same window function, unless its windows merge: then those of the side input have
    merged with windows that the main input does not have.

    Example:
        >>> import dataflow_model as dm
        >>> hourly, sessions = (dm.WindowingStrategy(fn) for fn in (dm.FixedWindows("1 hour"), dm.Sessions("1 hour")))
        >>> share_windows(hourly, hourly), share_windows(hourly, sessions), share_windows(sessions, sessions)
        (True, False, False)
    """
    return not side.window_fn.is_merging and bool(main.window_fn == side.window_fn)


def check_side_windows(plan: Plan, changing: Collection[SideInput]) -> None:
    """Raise `PlanError` for a changing side input whose windows no element of the main input can wait for.

    Its window function looks at the elements, so that an instant alone has no window, and the main input has another
    one.

    Args:
        plan: the plan.
        changing: the side inputs that change while the plan runs.
    """
    for node in plan.nodes:
        if not isinstance(node, ParDo):
            continue
        for side in node.side_inputs:
            window_fn = plan.strategy(side.ref).window_fn
            if side not in changing or side.shares_windows or window_fn.is_merging:
                continue
            if looks_at_elements(window_fn):
                raise PlanError(
                    f"{node.label!r} cannot wait for a window of its side input {side.ref.label!r}, which changes: "
                    f"{window_fn!r} looks at the elements, so it is unknown which windows will contain the end of a "
                    f"window of {node.input.label!r} by {plan.strategy(node.input).window_fn!r}",
                    hint="apply the same dm.Window.into(…) to both, which lets an element see its own window; or apply "
                    "windows by event time alone to the side input, such as dm.FixedWindows('1 hour')",
                )
