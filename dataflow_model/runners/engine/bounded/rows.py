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
import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from dataflow_model.micros import wall_clock
from dataflow_model.plan.endpoints.retries import RETRIES
from dataflow_model.runners.engine.bounded.files import RowReader, SourceTimeline, list_sources
from dataflow_model.runners.engine.bounded.inputs import InputChunk, cut_up, inputs_of
from dataflow_model.runners.engine.lanes.order import name_of_origin
from dataflow_model.runners.engine.sources.estimation import NOTHING_YET
from dataflow_model.runners.engine.sources.observing import Observations
from dataflow_model.runners.engine.sources.reading import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
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
    is_replayed, static = sources.is_replayed, list(inputs.static)
    readings = _readings(listed, {read.label: read for read in inputs.rows})
    if is_replayed and rows > size.rows:
        _begin(readings, sources)
    elif not is_replayed:  # they are at the only tick, among the rows
        readings += [_Reading(NOTHING_YET, read.label, read) for read in static]
        static = []
    read = until = waiting = 0
    for count in itertools.chain(_read(reader, sources, readings, size.rows, tick), [None]):
        is_last = count is None
        read += count or 0
        if not is_last and max(read - until, reader.waiting - waiting) < max(size.rows, waiting):
            continue
        timeline = sources.next(is_last=is_last)
        if len(timeline):
            for source in static:
                deque(reader.take(source, timeline.at[0][0]), maxlen=0)
            static = []
            arrivals = {cut: placed.in_order() for cut, placed in reader.arrivals(timeline, is_last=is_last).items()}
            done = 1.0 if is_last else min((read - reader.waiting) / rows, 1.0) if rows else 0.0
            taking_effect = signals if is_replayed or not until else deque[str]()  # none inside of a tick
            yield from cut_up(InputChunk(timeline, arrivals), size, taking_effect, how_far, max(done, how_far.part))
            arrivals.clear()  # so that it does not stay while more is read
            if sources.is_over:
                return
        waiting, until = reader.waiting, read


@attrs.define(order=True)
class _Reading:
    """An origin that is being read, or a source in the program.

    Attributes:
        reached: the clock that it has reached; −∞ until its end if it is read to its end at once.
        name: its name in the order of events.
        read: its source.
        origin: the origin; `None` for a source in the program.
        is_sorted: whether other origins are read while it is ahead of them.
        parts: its parts to come; `None` if it is closed.
        row: the row at which it is opened again.
    """

    reached: int
    name: str
    read: Read = attrs.field(order=False)
    origin: Origin | None = attrs.field(order=False, default=None)
    is_sorted: bool = attrs.field(order=False, default=False)
    parts: Iterator[PartRead] | None = attrs.field(order=False, default=None)
    row: int = attrs.field(order=False, default=0)

    def opened(self, reader: RowReader, most: int, tick: int) -> Iterator[PartRead]:
        """Return its parts from the row that it has reached."""
        if self.origin is None:
            return reader.take(self.read, tick, most=most)
        name, listed, version = self.origin.name, self.origin.row_count, self.origin.version
        return reader.read(
            self.read, name, self.row, listed=listed, first=self.origin.first, version=version, most=most
        )


def _readings(listed: Iterable[ListedSource], reads: Mapping[str, Read]) -> list[_Reading]:
    """Return the origins that are read, as those of which one is read to its end before the next."""
    return [
        _Reading(NOTHING_YET, name_of_origin(source.label, origin.name), reads[source.label], origin)
        for source in listed
        for origin in source.origins[: source.read]
    ]


def _begin(readings: Iterable[_Reading], sources: SourceTimeline) -> None:
    """Find where the clocks of origins that are sorted by them begin, so that all are read to the same time."""
    for reading in readings:
        source, origin = reading.read.source.as_columns, reading.origin
        if source is None or origin is None or not source.sorted_by_clock:
            continue
        reading.is_sorted = True
        counts: Counter[str] = Counter()
        first = _first_clock(reading.read.label, source, origin, counts)
        none = np.empty(0, np.int64)
        sources.take(Observations(reading.read.label, origin.name, none, retries=counts[RETRIES]))
        if first is not None:
            sources.begin(reading.read.label, origin.name, first)
            reading.reached = first


def _read(reader: RowReader, sources: SourceTimeline, readings: list[_Reading], most: int, tick: int) -> Iterator[int]:
    """Read what is furthest behind, by name at equal clocks; yield the number of rows of each part."""
    heapq.heapify(readings)
    are_open: list[_Reading] = []
    while readings:
        reading = readings[0]
        if reading.parts is None:
            if len(are_open) == _MOST_OPEN:
                ahead = max(are_open)
                are_open.remove(ahead)
                ahead.parts = None
            reading.parts = reading.opened(reader, most, tick)
            are_open.append(reading)
        part = next(reading.parts, None)
        if part is None:
            if reading.origin is not None:
                sources.end(reading.read.label, reading.origin.name)
            are_open.remove(reading)
            heapq.heappop(readings)
            continue
        sources.take(part.seen)
        reading.row = part.stop
        if reading.is_sorted and len(part.seen.ticks):
            reading.reached = int(part.seen.ticks[-1])
            heapq.heapreplace(readings, reading)
        yield part.rows


def _first_clock(label: str, source: ColumnSource, origin: Origin, counts: Counter[str]) -> int | None:
    """Return the clock of the first row of an origin; `None` if it is not found in its first rows."""
    first, stop = origin.first, origin.first + min(origin.row_count, _FIRST_ROWS)
    for batch in opened(source, label, origin.name, first, stop, counts) or ():
        columns = source.columns_of(batch)
        if columns.clock is not None and columns.clock_from < len(columns.clock):
            return int(columns.clock[0])
    return None
