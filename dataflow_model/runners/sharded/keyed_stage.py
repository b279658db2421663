"""A keyed stage of a stream: one call per shard and micro-batch, regardless of the number of keys."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dataflow_model.metrics.collecting import counted_rows
from dataflow_model.metrics.tally import Tally
from dataflow_model.runners.engine.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes import Integers, array_of, taken
from dataflow_model.runners.engine.lifetimes import torn_down_if_failed
from dataflow_model.runners.engine.order_lanes import InstantLane
from dataflow_model.runners.engine.watermarks import WatermarkLane
from dataflow_model.runners.reporting import state_sizes
from dataflow_model.runners.sharded.feed.slices import FIRST, NOW
from dataflow_model.runners.sharded.instants import make_timeline, note_sources
from dataflow_model.runners.sharded.moments import next_moment
from dataflow_model.runners.sharded.pending import PendingWriter
from dataflow_model.runners.sharded.rows import Kind, PackedBundle, PackedPartials, Row, unpacked
from dataflow_model.runners.sharded.stage0 import pack_arrivals, pack_panes
from dataflow_model.runners.sharded.state.counted import CountedStore
from dataflow_model.runners.sharded.state.draws import KeptDraws
from dataflow_model.runners.sharded.state.shard import ShardState
from dataflow_model.runners.sharded.tallies import tally_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.chunk import Partials
    from dataflow_model.runners.engine.observing import Observations
    from dataflow_model.runners.engine.order import At
    from dataflow_model.runners.engine.timeline import Timeline
    from dataflow_model.runners.sharded.feed.offsets import Control
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.task import Task
    from dataflow_model.runners.sharded.task_metrics import TaskMetrics

__all__ = ["run_shard"]


@attrs.define
class _Inbox:
    """The rows that a shard has received for one micro-batch."""

    control: Control | None = None
    seen: list[tuple[Observations, dict[str, int]]] = attrs.field(factory=list)
    timeline: Timeline | None = None
    watermarks: dict[str, list[WatermarkLane]] = attrs.field(factory=dict)
    bundles: list[PackedBundle] = attrs.field(factory=list)
    partials: dict[At, dict[str, list[tuple[pa.Table, int]]]] = attrs.field(factory=dict)


def run_shard(task: Task, depth: int, shard: int, rows: Iterable[Row], store: StateStore) -> Iterator[Row]:
    """Run one micro-batch of one shard.

    Rows for later stages are passed on. The others are put into the total order of events and processed. The state is
    durable once the last row has been consumed.
    """
    task, fault = task.for_shard(shard), task.program.fault
    inbox = _Inbox()
    for row in fault.receive(rows):
        if row.stage > depth:
            yield row
        else:
            _receive(inbox, row)
    counted = CountedStore(fault.keep(store))
    state = ShardState.open(task, depth, shard, counted)
    with torn_down_if_failed(state.shard):
        yield from _run_micro_batch(task, depth, shard, inbox, state, counted)


def _run_micro_batch(
    task: Task, depth: int, shard: int, inbox: _Inbox, state: ShardState, counted: CountedStore
) -> Iterator[Row]:
    """Run the micro-batch on the shard's durable state, and make the changes durable."""
    timeline = inbox.timeline
    if timeline is None:
        if inbox.control is None:
            state.shard.tear_down()
            return  # this shard has no part in the micro-batch: all rows were for later stages
        timeline = make_timeline(task.program, state.meta, inbox.control, inbox.seen)
    draws = KeptDraws.open(task, depth, shard, state.shard.machines.values())
    tally = Tally(bundles=next(task.cache.runs))  # the sample of timed bundles continues over runs
    yield from counted_rows(tally, _output_rows(task, depth, shard, state, timeline, inbox, draws))
    metrics = _metrics(depth, shard, state)
    if depth == 1:
        note_sources(metrics, task.program, state.meta, inbox.control, inbox.seen)
    state.commit(task, depth, shard)
    metrics["state"] = state_sizes(state.shard.machines)
    metrics["clock"] = timeline.at[-1][0] if timeline.at else None
    metrics["moment"] = None if state.shard.is_over else next_moment(task.program, state.meta, state.shard.machines)
    yield task.row_for_commit(Kind.METRICS, metrics)
    tally.of_stage(depth, {**counted.counts(), f"cache_{state.how}": 1})
    yield from tally_row(task, tally)


def _output_rows(
    task: Task,
    depth: int,
    shard: int,
    state: ShardState,
    timeline: Timeline,
    inbox: _Inbox,
    draws: KeptDraws | None,
) -> Iterator[Row]:
    """Run the instants, store memoised outputs, then publish weak productions."""
    # Weak productions are published before the state is durable; other output waits for the commit.
    opened = PendingWriter(task, f"stage-{depth}-shard-{shard}") if task.program.weak else nullcontext()
    with opened as writer:
        yield from _run_instants(task, depth, shard, state, timeline, inbox, writer)
        if draws is not None:
            draws.keep()
        if writer is not None:
            yield from writer.finish()


def _receive(inbox: _Inbox, row: Row) -> None:
    match row.kind:
        case Kind.DATA:
            inbox.bundles.append(unpacked(row.payload))
        case Kind.PARTIAL:
            packed: PackedPartials = unpacked(row.payload)
            inbox.partials.setdefault(packed.at, {}).setdefault(packed.cut, []).append(packed.partials())
        case Kind.CONTROL:
            inbox.control = unpacked(row.payload)
        case Kind.SEEN:
            inbox.seen.append(unpacked(row.payload))
        case Kind.TIMELINE:
            inbox.timeline = unpacked(row.payload)
        case Kind.WATERMARK:
            producer, reports = unpacked(row.payload)
            inbox.watermarks.setdefault(producer, []).append(reports)
        case _:
            raise AssertionError(f"unexpected row of kind {row.kind!r}")


def _run_instants(
    task: Task,
    depth: int,
    shard: int,
    state: ShardState,
    timeline: Timeline,
    inbox: _Inbox,
    writer: PendingWriter | None,
) -> Iterator[Row]:
    """Run the instants in order, and pack the outputs."""
    program = task.program
    watermarks = dict(timeline.watermarks)
    for producer, from_shards in inbox.watermarks.items():
        watermarks[producer] = WatermarkLane.least(from_shards)
    arrivals, outputs = state.shard.run(
        timeline.instants,
        _inboxes(state, timeline, inbox.bundles),
        watermarks,
        _partials(timeline, inbox.partials),
    )
    yield from pack_panes(task, state.shard, timeline.at, writer)
    passed = {cut: placed.bundle for cut, placed in arrivals.items()}
    instants = {cut: placed.instants(timeline.at) for cut, placed in arrivals.items()}
    yield from pack_arrivals(task, passed, instants, writer)
    last = len(program.staged.stages)
    for later in range(depth + 1, last + 1):
        for name, reports in outputs.items():
            if any(node.label in program.staged.targets(name) for node in program.staged.stages[later - 1]):
                payload = task.packed((name, reports))
                yield from (Row(receiver, later, Kind.WATERMARK, payload) for receiver in program.shard_ids)
    if depth < last and shard == program.shard_ids[0]:
        payload = task.packed(timeline)
        yield from (Row(receiver, depth + 1, Kind.TIMELINE, payload) for receiver in program.shard_ids)


def _partials(timeline: Timeline, partials: Mapping[At, Mapping[str, Partials]]) -> dict[str, dict[int, Partials]]:
    """Return the partials of each lifted grouping by the place of their instant in the timeline."""
    by_place: dict[str, dict[int, Partials]] = {}
    if not partials:
        return by_place
    places = timeline.at.places_of(InstantLane.of(list(partials))).tolist()
    for place, by_cut in zip(places, partials.values(), strict=True):
        for cut, tables in by_cut.items() if place >= 0 else ():
            by_place.setdefault(cut, {})[place] = tables
    return by_place


def _inboxes(state: ShardState, timeline: Timeline, bundles: list[PackedBundle]) -> dict[str, PlacedBundle]:
    """Return the elements whose instant is in the timeline, by cut; the others wait in state for their tick."""
    bundles = [*state.meta.waiting, *bundles]
    state.meta.waiting = []
    ticks = np.flatnonzero(timeline.at.steps == 0)
    first = timeline.at[0] if len(timeline) else None
    now = timeline.at[int(ticks[-1])] if len(ticks) else None
    arrivals: defaultdict[str, list[PlacedBundle]] = defaultdict(list)
    for packed in bundles:
        bundle, at = _with_instants(packed, first, now)
        places = timeline.at.places_of(at)
        arrived, waiting = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        if len(arrived):
            ready = PlacedBundle(bundle.take(arrived) if len(waiting) else bundle, Integers(places[arrived]))
            arrivals[packed.cut].append(ready)
            machine = state.shard.machines.get(packed.cut)
            if machine is not None and state.meta.latest is not None:
                behind = at.taken(arrived).before(state.meta.latest)
                machine.counters.update({"behind_clock": behind} if behind else {})
        if len(waiting):
            at_of = packed.at if isinstance(packed.at, tuple) else taken(packed.at, waiting)
            state.meta.waiting.append(PackedBundle(packed.cut, at_of, bundle.take(waiting)))
    if len(timeline):
        state.meta.latest = max(timeline.at[-1], state.meta.latest or timeline.at[-1])
    inboxes: dict[str, PlacedBundle] = {}
    for cut, arrived_at_cut in arrivals.items():  # a micro-batch of many files has a bundle for each
        inboxes[cut] = PlacedBundle()
        inboxes[cut].extend(*arrived_at_cut)
    return inboxes


def _with_instants(packed: PackedBundle, first: At | None, now: At | None) -> tuple[Bundle, InstantLane]:
    """Return elements and their instants, with `FIRST` and `NOW` replaced by the instants that they stand for.

    Args:
        packed: the elements.
        first: the first instant of the micro-batch; `None` if it has none.
        now: its tick of the wall clock; `None` if it has none.
    """
    bundle, at = packed.bundle, InstantLane.of(packed.instants())
    for stands_for, instant in ((FIRST, first), (NOW, now)):
        is_meant = (at.clocks == stands_for[0]) & (at.steps == stands_for[1])
        if instant is not None and is_meant.any():
            at = InstantLane(np.where(is_meant, instant[0], at.clocks), np.where(is_meant, instant[1], at.steps))
            produced = Integers(np.where(is_meant, instant[0], array_of(bundle.produced)))
            bundle = attrs.evolve(bundle, produced=produced)
    return bundle, at


def _metrics(depth: int, shard: int, state: ShardState) -> TaskMetrics:
    counters = {name: dict(machine.counters) for name, machine in state.shard.machines.items()}
    sources = {name: dict(counts) for name, counts in state.meta.counters.items() if name not in counters}
    watermarks = {
        **state.shard.watermarks,
        **{name: machine.output_watermarks() for name, machine in state.shard.machines.items()},
    }
    return {
        "depth": depth,
        "shard": shard,
        "counters": counters,
        "sources": sources,
        "watermarks": {name: reported.low for name, reported in watermarks.items()},
        "cache": state.how,
    }
