"""The events of scripts as one sequence of instants, which a run can cut anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.endpoints.scripts import SignalStep, WatermarkStep
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane, Watermarks
from dataflow_model.runners.engine.sources.estimation import SourceProgress
from dataflow_model.runners.engine.sources.timeline import Timeline
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.sources.in_program import ScriptEvent
    from dataflow_model.runners.engine.sources.timeline import Awaited, ReplayProgress

STATIC_STEP: Final = -2
"""The step of static elements in a script's timeline: before its first step."""
BEFORE_EVENTS: Final = 2
"""The number of instants before the first event: for the elements of the program, and for their end."""
AFTER_EVENTS: Final = 2
"""The number of instants after the last event: the end of the last tick, and the end of the input."""


@attrs.frozen
class ScriptInstant:
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


def script_instants(events: Sequence[ScriptEvent]) -> list[ScriptInstant]:
    """Return the sequence of all scripts' events, with the instants before and after them."""
    sequence = [ScriptInstant("", 0, (0, STATIC_STEP)), ScriptInstant("", 0, (0, STATIC_STEP + 1))]
    clock = 0
    for number, event in enumerate(events):
        clock = event.clock
        instant = ScriptInstant(event.label, event.number, (clock, number))
        if isinstance(event.step, WatermarkStep):
            low, high = event.watermarks.low, event.watermarks.percentiles
            instant = attrs.evolve(instant, watermark=low, percentiles=high)
        elif isinstance(event.step, SignalStep):
            instant = attrs.evolve(instant, signal=event.step.name)
        sequence.append(instant)
    sequence.append(ScriptInstant("", 1, (clock, len(events)), int(MIN_TIMESTAMP)))
    sequence.append(ScriptInstant("", 1, (clock, len(events) + 1), int(MAX_TIMESTAMP)))
    return sequence


def script_timeline(
    progress: ReplayProgress, sources: Mapping[str, Source], instants: Iterable[ScriptInstant], awaited: Awaited
) -> Timeline:
    """Return the next instants of scripts, and record the progress of the sources.

    Args:
        progress: where the progress is recorded.
        sources: all sources by label, including static ones.
        instants: the events.
        awaited: the percentiles that the plan's triggers wait for.
    """
    at: list[At] = []
    closes: list[bool] = []
    signals_at: dict[int, tuple[str, ...]] = {}
    reached: dict[str, list[Watermarks]] = {name: [] for name in sources}
    count = len(awaited.percentiles)
    end = int(MAX_TIMESTAMP)
    now = {
        name: progress.sources.setdefault(name, SourceProgress(high=(int(MIN_TIMESTAMP),) * count)) for name in sources
    }
    for instant in instants:
        over: list[str] = []
        if instant.label and instant.watermark is not None:
            now[instant.label].low, now[instant.label].high = instant.watermark, instant.percentiles
        elif not instant.label and instant.at[1] == STATIC_STEP + 1:
            over = [name for name, source in sources.items() if source.as_script is None]
        elif not instant.label and instant.watermark == MAX_TIMESTAMP:
            over = list(sources)
        for name in over:
            now[name].low, now[name].high = end, (end,) * count
        signals = progress.signals if instant.signal is None else (*progress.signals, instant.signal)
        progress.signals = ()
        if signals:
            signals_at[len(at)] = signals
        at.append(instant.at)
        closes.append(not instant.label and instant.watermark is not None)
        for name, of_source in now.items():
            reached[name].append(Watermarks.of(of_source.low, of_source.high))
    watermarks = {name: WatermarkLane.of(values) for name, values in reached.items()}
    return Timeline(InstantLane.of(at), closes, watermarks, signals_at)
