"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import UnsupportedOnRunner, explain
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
    moving = _script_instants(scripts) if scripts else _file_instants(files, wall_clock() if clock is None else clock)
    first = next(moving, None)
    if first is None:
        first = Instant(wall_clock() if clock is None else clock, 0)
        first.closes = True
    for read in static:
        first.elements[read.label] = {"main": _static(read, first.clock)}
    ended: Instant | None = None
    if static:
        # What the program holds is all there at the first instant, and over with it.
        ended = Instant(first.clock, first.step, watermarks={read.label: int(MAX_TIMESTAMP) for read in static})
    yield first
    if ended is not None:
        ended.closes = first.closes
        yield ended
    yield from moving


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
                instant.elements[read.label] = {"main": Bundle.fresh(values, times, orders, clock)}
            case WatermarkStep():
                instant.watermarks[read.label] = int(step.watermark)
            case ClockStep():
                pass
        yield instant
    yield Instant(clock, number + 1, closes=True)
    yield Instant(clock, number + 2, watermarks={read.label: int(MAX_TIMESTAMP) for read in reads}, closes=True)


# Files ----------------------------------------------------------------------------------------------------------------


@attrs.define
class _Arrived:
    """One element, or bad row, of a file: when it was seen, where it stands, what it is."""

    tick: int
    order: tuple[str, int]
    read: Read
    tag: str
    value: Any
    event_time: int


def _file_instants(reads: Sequence[Read], clock: int) -> Iterator[Instant]:
    """Yield one instant a tick, and one for the sources whose last tick it was."""
    arrived = [entry for read in reads for entry in _read_all(read, clock)]
    arrived.sort(key=lambda entry: (entry.tick, entry.order))
    last_tick = {read.label: clock for read in reads}
    last_tick.update({entry.read.label: entry.tick for entry in arrived})
    if not arrived and reads:
        yield Instant(clock, 0, closes=True)
        yield Instant(clock, 1, watermarks={read.label: int(MAX_TIMESTAMP) for read in reads}, closes=True)
        return
    greatest: dict[str, int] = {}
    start = 0
    while start < len(arrived):
        tick = arrived[start].tick
        stop = start
        instant = Instant(tick, 0, closes=True)
        while stop < len(arrived) and arrived[stop].tick == tick:
            entry = arrived[stop]
            stop += 1
            label = entry.read.label
            bundle = instant.elements.setdefault(label, {}).setdefault(entry.tag, Bundle())
            fresh = Bundle.fresh([entry.value], [entry.event_time], [entry.order], tick)
            bundle.extend(fresh)
            if entry.tag == "main":
                greatest[label] = max(entry.event_time, greatest.get(label, int(MIN_TIMESTAMP)))
        for label in instant.elements:
            instant.watermarks[label] = _estimate(next(read for read in reads if read.label == label).source, greatest, label, tick)
        yield instant
        ended = {label: int(MAX_TIMESTAMP) for label, last in last_tick.items() if last == tick}
        if ended:
            yield Instant(tick, 1, watermarks=ended, closes=True)
        start = stop


def _estimate(source: Source, greatest: dict[str, int], label: str, tick: int) -> int:
    if source.event_time == ARRIVAL:
        return tick
    return int(source.watermark.watermark(EventTime(greatest.get(label, int(MIN_TIMESTAMP)))))


def _read_all(read: Read, clock: int) -> Iterator[_Arrived]:
    source = read.source
    assert isinstance(source, ColumnSource)  # noqa: S101 - the caller has looked
    for origin in source.origins():
        row = 0
        for batch in source.read(origin.name, 0, None):
            decoded = source.decode(batch)
            ticks = [clock] * len(decoded.values) if decoded.clock is None else decoded.clock.tolist()
            times = ticks if decoded.event_times is None else decoded.event_times.tolist()
            name = f"{read.label}:{origin.name}"
            for value, position, tick, at in zip(decoded.values, decoded.positions.tolist(), ticks, times, strict=True):
                yield _Arrived(tick, (name, row + position), read, "main", value, at)
            for bad in decoded.bad:
                if read.dead_letters is None:
                    raise source.refusal(read.label, origin.name, row, bad)
                tick = clock if bad.processing_time is None else bad.processing_time
                letter = source.dead_letter(read.label, origin.name, row, bad)
                yield _Arrived(tick, (name, row + bad.index), read, read.dead_letters, letter, tick)
            row += batch.num_rows
