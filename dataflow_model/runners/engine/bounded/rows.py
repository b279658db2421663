"""Rows of bounded sources as instants.

Under a replay clock, all rows are read first. Without one, all rows arrive at one tick, so nothing takes effect between
them: the watermark, the timers and the end of the sources follow the last row. The tick is therefore run in parts, and
what has been read runs before more is read. A part contains rows that are consecutive in the order of events, at an
instant that does not yet close. The results are those of a single part.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

from dataflow_model.micros import wall_clock
from dataflow_model.runners.engine.bounded.files import RowReader, list_sources, timeline_of
from dataflow_model.runners.engine.bounded.inputs import InputChunk, cut_up, inputs_of, taken_signals
from dataflow_model.runners.engine.lanes.order import name_of_origin
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane
from dataflow_model.runners.engine.sources.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.plan.endpoints.sources import Origin
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.bounded.files import ListedSource
    from dataflow_model.runners.engine.bounded.inputs import HowFar, Size, Through
    from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.engine.sources.timeline import Awaited


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
    is_replayed = any(read.source.has_own_clock for read in (*inputs.rows, *inputs.static))
    static = () if is_replayed else inputs.static
    # An element sees all values of a side input that changes that arrive at its instant.
    most = sys.maxsize if is_replayed or staged.side_feeds else size.rows
    observations: list[Observations] = []
    read = until = 0
    for count in _read(reader, _in_order(static, inputs.rows, listed), tick, most, observations):
        read += count
        if read - until < most:
            continue
        timeline = _open_tick(staged, tick)
        arrived = () if until else taken_signals(signals)
        timeline.signals = {0: arrived} if arrived else {}
        yield InputChunk(timeline, _arrivals(reader, timeline))
        until = read
        how_far.part = min(until / rows, 1.0) if rows else 0.0
    timeline = timeline_of([*inputs.rows, *inputs.static], listed, observations, tick, awaited)
    for source in inputs.static if is_replayed else ():
        reader.take(source, timeline.at[0][0])
    last = InputChunk(timeline, _arrivals(reader, timeline))
    yield from cut_up(last, size, deque() if until else signals, how_far)


def _arrivals(reader: RowReader, timeline: Timeline) -> dict[str, PlacedBundle]:
    return {cut: placed.in_order() for cut, placed in reader.arrivals(timeline).items()}


def _read(
    reader: RowReader,
    origins: Iterable[tuple[Read, Origin | None]],
    tick: int,
    most: int,
    observations: list[Observations],
) -> Iterator[int]:
    """Read all origins; yield the number of rows of each batch, which has at most `most`."""
    for read, origin in origins:
        if origin is None:
            reader.take(read, tick)
            yield 0
        else:
            rows = reader.reading(read, origin.name, listed=origin.row_count, first=origin.first, most=most)
            observations.append((yield from rows))


def _in_order(
    static: Iterable[Read], rows: Iterable[Read], listed: Iterable[ListedSource]
) -> list[tuple[Read, Origin | None]]:
    """Return the origins of all sources in the order of events; `None` for the elements of one in the program."""
    by_label = {read.label: read for read in rows}
    named: list[tuple[str, Read, Origin | None]] = [(read.label, read, None) for read in static]
    named += [
        (name_of_origin(source.label, origin.name), by_label[source.label], origin)
        for source in listed
        for origin in source.origins[: source.read]
    ]
    return [(read, origin) for _, read, origin in sorted(named, key=_name)]


def _name(named: tuple[str, Read, Origin | None]) -> str:
    return named[0]


def _open_tick(staged: StagedPlan, tick: int) -> Timeline:
    """Return the instant of the tick while it is open: there is no watermark yet."""
    lane = WatermarkLane.of([MIN_WATERMARKS])
    return Timeline(InstantLane.of([(tick, 0)]), [False], {read.label: lane for read in staged.sources})
