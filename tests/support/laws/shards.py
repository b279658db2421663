"""One grouping on one shard or several, driven event by event; whoever drives it cuts the bundles and moves the state.

`Shards` is what a runner does with a keyed stage, without a runner: it sends elements to the shard of their key, tells
all shards the watermarks and clock, and can put all state to bytes, and go on elsewhere from the bytes alone.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.plan.logical.triggering import awaited_percentiles
from dataflow_model.runners.engine.collections.sink_records import records_of
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.order import of_row
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.machines.shard import StageShard, join_arrivals
from dataflow_model.runners.engine.protocol.sharding import rows_by_shard
from dataflow_model.runners.engine.state.resharding import Share, keys_of_share
from dataflow_model.testing import TestStream, panes_of
from dataflow_model.values import NO_FIRING
from tests.support.instants import run_instant
from tests.support.reference.grouping import GroupingEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.values import Window

_UPSTREAM, _GROUP, _SINK = "upstream", "group", "panes"


@attrs.define
class ReferenceShard(StageShard):
    """A stage whose groupings the reference engine runs."""

    def _grouping(self, node: GroupByKeyAndWindow, *, takes_back: bool) -> KeyedMachine:
        return GroupingEngine(
            node,
            self.staged.plan.late_data,
            self.staged.percentiles,
            takes_back=takes_back,
            records_percentile=self.staged.records_percentiles,
        )


@attrs.frozen
class Element:
    """An element on its way to the grouping, or one that is taken back."""

    key: str
    value: int
    event_time: int
    windows: tuple[Window, ...]
    number: int
    update: Update | None = None


def staged(strategy: WindowingStrategy, *, takes_back: bool) -> StagedPlan:
    """Return the chain whose second stage is the grouping; with `takes_back` the first one retracts."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    before = dm.Window.into(dm.GlobalWindows())
    if takes_back:
        before = before.accumulating_and_retracting()
    pairs = pipeline | TestStream().add(1, 0, key="k") | before | _UPSTREAM >> dm.Sum.per_key()
    sums = pairs | "where" >> dm.Window.into(strategy) | _GROUP >> dm.Sum.per_key()
    _ = sums | _SINK >> dm.io.Collect()
    return cut_into_stages(pipeline.plan())


class Shards:
    """A keyed stage.

    Args:
        chain: from `staged`.
        count: how many shards.
        on_objects: whether the reference engine runs the grouping instead of the core.
    """

    def __init__(self, chain: StagedPlan, count: int, *, on_objects: bool = True) -> None:
        self.chain = chain
        self.on_objects = on_objects
        self.panes: list[dm.Pane] = []
        self.instants = 0
        self.output_watermark = int(dm.MIN_TIMESTAMP)
        strategy = chain.plan[_GROUP].strategy  # type: ignore[union-attr]
        self.stays_at_the_end = strategy.timestamp_combiner is dm.TimestampCombiner.END_OF_WINDOW
        self._kept: dict[bytes, Any] = {}
        self._shards = [self._new() for _ in range(count)]

    def instant(
        self,
        clock: int,
        watermark: int,
        percentiles: Sequence[int] = (),
        elements: Sequence[Element] = (),
        signals: Sequence[str] = (),
        *,
        closes: bool = False,
    ) -> None:
        """Run the events of one instant on every shard, and keep the panes in their total order."""
        inboxes = self._by_shard(_bundle(elements, clock), len(self._shards))
        arrivals: dict[str, Bundle] = {}
        outputs = []
        for number, shard in enumerate(self._shards):
            passed, watermarks = run_instant(
                shard,
                clock,
                {_GROUP: inboxes[number]} if number in inboxes else {},
                {_UPSTREAM: Watermarks.of(watermark, percentiles)},
                closes=closes,
                signals=signals,
            )
            join_arrivals(arrivals, passed)
            outputs.append(watermarks[_GROUP].low)
            higher = [*watermarks[_GROUP].percentiles, watermarks[_GROUP].low]
            assert higher == sorted(higher, reverse=True), "a percentile is behind a higher one"
        bundle = arrivals.get(_SINK, Bundle()).in_order()
        panes = panes_of(records_of(bundle, [(clock, self.instants)] * len(bundle)))
        held = [pane for pane in panes if pane.info.timing is dm.PaneTiming.ON_TIME and not pane.is_retraction]
        if self.stays_at_the_end:
            overtaken = [pane for pane in held if int(pane.timestamp) < self.output_watermark]
            assert not overtaken, "the watermark passed pending work"
        self.output_watermark = max(self.output_watermark, min(outputs))
        self.panes += panes
        self.instants += 1

    def move(self, count: int) -> None:
        """Put all state to bytes and go on from the bytes, on as many new shards."""
        counters: dict[str, int] = {}
        for shard in self._shards:
            engine = shard.machines[_GROUP]
            self._kept.update(engine.settle())
            for name, count_ in engine.counters.items():
                counters[name] = counters.get(name, 0) + count_
        engines = [shard.machines[_GROUP] for shard in self._shards]
        clocks_of = [engine.clocks() for engine in engines]
        assert all(clocks == clocks_of[0] for clocks in clocks_of), "shards have different clocks"
        self._kept = {key: entry for key, entry in self._kept.items() if entry is not None}
        frozen = pickle.dumps((self._kept, clocks_of[0], self._shards[0].watermarks))
        self._shards = [self._new() for _ in range(count)]
        self._kept, clocks, watermarks = pickle.loads(frozen)
        for number, shard in enumerate(self._shards):
            engine = shard.machines[_GROUP]
            engine.apply(keys_of_share([self._kept], Share(number, count)))
            engine.set_clocks(**clocks)
            shard.watermarks = dict(watermarks)
        self._shards[0].machines[_GROUP].counters.update(counters)

    def _by_shard(self, bundle: Bundle, count: int) -> dict[int, Bundle]:
        node = self.chain.taker(_GROUP)
        assert isinstance(node, GroupByKeyAndWindow)
        return {shard: bundle.take(rows) for shard, rows in rows_by_shard(node, bundle, count).items()}

    @property
    def counters(self) -> dict[str, int]:
        """What the shards have counted, together; without what is 0."""
        total: dict[str, int] = {}
        for shard in self._shards:
            for name, count in shard.machines[_GROUP].counters.items():
                total[name] = total.get(name, 0) + count
        return {name: count for name, count in sorted(total.items()) if count}

    @property
    def awaited(self) -> tuple[float, ...]:
        """The percentiles below 100 that the trigger waits for."""
        return awaited_percentiles(self.chain.plan)

    def _new(self) -> StageShard:
        make = ReferenceShard if self.on_objects else StageShard
        return make(self.chain, 2, is_durable=True)


def _bundle(elements: Sequence[Element], clock: int) -> Bundle:
    bundle = Bundle()
    for element in elements:
        order = of_row("source", element.number)
        bundle.append(
            (element.key, element.value), element.event_time, element.windows, NO_FIRING, order, clock, element.update
        )
    return bundle
