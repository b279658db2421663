"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from dataflow_model.plan.endpoints.scripts import SignalStep, WatermarkStep
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import array_of
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, MIN_WATERMARKS, WatermarkLane, Watermarks
from dataflow_model.runners.engine.machines.shard import Arrivals, join_arrivals
from dataflow_model.runners.engine.sources.in_program import event_numbers, script_bundle, script_events, static_bundles
from dataflow_model.runners.engine.sources.timeline import Awaited, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.sources.in_program import ScriptEvent

    Through: TypeAlias = Callable[[str, str, Bundle], Arrivals]


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
        timeline: the instants, and the watermarks of the sources at each.
        arrivals: the elements that the sources emit for keyed nodes and sinks, by label.
    """

    timeline: Timeline
    arrivals: dict[str, PlacedBundle] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.timeline)


@attrs.frozen
class Size:
    """The size at which a chunk ends. Signals and stops take effect only between chunks.

    Attributes:
        instants: the number of instants at which a chunk ends.
        elements: the number of elements at which a chunk ends, after the last element of an instant.
        rows: the number of rows that are read before they are run.
    """

    instants: int
    elements: int
    rows: int = sys.maxsize


@attrs.define
class HowFar:
    """How far a bounded run has come with its input, which it reads, and then runs in the order of its instants.

    Attributes:
        rows: the number of rows that there are to read; `None` while that is not known, and for scripts.
        part: the part of the elements whose instants have been run, from 0 to 1.
    """

    rows: int | None = None
    part: float = 0.0

    def done(self, read: int) -> float | None:
        """Return the part of the work that is done, from 0 to 1; `None` while that is not known.

        Args:
            read: the number of rows that have been read.

        Example:
            >>> HowFar().done(0), HowFar(rows=200).done(100), HowFar(rows=200, part=0.5).done(200)
            (None, 0.25, 0.75)
        """
        if self.rows is None:
            return None
        return (min(read / self.rows, 1.0) if self.rows else 1.0) / 2 + self.part / 2


@attrs.frozen
class Inputs:
    """The sources of a plan by how they are read.

    Attributes:
        static: the sources whose elements are in the program.
        scripts: the scripts.
        rows: the sources of rows.
    """

    static: tuple[Read, ...]
    scripts: tuple[Read, ...]
    rows: tuple[Read, ...]


def inputs_of(staged: StagedPlan) -> Inputs:
    """Return the sources of a plan; a checked plan does not read both scripts and rows."""
    reads = staged.sources
    return Inputs(
        tuple(read for read in reads if read.source.as_elements is not None),
        tuple(read for read in reads if read.source.as_script is not None),
        tuple(read for read in reads if read.source.as_columns is not None),
    )


def cut_up(
    whole: InputChunk, size: Size, signals: deque[str], how_far: HowFar | None = None, until_part: float = 1.0
) -> Iterator[InputChunk]:
    """Cut consecutive instants into chunks.

    Args:
        whole: the instants, with the elements in order.
        size: the size of a chunk.
        signals: the signals that have arrived; they take effect at the start of the next chunk.
        how_far: takes which part of the input the chunks have had, when the next one is asked for.
        until_part: the part that the input has had at the end of these instants.
    """
    begun = 0.0 if how_far is None else how_far.part
    timeline = whole.timeline
    places = {cut: array_of(placed.indices) for cut, placed in whole.arrivals.items()}
    counts = sum((np.bincount(at, minlength=len(timeline)) for at in places.values()), np.zeros(len(timeline), int))
    until = np.cumsum(counts)
    start = 0
    while start < len(timeline):
        before = int(until[start - 1]) if start else 0
        filled = int(np.searchsorted(until, before + size.elements)) + 1
        stop = min(filled, start + size.instants, len(timeline))
        chunk = InputChunk(timeline.sliced(start, stop))
        for cut, placed in whole.arrivals.items():
            part_of_cut = placed.sliced(start, stop)
            if len(part_of_cut):
                chunk.arrivals[cut] = part_of_cut
        taking_effect = taken_signals(signals)
        if taking_effect:
            chunk.timeline.signals[0] = (*taking_effect, *chunk.timeline.signals.get(0, ()))
        yield chunk
        if how_far is not None and until[-1]:
            how_far.part = begun + (until_part - begun) * float(until[stop - 1] / until[-1])
        start = stop


def taken_signals(signals: deque[str]) -> tuple[str, ...]:
    """Return the signals that have arrived, each of which takes effect once."""
    return tuple(signals.popleft() for _ in range(len(signals)))


# TestStream -----------------------------------------------------------------------------------------------------------


def script_chunks(
    staged: StagedPlan, through: Through, signals: deque[str], size: Size, awaited: Awaited
) -> Iterator[InputChunk]:
    """Yield the instants of scripts, chunk by chunk; a chunk also ends when a signal has arrived.

    Args:
        staged: the plan; the elements of its static sources arrive at the first instant.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        signals: the signals that have arrived; they take effect at the start of the next chunk.
        size: the size of a chunk.
        awaited: the percentiles that the plan's triggers wait for.
    """
    instants = _instants(staged, inputs_of(staged), through, awaited)
    return _script_chunks([read.label for read in staged.sources], instants, signals, size)


def whole_script(staged: StagedPlan, through: Through, awaited: Awaited) -> InputChunk:
    """Return all instants of the scripts of a plan as one chunk; the arguments are those of `script_chunks`."""
    whole = Size(sys.maxsize, sys.maxsize)
    [chunk] = script_chunks(staged, through, deque(), whole, awaited)
    return chunk


def _instants(staged: StagedPlan, inputs: Inputs, through: Through, awaited: Awaited) -> Iterator[Instant]:
    """Yield the instants of scripts, after those of static sources."""
    yield from _static_instants(inputs.static, through)
    yield from _script_instants(staged, inputs.scripts, through, awaited)


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
    return event.label, event.index


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
        for tag, bundle in static_bundles(read, 0):
            join_arrivals(first.arrivals, through(read.label, tag, bundle))
    yield first
    yield Instant(0, -1, watermarks={read.label: MAX_WATERMARKS for read in static})


def _script_chunks(
    labels: Sequence[str], instants: Iterable[Instant], signals: deque[str], size: Size
) -> Iterator[InputChunk]:
    """Yield instants in chunks; see `script_chunks`."""
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
            taking_effect = taken_signals(signals)
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
    timeline = Timeline(
        InstantLane.of([(instant.clock, instant.step) for instant in instants]),
        [instant.closes for instant in instants],
        {label: WatermarkLane.of([at[label] for at in reached]) for label in reached[0]},
    )
    chunk = InputChunk(timeline)
    for place, instant in enumerate(instants):
        signals = (*(() if place else taking_effect), *instant.signals)
        if signals:
            timeline.signals[place] = signals
        for cut, bundle in instant.arrivals.items():
            chunk.arrivals.setdefault(cut, PlacedBundle()).add(place, bundle)
    return chunk
