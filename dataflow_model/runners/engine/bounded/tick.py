"""The one tick of bounded sources without a replay clock, in parts: what has been read runs before more is read.

All rows arrive at this tick, so nothing takes effect between them: the watermark, the timers and the end of the sources
follow the last row. A part contains rows that are consecutive in the order of events, at an instant that does not yet
close. The results are those of a single part.
"""

from __future__ import annotations

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
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.endpoints.sources import Origin
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.bounded.files import ListedSource
    from dataflow_model.runners.engine.bounded.inputs import HowFar, Inputs, Size, Through
    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.engine.sources.timeline import Awaited


def has_one_tick(staged: StagedPlan) -> bool:
    """Return whether the whole input arrives at one tick that can be run in parts.

    With a side input that changes it cannot: an element sees all values of the side input that arrive at its instant.
    """
    inputs = inputs_of(staged)
    is_replayed = any(read.source.has_own_clock for read in (*inputs.rows, *inputs.static))
    return bool(inputs.rows) and not inputs.scripts and not is_replayed and not staged.side_feeds


def tick_in_parts(
    staged: StagedPlan,
    through: Through,
    signals: deque[str],
    size: Size,
    clock: int | None,
    awaited: Awaited,
    how_far: HowFar,
) -> Iterator[InputChunk]:
    """Yield the tick part by part, and with the last part the end of the sources; see `inputs.chunks_of`.

    Args:
        staged: the plan; see `has_one_tick`.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        signals: the signals that have arrived; they take effect at the start of the tick.
        size: the size of a chunk.
        clock: the fixed value of the wall clock; `None` reads the wall clock.
        awaited: the percentiles that the plan's triggers wait for.
        how_far: takes how far the parts have come, when the next one is asked for.
    """
    inputs = inputs_of(staged)
    tick = wall_clock() if clock is None else clock
    reader = RowReader(staged, tick, through, awaited)
    listed = list_sources(inputs.rows, awaited)
    rows = how_far.rows = sum(origin.row_count for source in listed for origin in source.origins[: source.read])
    observations: list[Observations] = []
    begun: list[str] = []
    read = until = 0
    for count in _read(reader, inputs, listed, tick, size.rows, observations):
        read += count
        if read - until < size.rows:
            continue
        timeline = _open_tick(staged, tick)
        if not until:
            begun += taken_signals(signals)
            timeline.signals = {0: tuple(begun)} if begun else {}
        yield InputChunk(timeline, {cut: placed.in_order() for cut, placed in reader.arrivals(timeline).items()})
        until = read
        how_far.part = min(until / rows, 1.0) if rows else 0.0
    timeline = timeline_of([*inputs.rows, *inputs.static], listed, observations, tick, awaited)
    arrivals = {cut: placed.in_order() for cut, placed in reader.arrivals(timeline).items()}
    yield from cut_up(InputChunk(timeline, arrivals), size, deque() if until else signals, how_far)


def _read(
    reader: RowReader,
    inputs: Inputs,
    listed: Sequence[ListedSource],
    tick: int,
    most: int,
    observations: list[Observations],
) -> Iterator[int]:
    """Read all sources in the order of events; yield the number of rows after each batch of at most `most` rows."""
    for read, origin in _in_order(inputs, listed):
        if origin is None:
            reader.take(read, tick)
            yield 0
        else:
            observations.append(
                (yield from reader.reading(read, origin.name, listed=origin.row_count, most=most)),
            )


def _in_order(inputs: Inputs, listed: Sequence[ListedSource]) -> list[tuple[Read, Origin | None]]:
    """Return the origins of all sources in the order of events; `None` for the elements of one in the program."""
    by_label = {read.label: read for read in inputs.rows}
    named: list[tuple[str, Read, Origin | None]] = [(read.label, read, None) for read in inputs.static]
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
