"""A keyed stage of a stream: one call per shard and micro-batch, regardless of the number of keys."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dataflow_model.metrics.collecting import counted_rows
from dataflow_model.metrics.tally import Tally
from dataflow_model.runners.engine.functions.lifetimes import torn_down_if_failed
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of, taken
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
from dataflow_model.runners.reporting import state_sizes
from dataflow_model.runners.sharded.feed.slices import FIRST, NOW
from dataflow_model.runners.sharded.outputs.draws import KeptDraws
from dataflow_model.runners.sharded.outputs.pending import PendingWriter
from dataflow_model.runners.sharded.stages.instants import make_timeline, note_sources
from dataflow_model.runners.sharded.stages.moments import next_moment
from dataflow_model.runners.sharded.stages.stage0 import pack_arrivals, pack_panes
from dataflow_model.runners.sharded.stages.tallies import tally_row
from dataflow_model.runners.sharded.state.counted import CountedStore
from dataflow_model.runners.sharded.tasks.rows import Kind, PackedBundle, PackedPartials, Row, unpacked
from dataflow_model.runners.sharded.tasks.shard_state import ShardState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Partials
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.engine.sources.timeline import Timeline
    from dataflow_model.runners.sharded.feed.planning import Control
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.task import Task
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics


@attrs.define
class _Inbox:
    """The rows that a shard has received for one micro-batch."""

    control: Control | None = None
    seen: list[tuple[Observations, dict[str, int]]] = attrs.field(factory=list)
    timeline: Timeline | None = None
    watermarks: dict[str, list[WatermarkLane]] = attrs.field(factory=dict)
    bundles: list[PackedBundle] = attrs.field(factory=list)
    partials: dict[At, dict[str, list[tuple[pa.Table, int]]]] = attrs.field(factory=dict)

    def receive(self, row: Row) -> None:
        """Unpack a row for this shard."""
        match row.kind:
            case Kind.DATA:
                self.bundles.append(unpacked(row.payload))
            case Kind.PARTIAL:
                packed: PackedPartials = unpacked(row.payload)
                self.partials.setdefault(packed.at, {}).setdefault(packed.cut, []).append(packed.partials())
            case Kind.CONTROL:
                self.control = unpacked(row.payload)
            case Kind.SEEN:
                self.seen.append(unpacked(row.payload))
            case Kind.TIMELINE:
                self.timeline = unpacked(row.payload)
            case Kind.WATERMARK:
                producer, reports = unpacked(row.payload)
                self.watermarks.setdefault(producer, []).append(reports)
            case _:
                raise AssertionError(f"unexpected row of kind {row.kind!r}")


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
            inbox.receive(row)
    counted = CountedStore(fault.keep(store))
    state = ShardState.open(task, depth, shard, counted)
    with torn_down_if_failed(state.shard):
        timeline = inbox.timeline
        if timeline is None:
            if inbox.control is None:
                state.shard.tear_down()
                return  # this shard has no part in the micro-batch: all rows were for later stages
            timeline = make_timeline(task.program, state.meta, inbox.control, inbox.seen)
        yield from _MicroBatch(task, depth, shard, state, inbox, timeline).run(counted)


@attrs.frozen
class _MicroBatch:
    """One micro-batch of one shard.

    Attributes:
        task: the task of the shard.
        depth: the stage, from 1.
        shard: the id of the shard.
        state: the state of the shard before the micro-batch.
        inbox: what the shard has received.
        timeline: the instants.
    """

    task: Task
    depth: int
    shard: int
    state: ShardState
    inbox: _Inbox
    timeline: Timeline

    def run(self, counted: CountedStore) -> Iterator[Row]:
        """Run the micro-batch, and make the changes durable.

        Args:
            counted: the store of the state, which counts its calls for the report of the stage.
        """
        task, state, timeline = self.task, self.state, self.timeline
        draws = KeptDraws.open(task, self.depth, self.shard, state.shard.machines.values())
        tally = Tally(bundles=next(task.cache.runs))  # the sample of timed bundles continues over runs
        yield from counted_rows(tally, self._output_rows(draws))
        metrics = self._metrics()
        if self.depth == 1:
            note_sources(metrics, task.program, state.meta, self.inbox.control, self.inbox.seen)
            metrics["jumps"] = {label: tuple(jump) for label, jump in timeline.jumps.items()}
        state.commit(task, self.depth, self.shard)
        metrics["state"] = state_sizes(state.shard.machines)
        metrics["clock"] = timeline.at[-1][0] if timeline.at else None
        metrics["moment"] = None if state.shard.is_over else next_moment(task.program, state.meta, state.shard.machines)
        yield task.row_for_commit(Kind.METRICS, metrics)
        tally.of_stage(self.depth, {**counted.counts(), f"cache_{state.how}": 1})
        yield from tally_row(task, tally)

    def _output_rows(self, draws: KeptDraws | None) -> Iterator[Row]:
        """Run the instants, store memoised outputs, then publish weak productions."""
        # Weak productions are published before the state is durable; other output waits for the commit.
        name = f"stage-{self.depth}-shard-{self.shard}"
        opened = PendingWriter(self.task, name) if self.task.program.weak else nullcontext()
        with opened as writer:
            yield from self._run_instants(writer)
            if draws is not None:
                draws.keep()
            if writer is not None:
                yield from writer.finish()

    def _run_instants(self, writer: PendingWriter | None) -> Iterator[Row]:
        """Run the instants in order, and pack the outputs and the reports for later stages."""
        timeline, received = self.timeline, self.inbox.watermarks
        watermarks = dict(timeline.watermarks)
        watermarks.update({producer: WatermarkLane.least(from_shards) for producer, from_shards in received.items()})
        arrivals, reports = self.state.shard.run(timeline.instants, self._inboxes(), watermarks, self._partials())
        yield from pack_panes(self.task, self.state.shard, timeline.at, writer)
        passed = {cut: placed.bundle for cut, placed in arrivals.items()}
        instants = {cut: placed.instants(timeline.at) for cut, placed in arrivals.items()}
        yield from pack_arrivals(self.task, passed, instants, writer)
        yield from self._pack_reports(reports)

    def _pack_reports(self, reports: Mapping[str, WatermarkLane]) -> Iterator[Row]:
        """Yield the watermarks of the output for the stages that it reaches, and the timeline for the next stage.

        Args:
            reports: the watermarks that this shard allows at each instant, by node.
        """
        task, staged, receivers = self.task, self.task.program.staged, self.task.program.shard_ids
        for later, nodes in enumerate(staged.stages[self.depth :], self.depth + 1):
            for name, reported in reports.items():
                if any(node.label in staged.targets(name) for node in nodes):
                    payload = task.packed((name, reported))
                    yield from (Row(receiver, later, Kind.WATERMARK, payload) for receiver in receivers)
        if self.depth < len(staged.stages) and self.shard == receivers[0]:
            payload = task.packed(self.timeline)
            yield from (Row(receiver, self.depth + 1, Kind.TIMELINE, payload) for receiver in receivers)

    def _partials(self) -> dict[str, dict[int, Partials]]:
        """Return the partials of each lifted grouping by the index of their instant in the timeline."""
        by_instant: dict[str, dict[int, Partials]] = {}
        partials = self.inbox.partials
        if not partials:
            return by_instant
        indices = self.timeline.at.indices_of(InstantLane.of(list(partials))).tolist()
        for index, by_cut in zip(indices, partials.values(), strict=True):
            for cut, tables in by_cut.items() if index >= 0 else ():
                by_instant.setdefault(cut, {})[index] = tables
        return by_instant

    def _inboxes(self) -> dict[str, PlacedBundle]:
        """Return the elements whose instant is in the timeline, by cut; the others wait in state for their tick."""
        state, timeline = self.state, self.timeline
        bundles = [*state.meta.waiting, *self.inbox.bundles]
        state.meta.waiting = []
        ticks = np.flatnonzero(timeline.at.steps == 0)
        first = timeline.at[0] if len(timeline) else None
        now = timeline.at[int(ticks[-1])] if len(ticks) else None
        arrivals: defaultdict[str, list[PlacedBundle]] = defaultdict(list)
        for packed in bundles:
            bundle, at = _with_instants(packed, first, now)
            indices = timeline.at.indices_of(at)
            arrived, waiting = np.flatnonzero(indices >= 0), np.flatnonzero(indices < 0)
            if len(arrived):
                ready = PlacedBundle(bundle.take(arrived) if len(waiting) else bundle, Integers(indices[arrived]))
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

    def _metrics(self) -> TaskMetrics:
        state = self.state
        counters = {name: dict(machine.counters) for name, machine in state.shard.machines.items()}
        sources = {name: dict(counts) for name, counts in state.meta.counters.items() if name not in counters}
        watermarks = {
            **state.shard.watermarks,
            **{name: machine.output_watermarks() for name, machine in state.shard.machines.items()},
        }
        return {
            "depth": self.depth,
            "shard": self.shard,
            "counters": counters,
            "sources": sources,
            "watermarks": {name: reported.low for name, reported in watermarks.items()},
            "cache": state.how,
        }


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
