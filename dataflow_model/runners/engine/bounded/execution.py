"""A whole plan in one process: every chunk of instants runs through every stage before the next."""

from __future__ import annotations

import operator
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.metrics.collecting import took_several
from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.early_end import percentile_that_ends
from dataflow_model.plan.graph import Plan
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.nodes import MAIN, ParDo, Ref, SideInput, Write
from dataflow_model.plan.sinks import CollectSink
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.plan.triggering import awaited_percentiles
from dataflow_model.runners.engine.bounded.inputs import InputChunk, Size, chunks_of
from dataflow_model.runners.engine.chunk import PlacedBundle, add_arrived
from dataflow_model.runners.engine.columns.panes import PaneRecords
from dataflow_model.runners.engine.elementwise import Fragment
from dataflow_model.runners.engine.lanes import Repeated, array_of
from dataflow_model.runners.engine.lifetimes import torn_down
from dataflow_model.runners.engine.records import JoinedRecords, records_of
from dataflow_model.runners.engine.shard import StageShard, route
from dataflow_model.runners.engine.sides import StaticSide
from dataflow_model.runners.engine.timeline import Awaited
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.runners.reporting import Measured, state_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from dataflow_model.plan.sinks import Record
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.values import Window

__all__ = ["Execution", "part_for", "side_values"]

_MOST_ELEMENTS: Final = 20_000
"""A chunk with so many elements ends."""


class Execution:
    """Runs a plan of bounded sources over one shard.

    Args:
        plan: a checked plan.
        clock: the wall clock's one value, for sources without a replay clock; `None` reads the wall.
        most: how many instants a chunk has at most; the answers do not depend on it.

    Attributes:
        watermarks: how far those of each producer have come.
        tally: what was counted on the way, where the runner has set it up.
        reached: how far the clock of the run has come.
    """

    def __init__(self, plan: Plan, clock: int | None = None, *, most: int = 4_000) -> None:
        self.plan = plan
        self.clock = clock
        self._size = Size(most, _MOST_ELEMENTS)
        dynamic = dynamic_sides(plan)
        self.staged = cut_into_stages(plan, dynamic)
        self.watermarks: dict[str, Watermarks] = {}
        self.counters: dict[str, Counter[str]] = {node.label: Counter() for node in plan.nodes}
        self.tally = Tally()
        self.reached = 0
        sides = side_values(plan, clock, but=dynamic)
        self._fragments = {
            read.label: Fragment(plan, read.label, self.staged.cuts, sides) for read in self.staged.sources
        }
        self._awaited = Awaited(awaited_percentiles(plan), percentile_that_ends(plan))
        self._signals: deque[str] = deque()
        lifted = lifts(self.staged, streaming=True, by_instant=True)
        self._shards = [
            StageShard(self.staged, depth + 1, sides, lifts=lifted) for depth in range(len(self.staged.stages))
        ]

    def run(self) -> Generator[dict[str, Sequence[Record]]]:
        """Yield what reaches each sink, chunk by chunk; run it to the end, or close it."""
        with torn_down(*self._shards, *self._fragments.values()):
            for chunk in chunks_of(self.staged, self._through, self._signals, self._size, self.clock, self._awaited):
                yield self._run(chunk)

    def signal(self, name: str) -> None:
        """Let a signal take effect at the start of the next chunk; called from any thread."""
        self._signals.append(name)

    def _run(self, chunk: InputChunk) -> dict[str, Sequence[Record]]:
        """Run a chunk stage by stage, and return what reaches each sink."""
        arrivals, watermarks = chunk.arrivals, dict(chunk.watermarks)
        panes: dict[str, list[tuple[int, Sequence[Record]]]] = {}
        for shard in self._shards:
            passed, reports = shard.run(chunk.instants, arrivals, watermarks)
            watermarks.update(reports)
            for cut, tables in shard.take_panes().items():
                stages = self.staged.depth_of(cut) - 1 - shard.depth
                panes[cut] = [(place, PaneRecords(table, chunk.at[place], stages)) for place, table in tables]
            for cut, placed in passed.items():
                add_arrived(arrivals, cut, placed)
        for label, reported in watermarks.items():
            known = self.watermarks.get(label, MIN_WATERMARKS)
            self.watermarks[label] = reported.advanced(known)[-1]
        self.reached = chunk.at[-1][0]
        records: dict[str, Sequence[Record]] = {}
        for sink in self.staged.sinks:
            placed, several = arrivals.get(sink.label, PlacedBundle()).in_order(), panes.get(sink.label, [])
            sizes = np.array([*np.bincount(array_of(placed.places)), *(len(some) for _, some in several)], np.int64)
            if several:  # some panes of a grouping may be columns, and others rows
                for place, bundle in placed.runs():
                    several.append((place, records_of(bundle, Repeated(chunk.at[place], len(bundle)))))
                records[sink.label] = JoinedRecords([some for _, some in sorted(several, key=_place_of)])
            elif len(placed):
                records[sink.label] = records_of(placed.bundle, placed.instants(chunk.at))
            if len(sizes):
                took_several(sink.label, sizes)
                self.counters[sink.label]["elements_in"] += int(sizes.sum())
        return records

    def metrics(self) -> dict[str, Counter[str]]:
        """Return the counters of each transform."""
        counted = dict(self.counters)
        for shard in self._shards:
            for label, engine in shard.engines.items():
                counted[label] = engine.counters
        return counted

    def measured(self, *, commits: int, pending_since: int | None) -> Measured:
        """Return what is known of the run now."""
        engines = {label: engine for shard in self._shards for label, engine in shard.engines.items()}
        return Measured(
            counters=self.metrics(),
            watermarks={label: watermarks.low for label, watermarks in self.watermarks.items()},
            tally=self.tally.copy(),
            state={label: (entries, None) for label, (entries, _) in state_sizes(engines).items()},
            clock=self.reached,
            commits=commits,
            pending_since=pending_since,
        )

    def _through(self, label: str, tag: str, bundle: Bundle) -> Arrivals:
        """Run what is fused behind a source."""
        self.counters[label]["elements_out" if tag == MAIN else "dead_letters"] += len(bundle)
        arrivals: Arrivals = {}
        route(self.staged, 0, self._fragments[label].run(bundle, tag), arrivals)
        return arrivals


_place_of = operator.itemgetter(0)


def side_values(
    plan: Plan, clock: int | None = None, but: Collection[SideInput] = ()
) -> Mapping[SideInput, Callable[[Window], Any]]:
    """Run what the static side inputs need, and return their lookups.

    Args:
        plan: the plan.
        clock: the wall clock's one value; `None` reads the wall.
        but: the side inputs that are left out, because they change while the plan runs.
    """
    changing = set(map(id, but))
    values: dict[SideInput, Callable[[Window], Any]] = {}
    for node in plan.nodes:
        if not isinstance(node, ParDo):
            continue
        for side in (side for side in node.side_inputs if id(side) not in changing):
            values[side] = StaticSide(side, _collect(plan, side.ref, clock), plan.strategy(side.ref).accumulates)
    return values


def _collect(plan: Plan, ref: Ref, clock: int | None) -> list[Record]:
    """Run the part of a plan that one collection depends on, and return its elements."""
    part = part_for(plan, ref)
    label = part.nodes[-1].label
    return [record for records in Execution(part, clock).run() for record in records.get(label, ())]


def part_for(plan: Plan, ref: Ref) -> Plan:
    """Return the part of a plan that one collection depends on; its last node is a sink that keeps the collection."""
    wanted = {ref.label}
    for node in reversed(plan.nodes):
        if node.label in wanted:
            wanted.update(source.label for source in node.inputs)
    nodes = tuple(node for node in plan.nodes if node.label in wanted)
    kept = Write(label=f"{ref.label}/as a side input", input=ref, sink=CollectSink())
    return Plan((*nodes, kept), plan.strategies, plan.late_data)
