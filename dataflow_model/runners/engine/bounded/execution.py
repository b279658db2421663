"""A whole plan in one process: each chunk of instants runs through all stages before the next chunk."""

from __future__ import annotations

import operator
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from dataflow_model.metrics.collecting import collecting, count_received_bundles
from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.ahead import without_input_ahead
from dataflow_model.plan.early_end import percentile_that_ends
from dataflow_model.plan.graph import Plan
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.message_sinks import CollectSink
from dataflow_model.plan.nodes import MAIN, ParDo, Ref, SideInput, Write
from dataflow_model.plan.own_objects import with_own_objects
from dataflow_model.plan.stages import changing_sides, cut_into_stages
from dataflow_model.plan.triggering import awaited_percentiles
from dataflow_model.runners.engine.bounded.inputs import InputChunk, Size, chunks_of
from dataflow_model.runners.engine.bundle import windows_apart
from dataflow_model.runners.engine.chunk import PlacedBundle, add_arrived
from dataflow_model.runners.engine.columns.panes import PaneRecords
from dataflow_model.runners.engine.elementwise import Fragment
from dataflow_model.runners.engine.lanes import Repeated, array_of, taken
from dataflow_model.runners.engine.lifetimes import torn_down
from dataflow_model.runners.engine.records import JoinedRecords, records_of
from dataflow_model.runners.engine.shard import StageShard, routed
from dataflow_model.runners.engine.sides import StaticSide
from dataflow_model.runners.engine.timeline import Awaited
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.runners.reporting import CountedAhead, Measured, state_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from dataflow_model.plan.records import Record
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.order_lanes import InstantLane
    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.values import Window

__all__ = [
    "CHUNK",
    "Execution",
    "PanesBySink",
    "StaticSides",
    "part_for",
    "records_at_sink",
    "static_sides",
    "take_panes",
]

PanesBySink: TypeAlias = "dict[str, list[tuple[int, Sequence[Record]]]]"
"""Panes in columns by sink, each table with the place of its instant."""

CHUNK: Final = Size(instants=4_000, elements=20_000)
"""The size at which a chunk ends."""


class Execution:
    """Runs a plan of bounded sources over one shard.

    Args:
        plan: a checked plan.
        clock: the fixed value of the wall clock, for sources without a replay clock; `None` reads the wall clock.
        most: the greatest number of instants in a chunk; the results do not depend on it.

    Attributes:
        watermarks: the current watermarks of each producer.
        tally: the counts of the run, if the runner collects them.
        reached: the current value of the run's clock.
    """

    def __init__(self, plan: Plan, clock: int | None = None, *, most: int = CHUNK.instants) -> None:
        self.plan = plan
        self.clock = clock
        self._size = Size(most, CHUNK.elements)
        staged = cut_into_stages(plan, changing_sides(plan))
        self.staged = with_own_objects(attrs.evolve(staged, plan=without_input_ahead(plan, staged.ahead)))
        self.watermarks: dict[str, Watermarks] = {}
        self.counters: dict[str, Counter[str]] = {node.label: Counter() for node in plan.nodes}
        self.tally = Tally()
        self.reached = 0
        sides = static_sides(staged, clock)
        self._ahead = sides.counted
        self._fragments = {
            read.label: Fragment(self.staged.plan, read.label, self.staged.cuts, sides.values)
            for read in self.staged.sources
        }
        self._awaited = Awaited(awaited_percentiles(plan), percentile_that_ends(plan))
        self._signals: deque[str] = deque()
        lifted = lifts(self.staged, streaming=True, by_instant=True)
        self._shards = [
            StageShard(self.staged, depth + 1, sides.values, lifts=lifted) for depth in range(len(self.staged.stages))
        ]

    def run(self) -> Generator[dict[str, Sequence[Record]]]:
        """Yield the records that reach each sink, chunk by chunk; the generator must be exhausted or closed."""
        with torn_down(*self._shards, *self._fragments.values()):
            for chunk in chunks_of(self.staged, self._through, self._signals, self._size, self.clock, self._awaited):
                yield self._run(chunk)

    def signal(self, name: str) -> None:
        """Send a signal, which takes effect at the start of the next chunk; may be called from any thread."""
        self._signals.append(name)

    def _run(self, chunk: InputChunk) -> dict[str, Sequence[Record]]:
        """Run a chunk stage by stage, and return the records that reach each sink."""
        timeline, arrivals = chunk.timeline, chunk.arrivals
        watermarks = dict(timeline.watermarks)
        panes: PanesBySink = {}
        for shard in self._shards:
            passed, reports = shard.run(timeline.instants, arrivals, watermarks)
            watermarks.update(reports)
            panes.update(take_panes(shard, timeline.at))
            for cut, placed in passed.items():
                add_arrived(arrivals, cut, placed)
        for label, reported in watermarks.items():
            before = self.watermarks.get(label, MIN_WATERMARKS)
            self.watermarks[label] = reported.advanced(before)[-1]
        self.reached = timeline.at[-1][0]
        at, counters = timeline.at, self.counters
        return {
            label: records_at_sink(label, arrivals.get(label), panes.get(label, []), at, counters)
            for label in (sink.label for sink in self.staged.sinks)
            if label in arrivals or label in panes
        }

    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return the counters of each transform."""
        return self._ahead.added_to(self._counted())

    def measured(self, *, commits: int, pending_since: int | None) -> Measured:
        """Return the current measurements of the run."""
        machines = {label: machine for shard in self._shards for label, machine in shard.machines.items()}
        measured = Measured(
            counters=self._counted(),
            watermarks={label: watermarks.low for label, watermarks in self.watermarks.items()},
            tally=self.tally.copy(),
            state={label: (entries, None) for label, (entries, _) in state_sizes(machines).items()},
            clock=self.reached,
            commits=commits,
            pending_since=pending_since,
        )
        return self._ahead.in_measured(measured)

    def _counted(self) -> dict[str, Counter[str]]:
        """Return what the run itself has counted."""
        counted = dict(self.counters)
        for shard in self._shards:
            for label, machine in shard.machines.items():
                counted[label] = machine.counters
        return counted

    def _through(self, label: str, tag: str, bundle: Bundle) -> Arrivals:
        """Run the transforms that are fused with a source."""
        self.counters[label]["elements_out" if tag == MAIN else "dead_letters"] += len(bundle)
        return routed(self.staged, self._fragments[label].run(bundle, tag))


def take_panes(shard: StageShard, at: InstantLane) -> PanesBySink:
    """Return the panes in columns that a shard has produced for sinks since the last call.

    Args:
        shard: the shard.
        at: the instants of the chunk.
    """
    staged = shard.staged
    return {
        cut: [(place, PaneRecords(table, at[place], staged.depth_of(cut) - 1 - shard.depth)) for place, table in tables]
        for cut, tables in shard.take_panes().items()
    }


def records_at_sink(
    label: str,
    arrived: PlacedBundle | None,
    panes: Sequence[tuple[int, Sequence[Record]]],
    at: InstantLane,
    counters: Mapping[str, Counter[str]],
) -> Sequence[Record]:
    """Return the records of a chunk that reach a sink, and count them.

    Args:
        label: the label of the sink.
        arrived: its elements.
        panes: its panes in columns.
        at: the instants of the chunk.
        counters: the counters of each transform.
    """
    placed = (arrived or PlacedBundle()).in_order()
    rows, _ = windows_apart(placed.bundle.windows)
    places = array_of(placed.places if isinstance(rows, range) else taken(placed.places, rows))
    sizes = np.array([*np.bincount(places), *(len(part) for _, part in panes)], np.int64)
    if len(sizes):
        count_received_bundles(label, sizes)
        counters[label]["elements_in"] += int(sizes.sum())
    if not panes:
        return records_of(placed.bundle, placed.instants(at))
    parts = list(panes)  # some panes of a grouping may be columns, and others rows
    for place, bundle in placed.runs():
        parts.append((place, records_of(bundle, Repeated(at[place], len(bundle)))))
    return JoinedRecords([part for _, part in sorted(parts, key=_place_of)])


_place_of = operator.itemgetter(0)


@attrs.frozen
class StaticSides:
    """The static side inputs of a plan.

    Attributes:
        values: their lookups.
        counted: what was counted while they were computed.
    """

    values: dict[SideInput, Callable[[Window], Any]] = attrs.field(factory=dict)
    counted: CountedAhead = attrs.field(factory=CountedAhead)


def static_sides(staged: StagedPlan, clock: int | None = None, but: Collection[SideInput] = ()) -> StaticSides:
    """Compute the static side inputs of a plan.

    Args:
        staged: the plan, with all its sources.
        clock: the fixed value of the wall clock; `None` reads the wall clock.
        but: static side inputs to leave out, because they are computed elsewhere.
    """
    plan = staged.plan
    left_out = {*staged.changing_sides, *but}
    sides = StaticSides()
    for node in plan.nodes:
        if not isinstance(node, ParDo):
            continue
        for side in (side for side in node.side_inputs if side not in left_out):
            part = part_for(plan, side.ref)
            execution = Execution(part, clock)
            with collecting(execution.tally):
                records = [record for reached in execution.run() for record in reached.get(part.nodes[-1].label, ())]
            measured = execution.measured(commits=0, pending_since=None)
            sides.counted.note(staged.ahead, measured.counters, measured.tally)
            sides.values[side] = StaticSide.of(plan, side, records)
    return sides


def part_for(plan: Plan, ref: Ref) -> Plan:
    """Return the part of a plan on which a collection depends; its last node is a sink that collects the collection."""
    needed = {ref.label}
    for node in reversed(plan.nodes):
        if node.label in needed:
            needed.update(source.label for source in node.inputs)
    nodes = tuple(node for node in plan.nodes if node.label in needed)
    collected = Write(label=f"{ref.label}/as a side input", input=ref, sink=CollectSink())
    return Plan((*nodes, collected), plan.strategies, plan.late_data)
