"""Rows of bounded sources as instants, part by part: what has been read runs before more is read.

Without a replay clock, all rows arrive at one tick, so nothing takes effect between them: the watermark, the timers and
the end of the sources follow the last row. A part contains rows that are consecutive in the order of events, at an
instant that does not yet close.

Under a replay clock, a tick is complete once every origin that is not read to its end has reached a later one. So the
origin is read next that is furthest behind, and a part contains the ticks that are complete. Rows of later ticks are
held. An origin that may not be sorted by its clock is read to its end first.

The results are those of a single part.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from dataflow_model.micros import wall_clock
from dataflow_model.plan.endpoints.retries import RETRIES
from dataflow_model.runners.engine.bounded.files import RowReader, SourceTimeline, list_sources
from dataflow_model.runners.engine.bounded.inputs import InputChunk, cut_up, inputs_of
from dataflow_model.runners.engine.lanes.order import name_of_origin
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane
from dataflow_model.runners.engine.sources.estimation import NOTHING_YET
from dataflow_model.runners.engine.sources.observing import Observations
from dataflow_model.runners.engine.sources.reading import opened
from dataflow_model.runners.engine.sources.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.plan.endpoints.origins import Origin
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.bounded.files import ListedSource, PartRead
    from dataflow_model.runners.engine.bounded.inputs import HowFar, Size, Through
    from dataflow_model.runners.engine.sources.timeline import Awaited

_FIRST_ROWS: Final = 100
"""How many rows of an origin are read to learn where its clock begins."""
_MOST_OPEN: Final = 64
"""The number of origins that are open at a time; one that is closed is opened again at the row that it had reached."""


def row_chunks(
    staged: StagedPlan,
    through: Through,
    signals: deque[str],
    size: Size,
    clock: int | None,
    awaited: Awaited,
    how_far: HowFar,
) -> Iterator[InputChunk]:
    """Yield the instants of sources of rows, and of those in the program, chunk by chunk.

    Args:
        staged: the plan.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        signals: the signals that have arrived; they take effect at the start of the next chunk, but not inside of a
            tick.
        size: the size of a chunk.
        clock: the fixed value of the wall clock, for sources without a replay clock; `None` reads the wall clock.
        awaited: the percentiles that the plan's triggers wait for.
        how_far: takes how far the chunks have come, when the next one is asked for.
    """
    inputs = inputs_of(staged)
    tick = wall_clock() if clock is None else clock
    reader = RowReader(staged, tick, through, awaited)
    listed = list_sources(inputs.rows, awaited)
    rows = how_far.rows = sum(origin.row_count for source in listed for origin in source.origins[: source.read])
    sources = SourceTimeline([*inputs.rows, *inputs.static], listed, tick, awaited)
    origins = _origins(inputs.rows, listed)
    if sources.is_replayed:
        static, most = list(inputs.static), size.rows
        reading = _by_clock(reader, sources, origins, most) if rows > most else _in_turn(reader, sources, origins, most)
    else:
        static, most = [], size.rows
        reading = _in_turn(
            reader, sources, [*((read.label, read, None) for read in inputs.static), *origins], most, tick
        )
    read = until = held = 0
    for count in reading:
        read += count
        if max(read - until, reader.held - held) < max(most, held):
            continue
        timeline = sources.next() if sources.is_replayed else _open_tick(staged, tick)
        if len(timeline):
            _take_all(reader, static, timeline)
            static = []
            part = _part(reader, timeline, is_last=False)
            held = reader.held
            is_inside = bool(until) and not sources.is_replayed
            done = min((read - held) / rows, 1.0) if rows else 0.0
            yield from cut_up(part, size, deque() if is_inside else signals, how_far, max(done, how_far.part))
            del part  # so that it does not stay while more is read
            if sources.is_over:
                return
        held, until = reader.held, read
    timeline = sources.next()
    _take_all(reader, static, timeline)
    is_inside = bool(until) and not sources.is_replayed
    yield from cut_up(_part(reader, timeline), size, deque() if is_inside else signals, how_far)


def _part(reader: RowReader, timeline: Timeline, *, is_last: bool = True) -> InputChunk:
    arrivals = reader.arrivals(timeline, is_last=is_last)
    return InputChunk(timeline, {cut: placed.in_order() for cut, placed in arrivals.items()})


def _take_all(reader: RowReader, static: Iterable[Read], timeline: Timeline) -> None:
    """Take all elements of sources in the program, at the first instant of a timeline."""
    for source in static:
        for _ in reader.take(source, timeline.at[0][0]):
            pass


def _in_turn(
    reader: RowReader,
    sources: SourceTimeline,
    origins: Iterable[tuple[str, Read, Origin | None]],
    most: int,
    tick: int = NOTHING_YET,
) -> Iterator[int]:
    """Read origins one after the other, in the order of their names; yield the number of rows of each batch."""
    for _, read, origin in sorted(origins, key=_name):
        if origin is None:
            for _ in reader.take(read, tick, most=most):
                yield 0
            continue
        listed, first, version = origin.row_count, origin.first, origin.version
        for batch in reader.read(read, origin.name, listed=listed, first=first, version=version, most=most):
            sources.take(batch.seen)
            yield batch.rows
        sources.end(read.label, origin.name)


@attrs.define(order=True)
class _Reading:
    """An origin that is being read.

    Attributes:
        reached: the clock that it has reached.
        number: the number of the origin in the order of events.
        read: its source.
        origin: the origin.
        is_sorted: whether its rows are in the order of the clock.
        batches: its batches to come; `None` if it is closed.
        row: the row at which it is opened again.
    """

    reached: int
    number: int
    read: Read = attrs.field(order=False)
    origin: Origin = attrs.field(order=False)
    is_sorted: bool = attrs.field(order=False)
    batches: Iterator[PartRead] | None = attrs.field(order=False, default=None)
    row: int = attrs.field(order=False, default=0)


def _by_clock(
    reader: RowReader, sources: SourceTimeline, origins: Sequence[tuple[str, Read, Origin]], most: int
) -> Iterator[int]:
    """Read origins to the same value of their clocks; yield the number of rows of each batch."""
    readings: list[_Reading] = []
    for number, (_, read, origin) in enumerate(sorted(origins, key=_name)):
        source = read.source.as_columns
        is_sorted = source is not None and source.sorted_by_clock
        counts: Counter[str] = Counter()
        first = _first_clock(read, origin, counts) if is_sorted else None
        none = np.empty(0, np.int64)
        sources.take(Observations(read.label, origin.name, none, retries=counts[RETRIES]))
        if first is not None:
            sources.begin(read.label, origin.name, first)
        readings.append(_Reading(NOTHING_YET if first is None else first, number, read, origin, is_sorted))
    heapq.heapify(readings)
    are_open: list[_Reading] = []
    while readings:
        reading = readings[0]
        if reading.batches is None:
            if len(are_open) == _MOST_OPEN:
                ahead = max(are_open)
                are_open.remove(ahead)
                ahead.batches = None
            origin = reading.origin
            listed, first, version = origin.row_count, origin.first, origin.version
            reading.batches = reader.read(
                reading.read, origin.name, reading.row, listed=listed, first=first, version=version, most=most
            )
            are_open.append(reading)
        batch = next(reading.batches, None)
        if batch is None:
            sources.end(reading.read.label, reading.origin.name)
            are_open.remove(reading)
            heapq.heappop(readings)
            continue
        sources.take(batch.seen)
        reading.row = batch.stop
        if reading.is_sorted and len(batch.seen.ticks):
            reading.reached = int(batch.seen.ticks[-1])
            heapq.heapreplace(readings, reading)
        yield batch.rows


def _first_clock(read: Read, origin: Origin, counts: Counter[str]) -> int | None:
    """Return the clock of the first row of an origin; `None` if it is not found in its first rows."""
    source = read.source.as_columns
    assert source is not None  # noqa: S101 - the caller has checked
    first, stop = origin.first, origin.first + min(origin.row_count, _FIRST_ROWS)
    for batch in opened(source, read.label, origin.name, first, stop, counts) or ():
        columns = source.columns_of(batch)
        if columns.clock is not None and columns.clock_from < len(columns.clock):
            return int(columns.clock[0])
    return None


def _origins(reads: Iterable[Read], listed: Iterable[ListedSource]) -> list[tuple[str, Read, Origin]]:
    """Return the origins that are read, each with the name by which it is ordered among others."""
    by_label = {read.label: read for read in reads}
    return [
        (name_of_origin(source.label, origin.name), by_label[source.label], origin)
        for source in listed
        for origin in source.origins[: source.read]
    ]


def _name(named: tuple[str, Read, Origin | None]) -> str:
    return named[0]


def _open_tick(staged: StagedPlan, tick: int) -> Timeline:
    """Return the instant of the tick while it is open: there is no watermark yet."""
    lane = WatermarkLane.of([MIN_WATERMARKS])
    return Timeline(InstantLane.of([(tick, 0)]), [False], {read.label: lane for read in staged.sources})
