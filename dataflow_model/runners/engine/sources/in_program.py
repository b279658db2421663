"""Data in the program itself: the elements of `Create` as a bundle, and the steps of scripts as events.

Elements that one step of a script adds pass through the source's functions together, but each is an event of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, events_of, watermark_after
from dataflow_model.plan.logical.ahead import KeptSource
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.collections.kept import kept_outputs
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.order import event_of, of_rows
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.plan.endpoints.scripts import Step
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.lanes.order import Order


@attrs.frozen
class ScriptEvent:
    """An event of one of the scripts that share a clock.

    Attributes:
        label: the label of the script.
        number: the index of the event in the script.
        index: the index of its step; the elements of one step are consecutive events.
        step: the step.
        clock: the clock at the event.
        turn: the turn of the step among those of several scripts.
        watermarks: the script's watermarks after the event.
    """

    label: str
    number: int
    index: int
    step: Step
    clock: int
    turn: int
    watermarks: Watermarks


def script_events(reads: Iterable[Read], percentiles: Sequence[float]) -> list[ScriptEvent]:
    """Return the events of all scripts as one sequence: by clock, at equal times by turn, then in the plan's order.

    Args:
        reads: the sources, in the plan's order; sources that are not scripts have no events.
        percentiles: the percentiles of the watermark that the plan's triggers wait for.
    """
    merged: list[ScriptEvent] = []
    for read in reads:
        script = read.source.as_script
        if script is None:
            continue
        clock = 0
        events = list(events_of(script.steps))
        watermarks = watermark_after([step for _, step in events], percentiles)
        for number, ((index, step), known) in enumerate(zip(events, watermarks, strict=True)):
            clock = int(step.processing_time) if isinstance(step, ClockStep) else clock
            turn = script.turns[index] if script.turns else 0
            merged.append(ScriptEvent(read.label, number, index, step, clock, turn, Watermarks(*known)))
    return sorted(merged, key=lambda event: (event.clock, event.turn))


def script_bundle(label: str, events: Iterable[tuple[int, Step]], clock: int) -> Bundle:
    """Return the elements of some events as one bundle.

    Args:
        label: the label of the script.
        events: its events, with their numbers.
        clock: the processing time at which they arrive.
    """
    arriving = [(number, *pair) for number, step in events if isinstance(step, AddStep) for pair in step.elements]
    values, times = [value for _, value, _ in arriving], [int(time) for *_, time in arriving]
    return Bundle.fresh(values, times, of_rows(label, [number for number, *_ in arriving]), clock)


def event_numbers(staged: StagedPlan, cut: str, orders: Sequence[Order]) -> list[int]:
    """Return the number of the script's event that caused each element arriving at a cut."""
    passed = staged.depth_of(cut) - 1
    return [event_of(order, passed) for order in orders]


def static_bundles(read: Read, clock: int) -> Iterator[tuple[str, Bundle]]:
    """Yield the elements of a source in the program, by the tag of its output.

    The event time of the elements of `Create` is −∞ if they have none. What was kept of another transform is as it was
    there.

    Args:
        read: the source.
        clock: the processing time at which they arrive.
    """
    if isinstance(read.source, KeptSource):
        yield from ((tag, kept.numbered(origin)) for tag, origin, kept in kept_outputs(read))
    else:
        yield MAIN, _created(read, clock)


def _created(read: Read, clock: int) -> Bundle:
    source = read.source.as_elements
    assert source is not None  # noqa: S101 - the caller has checked
    count = len(source.elements)
    times = [int(MIN_TIMESTAMP)] * count if source.event_times is None else list(map(int, source.event_times))
    return Bundle.fresh(list(source.elements), times, of_rows(read.label, range(count)), clock)
