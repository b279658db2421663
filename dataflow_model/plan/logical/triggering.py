"""What a plan's triggers wait for besides the low watermark and the clock: percentiles and signals."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import PlanError, PlanWarning, explain
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Read, Reshuffle
from dataflow_model.plan.logical.refinements import groupings_before
from dataflow_model.triggers import TriggerMachine

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import SideInput

WATERMARK_PERCENTILE: Final = "watermark_percentile"
DISTINGUISHED_PERCENTILES: Final = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
"""The percentiles below 100 that `watermark_percentile` distinguishes."""


def awaited_percentiles(plan: Plan) -> tuple[float, ...]:
    """Return the percentiles of the watermark below 100 that a trigger or a function uses, lowest first.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> awaited_percentiles(p.plan())
        ()
    """
    awaited = {percentile for machine in _machines(plan) for percentile in machine.percentiles}
    awaited.update(
        percentile for node in plan.nodes if isinstance(node, ParDo) for percentile in node.fn.watermark_percentiles
    )
    return tuple(sorted(awaited.union(DISTINGUISHED_PERCENTILES if asks_for_percentile(plan) else ())))


def asks_for_percentile(plan: Plan) -> bool:
    """Return whether any function requests `watermark_percentile`."""
    return any(isinstance(node, ParDo) and WATERMARK_PERCENTILE in node.metadata for node in plan.nodes)


def check_percentiles(plan: Plan, changing: Collection[SideInput]) -> None:
    """Raise `PlanError` for a function that requests `watermark_percentile` where it is not known.

    Args:
        plan: the plan.
        changing: the side inputs that change while the plan runs.
    """
    for node in plan.nodes:
        if isinstance(node, ParDo) and WATERMARK_PERCENTILE in node.metadata:
            if node.is_stateful:
                raise PlanError(
                    f"{node.label!r} asks for {WATERMARK_PERCENTILE!r}, which functions with state or timers do not "
                    "get",
                    hint="ask for it in a dm.Map between the last grouping or dm.Reshuffle() and this function, and "
                    "pass it on in the value",
                )
            unknown = _unknown_before(plan, node, changing)
            if unknown is not None:
                raise PlanError(
                    f"{node.label!r} asks for {WATERMARK_PERCENTILE!r}, but runs after {unknown!r}, where the "
                    "watermark is not known yet",
                    hint="put a grouping or dm.Reshuffle() between the two",
                )


def warn_about_sorting(plan: Plan) -> None:
    """Warn where a function that requires sorted input makes the panes of a percentile wait for the low watermark.

    Example:
        >>> import dataflow_model as dm
        >>> class Sorted(dm.DoFn):
        ...     requires_time_sorted_input = True
        ...
        ...     def process(self, pair):
        ...         yield pair
        >>> p = dm.Pipeline()
        >>> most = dm.Window.into(dm.FixedWindows(60)).trigger(dm.AfterWatermark(percentile=90), may_lose_data=True)
        >>> _ = p | dm.Create([("a", 1)]) | most | dm.Sum.per_key() | dm.ParDo(Sorted())
        >>> with warnings.catch_warnings(record=True) as shown:
        ...     warnings.simplefilter("always")
        ...     warn_about_sorting(p.plan())
        >>> print(shown[0].message)
        'ParDo' requires sorted input, which waits for the low watermark, so it gains nothing from the trigger of ...
        Hint: leave requires_time_sorted_input out, and sort what you need in the state; or use a trigger that ...
    """
    for node in plan.nodes:
        if not isinstance(node, ParDo) or not node.declaration.time_sorted:
            continue
        for before in groupings_before(plan, node.input, lambda _: True):
            percentiles = TriggerMachine(before.strategy.trigger).percentiles
            if percentiles:
                problem = explain(
                    f"{node.label!r} requires sorted input, which waits for the low watermark, so it gains nothing "
                    f"from the trigger of {before.label!r}, {before.strategy.trigger!r}, which fires at percentile "
                    f"{percentiles[0]:g} of the watermark",
                    hint="leave requires_time_sorted_input out, and sort what you need in the state; or use a trigger "
                    "that waits for the low watermark too, such as dm.AfterWatermark()",
                )
                warnings.warn(problem, PlanWarning, stacklevel=3)


def _unknown_before(plan: Plan, node: ParDo, changing: Collection[SideInput]) -> str | None:
    """Return the source or function whose elements reach this one without a percentile, if there is one."""
    refs = [node.input]
    while refs:
        before = plan[refs.pop().label]
        match before:
            case GroupByKeyAndWindow() | Reshuffle() | Deduplicate():
                continue
            case Read():
                return before.label
            case ParDo() if before.is_stateful or before.has_side_among(changing):
                return before.label
            case ParDo():
                refs.append(before.input)
            case _:
                refs.extend(before.inputs)
    return None


def awaited_signals(plan: Plan) -> frozenset[str]:
    """Return the names of the signals that some trigger waits for."""
    return frozenset(name for machine in _machines(plan) for name in machine.signals)


def _machines(plan: Plan) -> list[TriggerMachine]:
    return [TriggerMachine(node.strategy.trigger) for node in plan.nodes if isinstance(node, GroupByKeyAndWindow)]
