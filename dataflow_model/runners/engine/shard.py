"""One shard of one keyed stage: takes the events of an instant, gives what goes on to later stages and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.metrics.collecting import gave, took
from dataflow_model.plan.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Ref, Reshuffle, Write
from dataflow_model.plan.retracted import retracted_collections
from dataflow_model.plan.stages import side_cut
from dataflow_model.plan.triggering import asks_for_percentile, awaited_percentiles
from dataflow_model.runners.engine.columnar import ColumnarEngine
from dataflow_model.runners.engine.columns.panes import PaneTable
from dataflow_model.runners.engine.deduplicating import DeduplicatingEngine
from dataflow_model.runners.engine.elementwise import Fragment
from dataflow_model.runners.engine.feeding import feed_pairs
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.runners.engine.lifetimes import tear_down_all
from dataflow_model.runners.engine.memoising import MemoEngine
from dataflow_model.runners.engine.order import pass_stages
from dataflow_model.runners.engine.relay import RelayEngine
from dataflow_model.runners.engine.side_join import SideJoinEngine
from dataflow_model.runners.engine.stateful import StatefulEngine
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.plan.lifting import Lift
    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.cells import KeyState
    from dataflow_model.values import Window

__all__ = ["Arrivals", "Engine", "StageShard", "join_arrivals", "least_watermarks", "route"]

Engine: TypeAlias = (
    GroupingEngine | RelayEngine | DeduplicatingEngine | ColumnarEngine | SideJoinEngine | StatefulEngine | MemoEngine
)
Arrivals = dict[str, "Bundle"]
"""Bundles by the cut that takes them, their orders as that cut's stage compares them."""


@attrs.frozen
class _Instant:
    """What happens at one instant, watermarks apart; see `StageShard.instant`."""

    clock: int
    inboxes: Mapping[str, Bundle]
    closes: bool
    partials: Mapping[str, Sequence[tuple[pa.Table, int]]]
    signals: Collection[str]


@attrs.define
class StageShard:
    """The keyed nodes of one stage on one shard, and the fragments behind them.

    Args:
        staged: the chain.
        depth: which stage, from 1.
        side_values: the static side inputs.
        thaw: turns a stored key's bytes into its state.
        lifts: the groupings that are fed in columns.
        follow: whether the job is bounded.

    Attributes:
        panes: panes in columns for sinks, by the sinks' labels, since they were last taken.
        watermarks: what each producer's output watermarks are known to be, which never go back.
    """

    staged: StagedPlan
    depth: int
    side_values: Mapping[SideInput, Callable[[Window], Any]] = attrs.field(factory=dict)
    thaw: Callable[[bytes], KeyState] | None = None
    lifts: Mapping[str, Lift] = attrs.field(factory=dict)
    follow: bool = False
    engines: dict[str, Engine] = attrs.field(init=False, factory=dict)
    panes: dict[str, list[PaneTable]] = attrs.field(init=False, factory=dict)
    watermarks: dict[str, Watermarks] = attrs.field(init=False, factory=dict)
    _awaited: tuple[float, ...] = attrs.field(init=False, default=())
    _tells_percentile: bool = attrs.field(init=False, default=False)
    _fragments: dict[str, Fragment] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Make an engine and a fragment for each keyed node."""
        self._awaited = awaited_percentiles(self.staged.plan)
        self._tells_percentile = asks_for_percentile(self.staged.plan)
        retracted = retracted_collections(self.staged.plan)
        for node in self.staged.stages[self.depth - 1]:
            self.engines[node.label] = self._engine(node, retracted.get(node.inputs[0]))
            self._fragments[node.label] = Fragment(self.staged.plan, node.label, self.staged.cuts, self.side_values)

    def _engine(self, node: Any, source: GroupByKeyAndWindow | None) -> Engine:
        """Return what runs a node; `source` is the grouping that takes back what it was given, if there is one."""
        match node:
            case GroupByKeyAndWindow() if node.label in self.lifts:
                return ColumnarEngine(node, self.lifts[node.label], follow=self.follow)
            case GroupByKeyAndWindow():
                return GroupingEngine(
                    node,
                    self.staged.plan.late_data,
                    self.thaw,
                    self._awaited,
                    takes_back=source is not None,
                    tells_percentile=self._tells_percentile,
                )
            case Reshuffle():
                return RelayEngine(node, self._awaited, tells_percentile=self._tells_percentile)
            case Deduplicate():
                return DeduplicatingEngine(node, self._awaited, tells_percentile=self._tells_percentile)
            case ParDo() if node.is_stateful:
                return StatefulEngine(node, self.staged.plan, self.side_values, self.thaw, self._awaited)
            case ParDo() if source is not None and node.label not in self.staged.side_feeds:
                return MemoEngine(
                    node,
                    self.staged,
                    int(max(self.staged.plan.strategy(node.input).allowed_lateness, source.strategy.allowed_lateness)),
                    self.side_values,
                    self.thaw,
                    self._awaited,
                    tells_percentile=self._tells_percentile,
                )
            case ParDo():
                return SideJoinEngine(node, self.staged, self.side_values)
            case _:
                raise AssertionError(f"{node!r} is not a keyed node")

    def instant(
        self,
        clock: int,
        inboxes: Mapping[str, Bundle],
        watermarks: Mapping[str, Watermarks],
        *,
        closes: bool,
        partials: Mapping[str, Sequence[tuple[pa.Table, int]]] | None = None,
        signals: Collection[str] = (),
    ) -> tuple[Arrivals, dict[str, Watermarks]]:
        """Run the events of one instant.

        Args:
            clock: the processing clock.
            inboxes: the elements for each keyed node of this stage.
            watermarks: what all shards of a producer let its output watermarks be now, where that has changed.
            closes: whether the clock's tick is complete, so that timers at its own time run.
            partials: the partials for each lifted grouping, each with the number of elements in it.
            signals: the names of signals that take effect now.

        Returns:
            what arrives at later stages and sinks, and what this shard lets the output watermarks of its nodes be.
        """
        for producer, reported in watermarks.items():
            self.watermarks[producer] = self.watermarks.get(producer, MIN_WATERMARKS).advance(reported)
        now = _Instant(clock, inboxes, closes, partials or {}, signals)
        arrivals: Arrivals = {}
        outputs: dict[str, Watermarks] = {}
        for label, engine in self.engines.items():
            took(label, len(inboxes.get(label, ())))
            match engine:
                case GroupingEngine():
                    self._group(engine, now, arrivals)
                case ColumnarEngine():
                    self._combine_columns(engine, now, arrivals)
                case StatefulEngine():
                    self._run_stateful(engine, now, arrivals)
                case MemoEngine():
                    self._memoise(engine, now, arrivals)
                case SideJoinEngine():
                    self._join(engine, now, arrivals)
                case RelayEngine():
                    self._relay(engine, now, arrivals)
                case DeduplicatingEngine():
                    self._deduplicate(engine, now, arrivals)
            outputs[label] = engine.output_watermarks()
        return arrivals, outputs

    def behind(self, label: str, output: Bundle, arrivals: Arrivals) -> None:
        """Run the fragment behind a keyed node on what it gave, and add what arrives at later cuts."""
        if output:
            gave(label, len(output))
            route(self.staged, self.depth, self._fragments[label].run(output), arrivals)

    def behind_outputs(self, label: str, outputs: Mapping[str, Bundle], arrivals: Arrivals) -> None:
        """Do the same for a node with tagged outputs."""
        for tag, output in outputs.items():
            gave(label, len(output))
            route(self.staged, self.depth, self._fragments[label].run(output, tag), arrivals)

    def behind_columns(self, label: str, engine: ColumnarEngine, arrivals: Arrivals) -> None:
        """Send a lifted grouping's panes on: in columns where only sinks wait for them, else as elements."""
        consumers = self.staged.plan.consumers(Ref(label))
        direct = all(isinstance(node, Write) for node in consumers)
        for panes in engine.take_panes():
            if direct and isinstance(panes, PaneTable):
                gave(label, len(panes))
                for node in consumers:
                    self.panes.setdefault(node.label, []).append(panes)
            else:
                self.behind(label, panes.bundle() if isinstance(panes, PaneTable) else panes, arrivals)

    def take_panes(self) -> dict[str, list[PaneTable]]:
        """Return the panes in columns since the last call."""
        panes, self.panes = self.panes, {}
        return panes

    def _group(self, engine: GroupingEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        watermarks = self.input_watermarks(label)
        inbox = now.inboxes.get(label)
        if not inbox and not now.signals and engine.pass_by(now.clock, watermarks):
            return
        engine.advance_clock(now.clock)
        if now.signals:
            engine.signal(now.signals)
        if inbox:
            feed_pairs(engine, inbox.in_order())
        engine.advance_watermarks(watermarks)
        if now.closes:
            engine.leave_instant()
        self.behind(label, engine.take_output(), arrivals)

    def _combine_columns(self, engine: ColumnarEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        engine.advance_clock(now.clock)
        for table, elements in now.partials.get(label, ()):
            took(label, elements)
            engine.absorb(table, elements)
        inbox = now.inboxes.get(label)
        if inbox:
            engine.fold(inbox)
        engine.advance_watermarks(self.input_watermarks(label))
        self.behind_columns(label, engine, arrivals)

    def _run_stateful(self, engine: StatefulEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        watermarks = self.input_watermarks(label)
        outputs = engine.instant(now.clock, now.inboxes.get(label), watermarks, closes=now.closes)
        self.behind_outputs(label, outputs, arrivals)

    def _memoise(self, engine: MemoEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        outputs = engine.instant(now.clock, now.inboxes.get(label), self.input_watermarks(label))
        self.behind_outputs(label, outputs, arrivals)

    def _relay(self, engine: RelayEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        inbox = now.inboxes.get(label)
        if inbox:
            engine.relay(inbox.in_order())
        self.stand_relay(engine)
        self.behind(label, engine.take_output(), arrivals)

    def _deduplicate(self, engine: DeduplicatingEngine, now: _Instant, arrivals: Arrivals) -> None:
        label = engine.label
        passed = engine.instant(now.clock, now.inboxes.get(label), self.input_watermarks(label))
        self.behind(label, passed, arrivals)

    def _join(self, engine: SideJoinEngine, now: _Instant, arrivals: Arrivals) -> None:
        """Run the events of one instant of a ParDo with changing side inputs."""
        label = engine.label
        inbox = now.inboxes.get(label)
        sides = [now.inboxes.get(side_cut(label, number)) for number, _ in engine.sides]
        feeds = [self.staged.side_feeds[label][side] for _, side in engine.sides]
        engine.instant(
            now.clock,
            inbox and inbox.in_order(),
            [bundle and bundle.in_order() for bundle in sides],
            self.input_watermarks(label),
            [least_watermarks(feed, self.watermarks) for feed in feeds],
        )
        for tag, output in engine.take_output().items():
            gave(label, len(output))
            route(self.staged, self.depth, engine.behind(output, tag), arrivals)

    def stand_relay(self, engine: RelayEngine) -> None:
        """Take a relay's watermarks on: they follow from its input's."""
        engine.reach(self.input_watermarks(engine.label))

    def input_watermarks(self, label: str) -> Watermarks:
        """Return the watermarks of a node's input: the least over the producers that feed it."""
        return least_watermarks(self.staged.feeds[label], self.watermarks)

    def tear_down(self) -> None:
        """Let the DoFns and combiners go."""
        callers = [one for one in self.engines.values() if not isinstance(one, RelayEngine | DeduplicatingEngine)]
        tear_down_all([*callers, *self._fragments.values()])

    @property
    def is_over(self) -> bool:
        """Whether the input of every node has come to its end, after which nothing is called any more."""
        return all(self.input_watermarks(label).low == MAX_TIMESTAMP for label in self.engines)


def least_watermarks(feed: Mapping[str, int], watermarks: Mapping[str, Watermarks]) -> Watermarks:
    """Return the least of some producers' watermarks, each less what the fragment between holds back."""
    known = ((watermarks.get(producer, MIN_WATERMARKS), back) for producer, back in feed.items())
    return Watermarks.least(reported.less(back) if back else reported for reported, back in known)


def route(staged: StagedPlan, depth: int, arrived: Mapping[str, Bundle], arrivals: Arrivals) -> None:
    """Add what a fragment behind stage `depth` gave to `arrivals`, with orders as the taking stage compares them."""
    for cut, bundle in arrived.items():
        bundle.orders = pass_stages(bundle.orders, staged.depth_of(cut) - 1 - depth)
        if cut in arrivals:
            arrivals[cut].extend(bundle)
        else:
            arrivals[cut] = bundle


def join_arrivals(arrivals: Arrivals, more: Arrivals) -> None:
    """Add what has arrived elsewhere."""
    for cut, bundle in more.items():
        if cut in arrivals:
            arrivals[cut].extend(bundle)
        else:
            arrivals[cut] = bundle
