"""The events of scripts as one sequence of instants, which micro-batches can cut anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.scripts import SignalStep, WatermarkStep
from dataflow_model.runners.engine.sources.in_program import script_events
from dataflow_model.runners.sharded.feed.slices import STATIC_STEP
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.engine.lanes.order import At


@attrs.frozen
class ScriptPlace:
    """One event of the merged scripts.

    Attributes:
        label, row: the script, and the index of the event in it.
        at: the instant of the event.
        watermark, percentiles: the script's new watermark and percentiles, if the step changes them.
        signal: the signal that it sends.
    """

    label: str
    row: int
    at: At
    watermark: int | None = None
    percentiles: tuple[int, ...] = ()
    signal: str | None = None


def script_places(reads: Sequence[Read], percentiles: Sequence[float]) -> list[ScriptPlace]:
    """Return all scripts' events in order: by clock, then in the plan's order; then the end of the input.

    Args:
        reads: the sources.
        percentiles: the percentiles of the watermark that the plan's triggers wait for.
    """
    events = script_events(reads, percentiles)
    sequence = [ScriptPlace("", 0, (0, STATIC_STEP)), ScriptPlace("", 0, (0, STATIC_STEP + 1))]
    clock = 0
    for number, event in enumerate(events):
        clock = event.clock
        place = ScriptPlace(event.label, event.number, (clock, number))
        if isinstance(event.step, WatermarkStep):
            low, high = event.watermarks.low, event.watermarks.percentiles
            place = attrs.evolve(place, watermark=low, percentiles=high)
        elif isinstance(event.step, SignalStep):
            place = attrs.evolve(place, signal=event.step.name)
        sequence.append(place)
    sequence.append(ScriptPlace("", 1, (clock, len(events)), int(MIN_TIMESTAMP)))
    sequence.append(ScriptPlace("", 1, (clock, len(events) + 1), int(MAX_TIMESTAMP)))
    return sequence
