"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import operator
import time
from typing import TYPE_CHECKING, Any

import attrs

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
from dataflow_model.plan.watermarks import ARRIVAL
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.plan.sources import Source

__all__ = ["Instant", "instants_of", "wall_clock"]


@attrs.define
class Instant:
    """Events that happen at one place of the total order.

    Attributes:
        clock: the processing clock.
        step: tells instants at one clock value apart.
        elements: by the source's label, then by the output's tag.
        watermarks: of the sources that have a new one.
        closes: whether the tick is complete.
    """

    clock: int
    step: int
    elements: dict[str, dict[str, Bundle]] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    closes: bool = False


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def instants_of(reads: Sequence[Read], clock: int | None = None) -> Iterator[Instant]:
    """Yield the instants of bounded sources.

    Args:
        reads: the sources; static ones come at the first instant.
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
            yield Instant(0, -2, {read.label: {MAIN: _static(read, 0)} for read in static})
            yield Instant(0, -1, watermarks={read.label: int(MAX_TIMESTAMP) for read in static})
        yield from _script_instants(scripts)
    else:
        yield from _file_instants(files, static, wall_clock() if clock is None else clock)


def _static(read: Read, clock: int) -> Bundle:
    source = read.source
    assert isinstance(source, ElementsSource)  # noqa: S101 - the caller has looked
    times = [int(MIN_TIMESTAMP)] * len(source.elements) if source.event_times is None else [int(at) for at in source.event_times]
    orders: list[Any] = [(read.label, row) for row in range(len(source.elements))]
    return Bundle.fresh(list(source.elements), times, orders, clock)


# TestStream -----------------------------------------------------------------------------------------------------------


def _script_instants(reads: Sequence[Read]) -> Iterator[Instant]:
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
                instant.elements[read.label] = {MAIN: Bundle.fresh(values, times, orders, clock)}
            case WatermarkStep():
                instant.watermarks[read.label] = int(step.watermark)
            case ClockStep():
                pass
        yield instant
    yield Instant(clock, number + 1, closes=True)
    yield Instant(clock, number + 2, watermarks={read.label: int(MAX_TIMESTAMP) for read in reads}, closes=True)


# Files ----------------------------------------------------------------------------------------------------------------


_Lane = tuple[str, str]
"""A source's label and the tag of one of its outputs."""


@attrs.define
class _Arrived:
    """The elements and bad rows of files, in columns: when each was seen, where it stands, what it is."""

    ticks: list[int] = attrs.field(factory=list)
    orders: list[Any] = attrs.field(factory=list)
    lanes: list[_Lane] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)

    def add(self, lane: _Lane, ticks: list[int], orders: list[Any], values: list[Any], times: list[int]) -> None:
        """Add what came to one lane."""
        self.ticks += ticks
        self.orders += orders
        self.lanes += [lane] * len(values)
        self.values += values
        self.times += times

    def in_order(self) -> _Arrived:
        """Return all sorted by tick and order; itself where it is sorted already, as one file is."""
        places = list(zip(self.ticks, self.orders, strict=True))
        if all(map(operator.le, places, places[1:])):
            return self
        rows = sorted(range(len(places)), key=places.__getitem__)
        return _Arrived(
            [self.ticks[row] for row in rows],
            [self.orders[row] for row in rows],
            [self.lanes[row] for row in rows],
            [self.values[row] for row in rows],
            [self.times[row] for row in rows],
        )

    def by_tick(self) -> Iterator[tuple[int, dict[_Lane, Bundle]]]:
        """Yield each tick with what came to each lane."""
        one_lane = len(set(self.lanes)) == 1
        start = 0
        for tick, group in itertools.groupby(self.ticks):
            stop = start + sum(1 for _ in group)
            rows: dict[_Lane, Any] = {self.lanes[start]: range(start, stop)}
            if not one_lane:
                rows = {}
                for row in range(start, stop):
                    rows.setdefault(self.lanes[row], []).append(row)
            yield tick, {lane: self._bundle(some, tick) for lane, some in rows.items()}
            start = stop

    def _bundle(self, rows: Sequence[int], tick: int) -> Bundle:
        return Bundle.fresh(
            [self.values[row] for row in rows],
            [self.times[row] for row in rows],
            [self.orders[row] for row in rows],
            tick,
        )


def _file_instants(reads: Sequence[Read], static: Sequence[Read], clock: int) -> Iterator[Instant]:
    """Yield one instant a tick, and one for the sources whose last tick it was.

    What the program holds is all there at the first tick, and over with it; so is a source that has no rows.
    """
    gathered = _Arrived()
    for read in reads:
        _read_all(read, clock, gathered)
    arrived = gathered.in_order()
    sources = {read.label: read.source for read in reads}
    first = arrived.ticks[0] if arrived.ticks else clock
    last_tick = dict.fromkeys([*(read.label for read in static), *sources], first)
    last_tick.update({label: tick for tick, (label, _) in zip(arrived.ticks, arrived.lanes, strict=True)})
    last_ticks = set(last_tick.values())
    greatest = dict.fromkeys(sources, int(MIN_TIMESTAMP))
    no_rows: list[tuple[int, dict[_Lane, Bundle]]] = [(first, {})]
    for tick, bundles in arrived.by_tick() if arrived.ticks else no_rows:
        instant = Instant(tick, 0, closes=True)
        for (label, tag), bundle in bundles.items():
            instant.elements.setdefault(label, {})[tag] = bundle
            if tag == MAIN:
                greatest[label] = max(greatest[label], *bundle.times)
        for label in instant.elements:
            instant.watermarks[label] = _estimate(sources[label], greatest[label], tick)
        if tick == first:
            instant.elements.update({read.label: {MAIN: _static(read, tick)} for read in static})
        yield instant
        if tick in last_ticks:
            ended = {label: int(MAX_TIMESTAMP) for label, last in last_tick.items() if last == tick}
            yield Instant(tick, 1, watermarks=ended, closes=True)


def _estimate(source: Source, greatest: int, tick: int) -> int:
    if source.event_time == ARRIVAL:
        return tick
    return int(source.watermark.watermark(EventTime(greatest)))


def _read_all(read: Read, clock: int, arrived: _Arrived) -> None:
    """Add a source's rows, origin by origin."""
    source = read.source
    assert isinstance(source, ColumnSource)  # noqa: S101 - the caller has looked
    for origin in source.origins():
        name = f"{read.label}:{origin.name}"
        row = 0
        for batch in source.read(origin.name, 0, None):
            decoded = source.decode(batch)
            ticks = [clock] * len(decoded.values) if decoded.clock is None else decoded.clock.tolist()
            times = ticks if decoded.event_times is None else decoded.event_times.tolist()
            orders = [(name, row + position) for position in decoded.positions.tolist()]
            arrived.add((read.label, MAIN), ticks, orders, decoded.values, times)
            for bad in decoded.bad:
                if read.dead_letters is None:
                    raise source.refusal(read.label, origin.name, row, bad)
                tick = clock if bad.processing_time is None else bad.processing_time
                letter = source.dead_letter(read.label, origin.name, row, bad)
                arrived.add((read.label, read.dead_letters), [tick], [(name, row + bad.index)], [letter], [tick])
            row += batch.num_rows
