"""The events of scripts as one sequence of instants, which micro-batches cut where they like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.sources import ClockStep, SignalStep, WatermarkStep, events_of, watermark_after
from dataflow_model.runners.sharded.stage0 import STATIC_STEP
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.runners.engine.order import At

__all__ = ["ScriptPlace", "script_places"]


@attrs.frozen
class ScriptPlace:
    """One event of the merged scripts.

    Attributes:
        label, row: whose it is, and which of its events.
        at: where it stands.
        watermark, percentiles: the script's from here on, where the step changes them.
        signal: the signal that it gives.
    """

    label: str
    row: int
    at: At
    watermark: int | None = None
    percentiles: tuple[int, ...] = ()
    signal: str | None = None


def script_places(reads: Sequence[Read], percentiles: Sequence[float] = ()) -> list[ScriptPlace]:
    """Return all scripts' events in order: by clock, then in the plan's order; then the end of the input.

    Args:
        reads: the sources.
        percentiles: those of the watermark that the plan's triggers wait for.
    """
    steps: list[tuple[int, int, int, str, Any, tuple[int, tuple[int, ...]]]] = []
    for place, read in enumerate(reads):
        clock = 0
        script = read.source.as_script
        if script is None:
            continue
        events = [step for _, step in events_of(script.steps)]
        for row, (step, watermark) in enumerate(zip(events, watermark_after(events, percentiles), strict=True)):
            clock = int(step.processing_time) if isinstance(step, ClockStep) else clock
            steps.append((clock, place, row, read.label, step, watermark))
    steps.sort(key=lambda entry: entry[:3])
    sequence = [ScriptPlace("", 0, (0, STATIC_STEP)), ScriptPlace("", 0, (0, STATIC_STEP + 1))]
    clock = 0
    for number, (clock, _, row, label, step, (low, high)) in enumerate(steps):
        found = ScriptPlace(label, row, (clock, number))
        if isinstance(step, WatermarkStep):
            found = attrs.evolve(found, watermark=low, percentiles=high)
        elif isinstance(step, SignalStep):
            found = attrs.evolve(found, signal=step.name)
        sequence.append(found)
    sequence.append(ScriptPlace("", 1, (clock, len(steps)), int(MIN_TIMESTAMP)))
    sequence.append(ScriptPlace("", 1, (clock, len(steps) + 1), int(MAX_TIMESTAMP)))
    return sequence
