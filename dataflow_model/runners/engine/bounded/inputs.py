"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of
from dataflow_model.runners.engine.machines.shard import join_arrivals
from dataflow_model.runners.engine.sources.in_program import event_numbers, script_bundle, script_events, static_bundles
from dataflow_model.runners.engine.sources.script_instants import (
    AFTER_EVENTS,
    BEFORE_EVENTS,
    script_instants,
    script_timeline,
)
from dataflow_model.runners.engine.sources.timeline import ReplayProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.machines.shard import Arrivals
    from dataflow_model.runners.engine.sources.in_program import ScriptEvent
    from dataflow_model.runners.engine.sources.timeline import Awaited, Timeline

    Through: TypeAlias = Callable[[str, str, Bundle], Arrivals]


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
    indices = {cut: array_of(placed.indices) for cut, placed in whole.arrivals.items()}
    counts = sum((np.bincount(at, minlength=len(timeline)) for at in indices.values()), np.zeros(len(timeline), int))
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
    sources = {read.label: read.source for read in staged.sources}
    events = script_events(staged.sources, awaited.percentiles)
    instants = script_instants(events)
    progress = ReplayProgress()
    gathered: dict[str, list[PlacedBundle]] = {}
    start = reached = elements = 0
    taking_effect: deque[str] = deque()

    def chunks() -> Iterator[InputChunk]:
        timeline = script_timeline(progress, sources, instants[start:reached], awaited)
        arrivals = {cut: PlacedBundle.joined(parts).in_order() for cut, parts in gathered.items()}
        return cut_up(InputChunk(timeline, arrivals), size, taking_effect)

    for stop, arrived in _arriving(staged, events, through):
        if reached > start and (signals or reached - start >= size.instants or elements >= size.elements):
            yield from chunks()
            gathered, start, elements = {}, reached, 0
        if reached == start:
            taking_effect.extend(taken_signals(signals))
        for cut, (bundle, numbers) in arrived.items():
            gathered.setdefault(cut, []).append(PlacedBundle(bundle, Integers(numbers - start)))
            elements += len(bundle)
        reached = stop
    yield from chunks()


def whole_script(staged: StagedPlan, through: Through, awaited: Awaited) -> InputChunk:
    """Return all instants of the scripts of a plan as one chunk; the arguments are those of `script_chunks`."""
    whole = Size(sys.maxsize, sys.maxsize)
    [chunk] = script_chunks(staged, through, deque(), whole, awaited)
    return chunk


def _arriving(
    staged: StagedPlan, events: Sequence[ScriptEvent], through: Through
) -> Iterator[tuple[int, dict[str, tuple[Bundle, NDArray[np.int64]]]]]:
    """Yield the number of instants up to the end of each step of a script, and what arrives at its instants, by cut.

    The elements of static sources arrive at the first instant.
    """
    first: Arrivals = {}
    for read in staged.sources:
        if read.source.as_elements is not None:
            for tag, bundle in static_bundles(read, 0):
                join_arrivals(first, through(read.label, tag, bundle))
    stop = BEFORE_EVENTS
    yield stop, {cut: (bundle, np.zeros(len(bundle), np.int64)) for cut, bundle in first.items()}
    for (label, _), of_step in itertools.groupby(events, key=_step_of):
        step = list(of_step)
        bundle = script_bundle(label, [(event.number, event.step) for event in step], step[0].clock)
        arrivals = through(label, MAIN, bundle) if bundle else {}
        begin, stop = stop - step[0].number, stop + len(step)
        yield (
            stop,
            {
                cut: (arrived, np.array(event_numbers(staged, cut, arrived.orders), np.int64) + begin)
                for cut, arrived in arrivals.items()
            },
        )
    yield stop + AFTER_EVENTS, {}


def _step_of(event: ScriptEvent) -> tuple[str, int]:
    return event.label, event.index
