"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from dataflow_model.errors import PlanError
from dataflow_model.plan.nodes import MAIN
from dataflow_model.plan.sources import (
    SignalStep,
    WatermarkStep,
)
from dataflow_model.runners.engine.bounded.files import TickReader
from dataflow_model.runners.engine.chunk import Instants, PlacedBundle
from dataflow_model.runners.engine.in_program import event_numbers, script_bundle, script_events, static_bundle
from dataflow_model.runners.engine.lanes import Integers, array_of, part
from dataflow_model.runners.engine.order_lanes import InstantLane
from dataflow_model.runners.engine.shard import Arrivals, join_arrivals
from dataflow_model.runners.engine.timeline import NOTHING_AWAITED, Awaited
from dataflow_model.runners.engine.watermarks import MAX_WATERMARKS, MIN_WATERMARKS, WatermarkLane, Watermarks

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.in_program import ScriptEvent

    Through: TypeAlias = Callable[[str, str, Bundle], Arrivals]

__all__ = ["InputChunk", "Instant", "Size", "chunks_of", "wall_clock"]


@attrs.define
class Instant:
    """The events at one place of the total order.

    Attributes:
        clock: the processing clock.
        step: distinguishes instants with the same clock value.
        arrivals: the elements that the sources emit for keyed nodes and sinks, by label.
        watermarks: the new watermarks of sources.
        signals: the names of the signals that take effect now.
        closes: whether the tick is complete.
    """

    clock: int
    step: int
    arrivals: Arrivals = attrs.field(factory=dict)
    watermarks: dict[str, Watermarks] = attrs.field(factory=dict)
    signals: tuple[str, ...] = ()
    closes: bool = False


@attrs.define
class InputChunk:
    """Consecutive instants of the sources.

    Attributes:
        at: the position of each instant in the total order.
        closes: whether each instant completes its tick.
        watermarks: by source, its watermarks at each instant.
        arrivals: the elements that the sources emit for keyed nodes and sinks, by label.
        signals: by place, the signals that take effect at the start of an instant.
    """

    at: InstantLane
    closes: Sequence[bool]
    watermarks: Mapping[str, WatermarkLane]
    arrivals: dict[str, PlacedBundle] = attrs.field(factory=dict)
    signals: dict[int, tuple[str, ...]] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def instants(self) -> Instants:
        """The instants, in the form for stages."""
        return Instants(Integers(self.at.clocks), self.closes, self.signals)


@attrs.frozen
class Size:
    """The size at which a chunk ends. Signals and stops take effect only between chunks.

    Attributes:
        instants: the number of instants at which a chunk ends.
        elements: the number of elements at which a chunk ends.
    """

    instants: int
    elements: int


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def chunks_of(
    staged: StagedPlan,
    through: Through,
    signals: deque[str],
    size: Size,
    clock: int | None = None,
    awaited: Awaited = NOTHING_AWAITED,
) -> Iterator[InputChunk]:
    """Yield the instants of bounded sources, chunk by chunk.

    Args:
        staged: the plan; the elements of its static sources arrive at the first instant.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        signals: the signals that have arrived; they take effect at the start of the next chunk.
        size: the size of a chunk.
        clock: the fixed value of the wall clock, for sources without a replay clock.
        awaited: the percentiles that the plan's triggers wait for.
    """
    reads = staged.sources
    static = [read for read in reads if read.source.as_elements is not None]
    scripts = [read for read in reads if read.source.as_script is not None]
    files = [read for read in reads if read.source.as_columns is not None]
    if scripts and files:
        raise PlanError(
            f"a pipeline must have one clock, but {scripts[0].label!r} scripts it and {files[0].label!r} has another",
            hint="add the rows to the script, or test the two separately",
        )
    if scripts:
        instants = itertools.chain(
            _static_instants(static, through), _script_instants(staged, scripts, through, awaited)
        )
        yield from _script_chunks([read.label for read in reads], instants, signals, size)
    else:
        ticks = TickReader(files, static, wall_clock() if clock is None else clock, through, awaited)
        yield from _file_chunks(ticks, signals, size)


def _taken(signals: deque[str]) -> tuple[str, ...]:
    return tuple(signals.popleft() for _ in range(len(signals)))


# TestStream -----------------------------------------------------------------------------------------------------------


def _script_instants(
    staged: StagedPlan, reads: Sequence[Read], through: Through, awaited: Awaited
) -> Iterator[Instant]:
    """Yield one instant for each event: an element, a watermark, a clock value or a signal."""
    number, clock = 0, 0
    for (label, _), of_step in itertools.groupby(script_events(reads, awaited.percentiles), key=_step_of):
        events = list(of_step)
        clock = events[0].clock
        by_event: dict[int, Arrivals] = {}
        bundle = script_bundle(label, [(event.number, event.step) for event in events], clock)
        if bundle:
            by_event = _by_event(staged, through(label, MAIN, bundle))
        for event in events:
            instant = Instant(clock, number, by_event.get(event.number, {}))
            if isinstance(event.step, WatermarkStep):
                instant.watermarks[label] = event.watermarks
            elif isinstance(event.step, SignalStep):
                instant.signals = (event.step.name,)
            yield instant
            number += 1
    yield Instant(clock, number, closes=True)
    labels = [read.label for read in reads]
    yield Instant(clock, number + 1, watermarks=dict.fromkeys(labels, MAX_WATERMARKS), closes=True)


def _step_of(event: ScriptEvent) -> tuple[str, int]:
    return event.label, event.place


def _by_event(staged: StagedPlan, arrivals: Arrivals) -> dict[int, Arrivals]:
    """Split the output of a script's bundle by the event that caused it."""
    parts: dict[int, Arrivals] = {}
    for cut, bundle in arrivals.items():
        rows_by_event: dict[int, list[int]] = {}
        for row, number in enumerate(event_numbers(staged, cut, bundle.orders)):
            rows_by_event.setdefault(number, []).append(row)
        for number, rows in rows_by_event.items():
            parts.setdefault(number, {})[cut] = bundle.take(rows)
    return parts


def _static_instants(static: Sequence[Read], through: Through) -> Iterator[Instant]:
    """Yield the instants before a script's first step at which all elements of static sources arrive, and these end."""
    if not static:
        return
    first = Instant(0, -2)
    for read in static:
        join_arrivals(first.arrivals, through(read.label, MAIN, static_bundle(read, 0)))
    yield first
    yield Instant(0, -1, watermarks={read.label: MAX_WATERMARKS for read in static})


def _script_chunks(
    labels: Sequence[str], instants: Iterable[Instant], signals: deque[str], size: Size
) -> Iterator[InputChunk]:
    """Yield instants in chunks; a chunk also ends when a signal has arrived."""
    watermarks = dict.fromkeys(labels, MIN_WATERMARKS)
    gathered: list[Instant] = []
    reached: list[dict[str, Watermarks]] = []
    elements = 0
    taking_effect: tuple[str, ...] = ()
    for instant in instants:
        if gathered and (signals or len(gathered) >= size.instants or elements >= size.elements):
            yield _chunk(gathered, reached, taking_effect)
            gathered, reached, elements = [], [], 0
        if not gathered:
            taking_effect = _taken(signals)
        watermarks = {**watermarks, **instant.watermarks}
        gathered.append(instant)
        reached.append(watermarks)
        elements += sum(map(len, instant.arrivals.values()))
    if gathered:
        yield _chunk(gathered, reached, taking_effect)


def _chunk(
    instants: Sequence[Instant], reached: Sequence[Mapping[str, Watermarks]], taking_effect: tuple[str, ...]
) -> InputChunk:
    """Return a chunk of instants.

    Args:
        instants: the instants, at least one.
        reached: the watermarks by instant and source.
        taking_effect: the signals that take effect at the first instant.
    """
    chunk = InputChunk(
        InstantLane.of([(instant.clock, instant.step) for instant in instants]),
        [instant.closes for instant in instants],
        {label: WatermarkLane.of([at[label] for at in reached]) for label in reached[0]},
    )
    for place, instant in enumerate(instants):
        signals = (*(() if place else taking_effect), *instant.signals)
        if signals:
            chunk.signals[place] = signals
        for cut, bundle in instant.arrivals.items():
            chunk.arrivals.setdefault(cut, PlacedBundle()).add(place, bundle)
    return chunk


# Files ----------------------------------------------------------------------------------------------------------------


def _file_chunks(ticks: TickReader, signals: deque[str], size: Size) -> Iterator[InputChunk]:
    """Yield, in chunks, an instant for each tick, and another if the tick is the last one of some sources.

    All elements of static sources arrive at the first tick, where these sources and those without rows end.
    """
    timeline = ticks.timeline
    places = {cut: array_of(placed.places) for cut, placed in ticks.arrivals.items()}
    counts = sum((np.bincount(at, minlength=len(timeline)) for at in places.values()), np.zeros(len(timeline), int))
    until = np.cumsum(counts)
    start = 0
    while start < len(timeline):
        before = int(until[start - 1]) if start else 0
        filled = int(np.searchsorted(until, before + size.elements)) + 1
        stop = min(filled, start + size.instants, len(timeline))
        chunk = InputChunk(
            timeline.at.part(start, stop),
            part(timeline.closes, start, stop),
            {label: lane.part(start, stop) for label, lane in timeline.watermarks.items()},
        )
        for cut, at in places.items():
            first, last = np.searchsorted(at, [start, stop]).tolist()
            if first < last:
                bundle = ticks.arrivals[cut].bundle
                chunk.arrivals[cut] = PlacedBundle(bundle.part(first, last), Integers(at[first:last] - start))
        taking_effect = _taken(signals)
        if taking_effect:
            chunk.signals[0] = taking_effect
        yield chunk
        start = stop
