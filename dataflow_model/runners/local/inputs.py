"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import operator
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np

from dataflow_model.errors import PlanError, UnsupportedOnRunner, explain
from dataflow_model.plan.nodes import MAIN
from dataflow_model.plan.sources import (
    AddStep,
    ClockStep,
    ColumnSource,
    ElementsSource,
    ScriptSource,
    WatermarkStep,
)
from dataflow_model.runners.engine.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.shard import Arrivals, join_arrivals
from dataflow_model.runners.engine.timeline import Observations, ReplayProgress, observed
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.plan.nodes import Read

    Through: TypeAlias = Callable[[str, str, Bundle], Arrivals]

__all__ = ["Instant", "instants_of", "wall_clock"]


@attrs.define
class Instant:
    """Events that happen at one place of the total order.

    Attributes:
        clock: the processing clock.
        step: tells instants at one clock value apart.
        arrivals: what the sources give to keyed nodes and sinks, by label.
        watermarks: of the sources that have a new one.
        closes: whether the tick is complete.
    """

    clock: int
    step: int
    arrivals: Arrivals = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    closes: bool = False


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def instants_of(reads: Sequence[Read], through: Through, clock: int | None = None) -> Iterator[Instant]:
    """Yield the instants of bounded sources.

    Args:
        reads: the sources; static ones come at the first instant.
        through: runs what is fused behind a source: called with its label, an output's tag and a bundle.
        clock: the wall clock's one value, for sources without a replay clock.

    Raises:
        UnsupportedOnRunner: for a source that only Spark can read, or an unbounded one.
    """
    for read in reads:
        if not isinstance(read.source, ColumnSource | ElementsSource | ScriptSource) or not read.source.is_bounded:
            raise UnsupportedOnRunner(
                explain(
                    f"LocalRunner takes bounded files, Create and TestStream, not {read.label!r} ({read.source!r})",
                    hint="use dm.SparkRunner(spark, mode='streaming'), or read without follow=True",
                )
            )
    static = [read for read in reads if isinstance(read.source, ElementsSource)]
    scripts = [read for read in reads if isinstance(read.source, ScriptSource)]
    files = [read for read in reads if isinstance(read.source, ColumnSource)]
    if scripts and files:
        raise PlanError(
            explain(
                f"{scripts[0].label!r} scripts the clock, and {files[0].label!r} has another",
                hint="a pipeline has one clock: give the rows to the script, or test the two apart",
            )
        )
    if scripts:
        if static:
            first = Instant(0, -2)
            for read in static:
                join_arrivals(first.arrivals, through(read.label, MAIN, _static(read, 0)))
            yield first
            yield Instant(0, -1, watermarks={read.label: int(MAX_TIMESTAMP) for read in static})
        yield from _script_instants(scripts, through)
    else:
        yield from _file_instants(files, static, wall_clock() if clock is None else clock, through)


def _static(read: Read, clock: int) -> Bundle:
    source = read.source
    assert isinstance(source, ElementsSource)  # noqa: S101 - the caller has looked
    times = (
        [int(MIN_TIMESTAMP)] * len(source.elements)
        if source.event_times is None
        else [int(at) for at in source.event_times]
    )
    orders: list[Any] = [(read.label, row) for row in range(len(source.elements))]
    return Bundle.fresh(list(source.elements), times, orders, clock)


# TestStream -----------------------------------------------------------------------------------------------------------


def _script_instants(reads: Sequence[Read], through: Through) -> Iterator[Instant]:
    """Yield one instant a step; several scripts share the clock, and at equal times go in the plan's order."""
    steps: list[tuple[int, int, int, Read, AddStep | WatermarkStep | ClockStep]] = []
    for place, read in enumerate(reads):
        clock = 0
        source = read.source
        assert isinstance(source, ScriptSource)  # noqa: S101 - the caller has looked
        for row, step in enumerate(source.steps):
            if isinstance(step, ClockStep):
                clock = int(step.processing_time)
            steps.append((clock, place, row, read, step))
    steps.sort(key=lambda entry: entry[:3])
    number, clock = 0, 0
    for number, (clock, _, row, read, step) in enumerate(steps):
        instant = Instant(clock, number)
        match step:
            case AddStep():
                values = [value for value, _ in step.elements]
                times = [int(at) for _, at in step.elements]
                orders: list[Any] = [(read.label, row, place) for place in range(len(values))]
                instant.arrivals = through(read.label, MAIN, Bundle.fresh(values, times, orders, clock))
            case WatermarkStep():
                instant.watermarks[read.label] = int(step.watermark)
            case ClockStep():
                pass
        yield instant
    yield Instant(clock, number + 1, closes=True)
    yield Instant(clock, number + 2, watermarks={read.label: int(MAX_TIMESTAMP) for read in reads}, closes=True)


# Files ----------------------------------------------------------------------------------------------------------------


def _file_instants(reads: Sequence[Read], static: Sequence[Read], clock: int, through: Through) -> Iterator[Instant]:
    """Yield one instant a tick, and one for the sources whose last tick it was.

    What the program holds is all there at the first tick, and over with it; so is a source that has no rows.
    """
    gathered: Arrivals = {}
    progress = ReplayProgress()
    for read in reads:
        progress.observe(list(_read_all(read, clock, through, gathered)))
    replays = any(read.source.processing_time is not None for read in reads)
    sources = {read.label: read.source for read in (*reads, *static)}
    timeline = progress.timeline(sources, (), tuple(sources), None if replays else clock)
    ready = {cut: _by_tick(bundle) for cut, bundle in gathered.items() if bundle}
    waiting = {cut: next(ticks) for cut, ticks in ready.items()}
    for place, (tick, step) in enumerate(timeline.at):
        watermarks = {label: values[place] for label, values in timeline.watermarks.items()}
        instant = Instant(tick, step, {}, watermarks, timeline.closes[place])
        if step == 0:
            for cut in [cut for cut, (when, _) in waiting.items() if when == tick]:
                instant.arrivals[cut] = waiting.pop(cut)[1]
                following = next(ready[cut], None)
                if following is not None:
                    waiting[cut] = following
        if place == 0:
            for read in static:
                join_arrivals(instant.arrivals, through(read.label, MAIN, _static(read, tick)))
        yield instant


def _by_tick(bundle: Bundle) -> Iterator[tuple[int, Bundle]]:
    """Yield each tick with the elements that were seen at it, in order."""
    places = list(zip(bundle.produced, bundle.orders, strict=True))
    if not all(map(operator.le, places, places[1:])):  # one file is in order already
        bundle = bundle.take(sorted(range(len(places)), key=places.__getitem__))
    start = 0
    for tick, group in itertools.groupby(bundle.produced):
        stop = start + sum(1 for _ in group)
        yield tick, bundle.part(start, stop)
        start = stop


def _read_all(read: Read, clock: int, through: Through, gathered: Arrivals) -> Iterator[Observations]:
    """Read a source origin by origin, pass its rows through, and yield what was observed."""
    source = read.source
    assert isinstance(source, ColumnSource)  # noqa: S101 - the caller has looked
    for origin in source.origins():
        name = f"{read.label}:{origin.name}"
        row = 0
        for batch in source.read(origin.name, 0, None):
            decoded = source.decode(batch)
            count = len(decoded.values)
            ticks = np.full(count, clock, np.int64) if decoded.clock is None else decoded.clock
            times = ticks if decoded.event_times is None else decoded.event_times
            orders: list[Any] = [(name, row + position) for position in decoded.positions.tolist()]
            bundle = Bundle.fresh(decoded.values, times.tolist(), orders, clock)
            bundle.produced = ticks.tolist()
            join_arrivals(gathered, through(read.label, MAIN, bundle))
            yield observed(read.label, origin.name, ticks, times)
            letters = Bundle()
            for bad in decoded.bad:
                if read.dead_letters is None:
                    raise source.refusal(read.label, origin.name, row, bad)
                tick = clock if bad.processing_time is None else bad.processing_time
                letter = source.dead_letter(read.label, origin.name, row, bad)
                letters.append(letter, tick, GLOBAL_ONLY, NO_FIRING, (name, row + bad.index), tick)
            if read.dead_letters is not None and letters:
                join_arrivals(gathered, through(read.label, read.dead_letters, letters))
                seen = np.sort(np.array(letters.times, np.int64))
                yield observed(read.label, origin.name, seen, np.full(len(seen), MIN_TIMESTAMP, np.int64))
            row += batch.num_rows
