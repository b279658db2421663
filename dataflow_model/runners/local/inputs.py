"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.errors import PlanError, UnsupportedOnRunner, explain
from dataflow_model.plan.nodes import MAIN
from dataflow_model.plan.sources import (
    AddStep,
    ClockStep,
    ColumnSource,
    ElementsSource,
    ScriptSource,
    SignalStep,
    Step,
    WatermarkStep,
    watermark_after,
)
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.shard import Arrivals, join_arrivals
from dataflow_model.runners.engine.timeline import NOTHING_AWAITED, Awaited
from dataflow_model.runners.local.files import TickReader
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

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
        percentiles: the further percentiles of these.
        signals: the names of those that take effect now.
        closes: whether the tick is complete.
    """

    clock: int
    step: int
    arrivals: Arrivals = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    percentiles: dict[str, tuple[int, ...]] = attrs.field(factory=dict)
    signals: tuple[str, ...] = ()
    closes: bool = False


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def instants_of(
    reads: Sequence[Read], through: Through, clock: int | None = None, awaited: Awaited = NOTHING_AWAITED
) -> Iterator[Instant]:
    """Yield the instants of bounded sources.

    Args:
        reads: the sources; static ones come at the first instant.
        through: runs what is fused behind a source: called with its label, an output's tag and a bundle.
        clock: the wall clock's one value, for sources without a replay clock.
        awaited: what the plan's triggers wait for.

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
        yield from _script_instants(scripts, through, awaited)
    else:
        yield from _file_instants(files, static, wall_clock() if clock is None else clock, through, awaited)


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


def _script_instants(reads: Sequence[Read], through: Through, awaited: Awaited) -> Iterator[Instant]:
    """Yield one instant a step; several scripts share the clock, and at equal times go in the plan's order."""
    steps: list[tuple[int, int, int, Read, Step, tuple[int, tuple[int, ...]]]] = []
    for place, read in enumerate(reads):
        clock = 0
        source = read.source
        assert isinstance(source, ScriptSource)  # noqa: S101 - the caller has looked
        watermarks = watermark_after(source.steps, awaited.percentiles)
        for row, (step, watermark) in enumerate(zip(source.steps, watermarks, strict=True)):
            if isinstance(step, ClockStep):
                clock = int(step.processing_time)
            steps.append((clock, place, row, read, step, watermark))
    steps.sort(key=lambda entry: entry[:3])
    number, clock = 0, 0
    for number, (clock, _, row, read, step, (low, high)) in enumerate(steps):
        instant = Instant(clock, number)
        match step:
            case AddStep():
                values = [value for value, _ in step.elements]
                times = [int(at) for _, at in step.elements]
                orders: list[Any] = [(read.label, row, place) for place in range(len(values))]
                instant.arrivals = through(read.label, MAIN, Bundle.fresh(values, times, orders, clock))
            case WatermarkStep():
                instant.watermarks[read.label], instant.percentiles[read.label] = low, high
            case SignalStep():
                instant.signals = (step.name,)
            case ClockStep():
                pass
        yield instant
    yield Instant(clock, number + 1, closes=True)
    labels = [read.label for read in reads]
    last = Instant(clock, number + 2, watermarks=dict.fromkeys(labels, int(MAX_TIMESTAMP)), closes=True)
    last.percentiles = dict.fromkeys(labels, (int(MAX_TIMESTAMP),) * len(awaited.percentiles))
    yield last


# Files ----------------------------------------------------------------------------------------------------------------


def _file_instants(
    reads: Sequence[Read], static: Sequence[Read], clock: int, through: Through, awaited: Awaited
) -> Iterator[Instant]:
    """Yield one instant a tick, and one for the sources whose last tick it was.

    What the program holds is all there at the first tick, and over with it; so is a source that has no rows.
    """
    ticks = TickReader(reads, static, clock, through, awaited)
    for place, (tick, step) in enumerate(ticks.timeline.at):
        arrivals = ticks.take(tick) if step == 0 else {}
        if place == 0:
            for read in static:
                join_arrivals(arrivals, through(read.label, MAIN, _static(read, tick)))
        yield Instant(
            tick,
            step,
            arrivals,
            {label: values[place] for label, values in ticks.timeline.watermarks.items()},
            ticks.timeline.percentiles_at(place),
            closes=ticks.timeline.closes[place],
        )
