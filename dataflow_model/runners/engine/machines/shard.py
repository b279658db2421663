"""One shard of one keyed stage: it runs a chunk of instants and returns the elements for later stages and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs

from dataflow_model.metrics.collecting import count_emitted, count_received
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.logical.nodes import MAIN, Deduplicate, GroupByKeyAndWindow, ParDo, Ref, Reshuffle, Write
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.stages import side_cut
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.lifetimes import tear_down_all
from dataflow_model.runners.engine.grouping.keyed import CoreMachine
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.lanes.chunk import Chunk, PlacedBundle, SideChunk, add_arrived
from dataflow_model.runners.engine.lanes.order import by_producer, pass_stages
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, MIN_WATERMARKS, WatermarkLane, Watermarks
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
from dataflow_model.runners.engine.machines.deduplicating import DeduplicatingMachine
from dataflow_model.runners.engine.machines.interval_join import IntervalJoinMachine
from dataflow_model.runners.engine.machines.memoising import MemoMachine
from dataflow_model.runners.engine.machines.relay import RelayMachine
from dataflow_model.runners.engine.machines.resuming import ResumingMachine
from dataflow_model.runners.engine.machines.side_join import SideJoinMachine
from dataflow_model.runners.engine.machines.stateful import StatefulMachine
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import Retracting, SideInput
    from dataflow_model.plan.logical.stages import KeyedNode, StagedPlan
    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Instants, Partials, Produced
    from dataflow_model.runners.engine.lanes.pane_tables import PaneTable
    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.values import Window

_NOTHING: Final = PlacedBundle()

Arrivals = dict[str, "Bundle"]
"""Bundles by the cut that takes them, their orders as that cut's stage compares them."""


@attrs.define
class StageShard:
    """The keyed nodes of one stage on one shard, and the fragments after them.

    Args:
        staged: the chain.
        depth: which stage, from 1.
        side_values: the static side inputs.
        is_durable: whether the machines' changes are made durable, with `settle`.
        lifts: the groupings whose input arrives in columns.
        is_bounded: whether it runs buckets of a bounded job, with `run_bounded`, instead of instants.

    Attributes:
        machines: the machine of each node, by label.
        panes: panes in columns for sinks, by the sinks' labels, since they were last taken; each table with the index
            of its instant.
        watermarks: the output watermarks of each producer, as far as they are known; they never go backward.
    """

    staged: StagedPlan
    depth: int
    side_values: Mapping[SideInput, Callable[[Window], Any]] = attrs.field(factory=dict)
    is_durable: bool = False
    lifts: Mapping[str, Lift] = attrs.field(factory=dict)
    is_bounded: bool = False
    machines: dict[str, KeyedMachine] = attrs.field(init=False, factory=dict)
    panes: dict[str, list[tuple[int, PaneTable]]] = attrs.field(init=False, factory=dict)
    watermarks: dict[str, Watermarks] = attrs.field(init=False, factory=dict)
    _fragments: dict[str, Fragment] = attrs.field(init=False, factory=dict)
    _indices: dict[str, int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Make a machine and a fragment for each keyed node."""
        retracted = retracted_collections(self.staged.plan)
        for index, node in enumerate(self.staged.stages[self.depth - 1]):
            self._indices[node.label] = index
            self.machines[node.label] = self._machine(node, retracted.get(node.inputs[0]))
            self._fragments[node.label] = Fragment(self.staged.plan, node.label, self.staged.cuts, self.side_values)

    def _machine(self, node: KeyedNode, source: Retracting | None) -> KeyedMachine:
        """Return the machine that runs a node; `source` is what emits the retractions that may reach it, if any."""
        percentiles, records_percentile = self.staged.percentiles, self.staged.records_percentiles
        match node:
            case GroupByKeyAndWindow() if node.label in self.lifts:
                return ColumnarMachine(node, self.lifts[node.label], is_bounded=self.is_bounded)
            case GroupByKeyAndWindow():
                return self._grouping(node, takes_back=source is not None)
            case Reshuffle():
                return RelayMachine(node, percentiles, records_percentile=records_percentile)
            case Deduplicate():
                return DeduplicatingMachine(node, percentiles, records_percentile=records_percentile)
            case ParDo() if node.declaration.joins:
                return IntervalJoinMachine(node, percentiles, is_durable=self.is_durable)
            case ParDo() if isinstance(node.fn, ResumingFn):
                return ResumingMachine(node, self.staged.plan, self.side_values, percentiles)
            case ParDo() if node.is_stateful:
                return StatefulMachine(node, self.staged.plan, self.side_values, percentiles)
            case ParDo() if source is not None and node.label not in self.staged.side_feeds:
                return MemoMachine(
                    node,
                    self.staged,
                    int(max(self.staged.plan.strategy(node.input).allowed_lateness, source.allowed_lateness)),
                    self.side_values,
                    percentiles,
                    records_percentile=records_percentile,
                )
            case ParDo():
                return SideJoinMachine(node, self.staged, self.side_values)
            case _:
                assert_never(node)

    def _grouping(self, node: GroupByKeyAndWindow, *, takes_back: bool) -> KeyedMachine:
        """Return the machine of a grouping that is not lifted; `takes_back` if its input may contain retractions."""
        late_data, records = self.staged.plan.late_data, self.staged.records_percentiles
        machine = DurableMachine if self.is_durable else CoreMachine
        return machine(node, late_data, self.staged.percentiles, takes_back=takes_back, records_percentile=records)

    def run(
        self,
        instants: Instants,
        inboxes: Mapping[str, PlacedBundle],
        watermarks: Mapping[str, Sequence[Watermarks]],
        partials: Mapping[str, Mapping[int, Partials]] | None = None,
    ) -> tuple[dict[str, PlacedBundle], dict[str, WatermarkLane]]:
        """Run a chunk.

        Args:
            instants: its instants.
            inboxes: the elements for the cuts of this stage; others are left alone.
            watermarks: by producer, the output watermarks that all its shards allow at each instant; a producer that is
                missing keeps its watermarks.
            partials: for each lifted grouping the partials by the index of their instant.

        Returns:
            the elements for later stages and sinks by cut, and the output watermarks that this shard allows at each
            instant by node.
        """
        known = self._advanced(watermarks, len(instants))
        arrivals: dict[str, PlacedBundle] = {}
        reports: dict[str, WatermarkLane] = {}
        for label, machine in self.machines.items():
            chunk = Chunk(
                instants,
                inboxes.get(label, _NOTHING).in_order(),
                least_by_instant(self.staged.feeds[label], known, len(instants)),
                (partials or {}).get(label, {}),
                self._sides(label, inboxes, known, len(instants)),
            )
            produced = machine.run(chunk)
            reports[label] = WatermarkLane.of(produced.watermarks)
            self._pass_on(label, produced, arrivals)
        return arrivals, reports

    def run_bounded(self, buckets: Mapping[str, Bucket]) -> dict[str, Bundle]:
        """Run a bucket of a bounded job, and return the elements for later stages and sinks by cut.

        Args:
            buckets: by keyed node, all that its keys in the bucket have.
        """
        arrivals: dict[str, PlacedBundle] = {}
        for label, bucket in buckets.items():
            count_received(label, len(bucket.elements))
            self._pass_on(label, self.machines[label].run_bounded(bucket), arrivals)
        return {cut: placed.bundle for cut, placed in arrivals.items()}

    def take_panes(self) -> dict[str, list[tuple[int, PaneTable]]]:
        """Return the panes in columns since the last call."""
        panes, self.panes = self.panes, {}
        return panes

    def _advanced(self, watermarks: Mapping[str, Sequence[Watermarks]], count: int) -> dict[str, WatermarkLane]:
        """Return the watermarks of each producer at each of `count` instants, and remember the last ones."""
        known = {producer: WatermarkLane.standing(reached, count) for producer, reached in self.watermarks.items()}
        for producer, reported in watermarks.items():
            before = self.watermarks.get(producer, MIN_WATERMARKS)
            known[producer] = WatermarkLane.of(reported).advanced(before)
            self.watermarks[producer] = known[producer][-1] if count else before
        return known

    def _sides(
        self,
        label: str,
        inboxes: Mapping[str, PlacedBundle],
        known: Mapping[str, WatermarkLane],
        count: int,
    ) -> list[SideChunk]:
        """Return the elements and watermarks of a ParDo's changing side inputs, in the order of the side inputs."""
        feeds = self.staged.side_feeds.get(label)
        if feeds is None:
            return []
        node = self.staged.plan[label]
        assert isinstance(node, ParDo)  # noqa: S101 - nothing else has side inputs
        return [
            SideChunk(
                dict(inboxes.get(side_cut(label, number), _NOTHING).in_order().runs()),
                least_by_instant(feeds[side], known, count),
            )
            for number, side in enumerate(node.side_inputs)
            if side in feeds
        ]

    def _pass_on(self, label: str, produced: Produced, arrivals: dict[str, PlacedBundle]) -> None:
        """Run the fragment after a node on the node's output. Panes that only sinks receive stay in columns."""
        outputs = produced.outputs
        if produced.panes:
            consumers = self.staged.plan.consumers(Ref(label))
            if all(isinstance(node, Write) for node in consumers):
                for index, panes in produced.panes:
                    count_emitted(label, len(panes))
                    for node in consumers:
                        self.panes.setdefault(node.label, []).append((index, panes))
            else:
                rows = outputs.setdefault(MAIN, PlacedBundle())
                for index, panes in produced.panes:
                    rows.add(index, panes.bundle())
                outputs[MAIN] = rows.in_order()
        for tag in sorted(outputs):
            count_emitted(label, len(outputs[tag]))
            for cut, placed in self._fragments[label].run_placed(outputs[tag], tag).items():
                orders = by_producer(placed.bundle.orders, self._indices[label])
                placed.bundle.orders = pass_stages(orders, self.staged.depth_of(cut) - 1 - self.depth)
                add_arrived(arrivals, cut, placed)

    @property
    def labels(self) -> list[str]:
        """The labels of the transforms that it runs."""
        return [label for node, fragment in self._fragments.items() for label in (node, *fragment.labels)]

    def tear_down(self) -> None:
        """Tear down the DoFns and combiners."""
        tear_down_all([*self.machines.values(), *self._fragments.values()])

    @property
    def is_unfinished(self) -> bool:
        """Whether a node has work left that may outlast its input."""
        machines = self.machines.values()
        return any(isinstance(machine, ResumingMachine) and machine.is_unfinished for machine in machines)

    @property
    def is_over(self) -> bool:
        """Whether the input of every node has ended and no work is left, after which no function is called any more."""
        producers = {producer for label in self.machines for producer in self.staged.feeds[label]}
        ended = all(self.watermarks.get(producer, MIN_WATERMARKS).low == MAX_TIMESTAMP for producer in producers)
        return ended and not self.is_unfinished


def least_by_instant(feed: Mapping[str, int], known: Mapping[str, WatermarkLane], count: int) -> WatermarkLane:
    """Return the minimum of several producers' watermarks at each instant, each held back by the fragment in between.

    Args:
        feed: the producers, with how far each is held back.
        known: by producer, its watermarks at each instant; nothing is known of a producer that is missing.
        count: the number of instants.
    """
    if not feed:
        return WatermarkLane.standing(MAX_WATERMARKS, count)
    unknown = WatermarkLane.standing(MIN_WATERMARKS, count)
    return WatermarkLane.least([known.get(producer, unknown).less(back) for producer, back in feed.items()])


def routed(staged: StagedPlan, arrived: Arrivals) -> Arrivals:
    """Return the outputs of a fragment after a source, with orders as the receiving stages compare them."""
    for cut, bundle in arrived.items():
        bundle.orders = pass_stages(bundle.orders, staged.depth_of(cut) - 1)
    return arrived


def join_arrivals(arrivals: Arrivals, more: Arrivals) -> None:
    """Add the bundles of `more` to `arrivals`."""
    for cut, bundle in more.items():
        if cut in arrivals:
            arrivals[cut].extend(bundle)
        else:
            arrivals[cut] = bundle
