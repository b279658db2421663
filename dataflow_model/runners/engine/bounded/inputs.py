"""The total order of events of bounded inputs: elements, watermarks and clock values as a sequence of instants."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, TypeAlias

import attrs

from dataflow_model.errors import PlanError
from dataflow_model.plan.nodes import MAIN
from dataflow_model.plan.sources import (
    SignalStep,
    WatermarkStep,
)
from dataflow_model.runners.engine.bounded.files import TickReader
from dataflow_model.runners.engine.chunk import Instants, PlacedBundle
from dataflow_model.runners.engine.in_program import event_numbers, script_bundle, script_events, static_bundle
from dataflow_model.runners.engine.shard import Arrivals, join_arrivals
from dataflow_model.runners.engine.timeline import NOTHING_AWAITED, Awaited
from dataflow_model.runners.engine.watermarks import MAX_WATERMARKS, Watermarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.in_program import ScriptEvent
    from dataflow_model.runners.engine.order import At

    Through: TypeAlias = Callable[[str, str, Bundle], Arrivals]

__all__ = ["InputChunk", "Instant", "instants_of", "wall_clock"]


@attrs.define
class Instant:
    """Events that happen at one place of the total order.

    Attributes:
        clock: the processing clock.
        step: tells instants at one clock value apart.
        arrivals: what the sources give to keyed nodes and sinks, by label.
        watermarks: of the sources that have new ones.
        signals: the names of those that take effect now.
        closes: whether the tick is complete.
    """

    clock: int
    step: int
    arrivals: Arrivals = attrs.field(factory=dict)
    watermarks: dict[str, Watermarks] = attrs.field(factory=dict)
    signals: tuple[str, ...] = ()
    closes: bool = False


class InputChunk:
    """Instants in a row, as the sources give them.

    Args:
        known: by source, how far its watermarks have come; goes with the instants that are added.

    Attributes:
        at: where each instant stands.
        arrivals: what the sources give to keyed nodes and sinks, by label.
        watermarks: by source, its watermarks at each instant.
        elements: how many there are.
    """

    def __init__(self, known: dict[str, Watermarks]) -> None:
        self.at: list[At] = []
        self.arrivals: dict[str, PlacedBundle] = {}
        self.watermarks: dict[str, list[Watermarks]] = {label: [] for label in known}
        self.elements = 0
        self._known = known
        self._closes: list[bool] = []
        self._signals: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.at)

    def add(self, instant: Instant, signals: Iterable[str] = ()) -> None:
        """Add the next instant, at whose start some signals of the runner's take effect too."""
        place = len(self.at)
        self.at.append((instant.clock, instant.step))
        self._closes.append(instant.closes)
        taking_effect = (*signals, *instant.signals)
        if taking_effect:
            self._signals[place] = taking_effect
        for cut, bundle in instant.arrivals.items():
            self.arrivals.setdefault(cut, PlacedBundle()).add(place, bundle)
            self.elements += len(bundle)
        self._known.update(instant.watermarks)
        for label, column in self.watermarks.items():
            column.append(self._known[label])

    @property
    def instants(self) -> Instants:
        """The instants as stages take them."""
        return Instants([clock for clock, _ in self.at], self._closes, self._signals)


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def instants_of(
    staged: StagedPlan, through: Through, clock: int | None = None, awaited: Awaited = NOTHING_AWAITED
) -> Iterator[Instant]:
    """Yield the instants of bounded sources.

    Args:
        staged: the plan; its static sources come at the first instant.
        through: runs what is fused behind a source: called with its label, an output's tag and a bundle.
        clock: the wall clock's one value, for sources without a replay clock.
        awaited: what the plan's triggers wait for.
    """
    reads = staged.sources
    static = [read for read in reads if read.source.as_elements is not None]
    scripts = [read for read in reads if read.source.as_script is not None]
    files = [read for read in reads if read.source.as_columns is not None]
    if scripts and files:
        raise PlanError(
            f"a pipeline must have one clock, but {scripts[0].label!r} scripts it and {files[0].label!r} has another",
            hint="add the rows to the script, or test the two separately",
        )
    if scripts:
        if static:
            first = Instant(0, -2)
            for read in static:
                join_arrivals(
                    first.arrivals,
                    through(read.label, MAIN, static_bundle(read, 0)),
                )
            yield first
            yield Instant(0, -1, watermarks={read.label: MAX_WATERMARKS for read in static})
        yield from _script_instants(staged, scripts, through, awaited)
    else:
        yield from _file_instants(files, static, wall_clock() if clock is None else clock, through, awaited)


# TestStream -----------------------------------------------------------------------------------------------------------


def _script_instants(
    staged: StagedPlan, reads: Sequence[Read], through: Through, awaited: Awaited
) -> Iterator[Instant]:
    """Yield one instant an event: an element, a watermark, a clock value or a signal."""
    number, clock = 0, 0
    for (label, _), some in itertools.groupby(script_events(reads, awaited.percentiles), key=_step_of):
        events = list(some)
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
    return event.label, event.place


def _by_event(staged: StagedPlan, arrivals: Arrivals) -> dict[int, Arrivals]:
    """Part what a script's bundle has given by the event that caused it."""
    parts: dict[int, Arrivals] = {}
    for cut, bundle in arrivals.items():
        rows: dict[int, list[int]] = {}
        for row, number in enumerate(event_numbers(staged, cut, bundle.orders)):
            rows.setdefault(number, []).append(row)
        for number, mine in rows.items():
            parts.setdefault(number, {})[cut] = bundle.take(mine)
    return parts


# Files ----------------------------------------------------------------------------------------------------------------


def _file_instants(
    reads: Sequence[Read], static: Sequence[Read], clock: int, through: Through, awaited: Awaited
) -> Iterator[Instant]:
    """Yield one instant a tick, and one for the sources whose last tick it was.

    What the program holds is all there at the first tick, and over with it; so is a source that has no rows.
    """
    ticks = TickReader(reads, static, clock, through, awaited)
    watermarks = ticks.timeline.watermarks_of_sources()
    for place, (tick, step) in enumerate(ticks.timeline.at):
        arrivals = ticks.take(tick) if step == 0 else {}
        if place == 0:
            for read in static:
                join_arrivals(arrivals, through(read.label, MAIN, static_bundle(read, tick)))
        yield Instant(
            tick,
            step,
            arrivals,
            {label: values[place] for label, values in watermarks.items()},
            closes=ticks.timeline.closes[place],
        )
