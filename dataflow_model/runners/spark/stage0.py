"""Stage 0: read row ranges, run what is fused behind the sources, and pack bundles by shard."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.plan.nodes import MAIN, Read, Write
from dataflow_model.plan.sources import AddStep, ColumnSource, ElementsSource, ScriptSource
from dataflow_model.runners.engine.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.shard import route
from dataflow_model.runners.engine.sharding import split_by_shard
from dataflow_model.runners.engine.timeline import observed
from dataflow_model.runners.spark.rows import Kind, PackedBundle, Row, dump
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.runners.engine.timeline import At
    from dataflow_model.runners.spark.program import Program

__all__ = ["FIRST", "STATIC_STEP", "Slice", "pack_arrivals", "read_script", "read_slice", "read_static"]

FIRST: Final = (int(MIN_TIMESTAMP), 0)
"""Stands for the run's first instant."""
STATIC_STEP: Final = -2
"""Where static elements stand in a script's timeline: before its first step."""


@attrs.frozen
class Slice:
    """Rows `[start, stop)` of one origin of one source."""

    label: str
    origin: str
    start: int
    stop: int


def read_slice(program: Program, part: Slice, wall: int | None, home: int) -> Iterator[Row]:
    """Read a row range and yield its elements packed by shard, then what was observed.

    Args:
        program: the program.
        part: the rows.
        wall: the tick of all of them, or `None` under a replay clock.
        home: the shard label of rows that need none.
    """
    read = program.staged.plan[part.label]
    assert isinstance(read, Read)  # noqa: S101 - slices are made from reads
    source = read.source
    assert isinstance(source, ColumnSource)  # noqa: S101
    name = f"{part.label}:{part.origin}"
    row = part.start
    ticks: list[Any] = []
    times: list[Any] = []
    good = dead = 0
    for batch in source.read(part.origin, part.start, part.stop):
        decoded = source.decode(batch)
        clock = decoded.clock
        if clock is None:
            clock = np.full(len(decoded.values), 0 if wall is None else wall, np.int64)
        event_times = clock if decoded.event_times is None else decoded.event_times
        orders: list[Any] = list(zip(itertools.repeat(name), (decoded.positions + row).tolist(), strict=False))
        count = len(decoded.values)
        bundle = Bundle(
            decoded.values, event_times.tolist(), [GLOBAL_ONLY] * count, [NO_FIRING] * count, orders, clock.tolist()
        )
        ticks.append(clock)
        times.append(event_times)
        good += count
        yield from _through(program, part.label, MAIN, bundle, home)
        letters = Bundle()
        for bad in decoded.bad:
            if read.dead_letters is None:
                raise source.refusal(part.label, part.origin, row, bad)
            tick = bad.processing_time if wall is None else wall
            tick = 0 if tick is None else tick
            letter = source.dead_letter(part.label, part.origin, row, bad)
            letters.append(letter, tick, GLOBAL_ONLY, NO_FIRING, (name, row + bad.index), tick)
            ticks.append(np.array([tick], np.int64))
            times.append(np.array([MIN_TIMESTAMP], np.int64))
            dead += 1
        if letters and read.dead_letters is not None:
            yield from _through(program, part.label, read.dead_letters, letters, home)
        row += batch.num_rows
    empty = np.empty(0, np.int64)
    seen = observed(part.label, part.origin, np.concatenate([empty, *ticks]), np.concatenate([empty, *times]))
    for label in program.labels if program.staged.stages else ():
        yield Row(label, 1, Kind.SEEN, dump((seen, {"elements_out": good, "dead_letters": dead})))


def read_static(program: Program, label: str, at: At | None, home: int) -> Iterator[Row]:
    """Yield the elements of a static source; they stand at the run's first instant, wherever that is (`None`)."""
    read = program.staged.plan[label]
    assert isinstance(read, Read)  # noqa: S101
    assert isinstance(read.source, ElementsSource)  # noqa: S101
    source = read.source
    count = len(source.elements)
    times = [int(MIN_TIMESTAMP)] * count if source.event_times is None else [int(time) for time in source.event_times]
    orders: list[Any] = [(label, row) for row in range(count)]
    clock = 0 if at is None else at[0]
    bundle = Bundle.fresh(list(source.elements), times, orders, clock)
    yield from _through(program, label, MAIN, bundle, home, at=FIRST if at is None else at)


def read_script(program: Program, label: str, first: int, last: int, numbers: Mapping[int, At], home: int) -> Iterator[Row]:
    """Yield the elements of steps `[first, last)` of a script."""
    read = program.staged.plan[label]
    assert isinstance(read, Read)  # noqa: S101
    assert isinstance(read.source, ScriptSource)  # noqa: S101
    for row in range(first, last):
        step = read.source.steps[row]
        if not isinstance(step, AddStep):
            continue
        values = [value for value, _ in step.elements]
        times = [int(time) for _, time in step.elements]
        orders: list[Any] = [(label, row, place) for place in range(len(values))]
        at = numbers[row]
        yield from _through(program, label, MAIN, Bundle.fresh(values, times, orders, at[0]), home, at=at)


def pack_arrivals(
    program: Program, arrivals: Arrivals, home: int, at: At | Mapping[str, list[At]] | None = None
) -> Iterator[Row]:
    """Yield what arrives at cuts as rows.

    Args:
        program: the program.
        arrivals: bundles by cut.
        home: the shard label for rows to sinks.
        at: the instant of all elements, or of each by cut; `None` where it is the tick at which each was produced.
    """
    for cut, bundle in arrivals.items():
        if not bundle:
            continue
        node = program.staged.plan[cut]
        stage = program.staged.depth_of(cut)
        if isinstance(at, tuple):
            places: list[At] | At = at
        else:
            places = [(tick, 0) for tick in bundle.produced] if at is None else at[cut]
        if isinstance(node, Write):
            yield Row(home, stage, Kind.OUTPUT, dump(PackedBundle(cut, places, bundle)))
            continue
        if isinstance(places, list):  # carried along as the last part of the order while the bundle is cut up
            bundle.orders = list(zip(bundle.orders, places, strict=True))
        shards = len(program.labels)
        for slot, some in split_by_shard(node, bundle, shards * program.buckets).items():  # type: ignore[arg-type]
            mine = places
            if isinstance(places, list):
                mine = [place for _, place in some.orders]
                some.orders = [order for order, _ in some.orders]
            label = program.labels[slot % shards]
            yield Row(label, stage, Kind.DATA, dump(PackedBundle(cut, mine, some)), slot // shards)


def _through(
    program: Program, label: str, tag: str, bundle: Bundle, home: int, at: At | None = None
) -> Iterator[Row]:
    arrivals: Arrivals = {}
    route(program.staged, 0, program.fragment(label).run(bundle, tag), arrivals)
    yield from pack_arrivals(program, arrivals, home, at)
