"""Scripts in a run: elements of one bundle go through the source's functions together, and are events of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.sources import AddStep
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.order import event_of, of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.plan.sources import Step
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.order import Order

__all__ = ["event_numbers", "script_bundle"]


def script_bundle(label: str, events: Iterable[tuple[int, Step]], clock: int) -> Bundle:
    """Return the elements of some events as one bundle.

    Args:
        label: the script's.
        events: its events, with their numbers.
        clock: the processing time at which they arrive.
    """
    arriving = [(number, *pair) for number, step in events if isinstance(step, AddStep) for pair in step.elements]
    values, times = [value for _, value, _ in arriving], [int(time) for *_, time in arriving]
    return Bundle.fresh(values, times, of_rows(label, [number for number, *_ in arriving]), clock)


def event_numbers(staged: StagedPlan, cut: str, orders: Sequence[Order]) -> list[int]:
    """Return which of a script's events has caused each element that arrives at a cut."""
    passed = staged.depth_of(cut) - 1
    return [event_of(order, passed) for order in orders]
