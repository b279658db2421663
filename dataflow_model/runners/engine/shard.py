"""One shard of one keyed stage: takes the events of an instant, gives what goes on to later stages and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.errors import InvalidType, explain
from dataflow_model.plan.nodes import GroupByKeyAndWindow, ParDo, Ref, Reshuffle, Write
from dataflow_model.plan.stages import side_cut
from dataflow_model.runners.engine.columnar import ColumnarEngine
from dataflow_model.runners.engine.columns.panes import PaneTable
from dataflow_model.runners.engine.elementwise import Fragment
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.runners.engine.relay import RelayEngine
from dataflow_model.runners.engine.side_join import SideJoinEngine
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.plan.lifting import Lift
    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.cells import KeyState
    from dataflow_model.values import Window

__all__ = ["Arrivals", "Engine", "StageShard", "feed_pairs", "join_arrivals", "route"]

Engine: TypeAlias = GroupingEngine | RelayEngine | ColumnarEngine | SideJoinEngine
Arrivals = dict[str, "Bundle"]
"""Bundles by the cut that takes them, their orders as that cut's stage compares them."""


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
    """

    staged: StagedPlan
    depth: int
    side_values: Mapping[SideInput, Callable[[Window], Any]] = attrs.field(factory=dict)
    thaw: Callable[[bytes], KeyState] | None = None
    lifts: Mapping[str, Lift] = attrs.field(factory=dict)
    follow: bool = False
    engines: dict[str, Engine] = attrs.field(init=False, factory=dict)
    panes: dict[str, list[PaneTable]] = attrs.field(init=False, factory=dict)
    watermarks: dict[str, int] = attrs.field(init=False, factory=dict)
    _fragments: dict[str, Fragment] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Make an engine and a fragment for each keyed node."""
        for node in self.staged.stages[self.depth - 1]:
            self.engines[node.label] = self._engine(node)
            self._fragments[node.label] = Fragment(self.staged.plan, node.label, self.staged.cuts, self.side_values)

    def _engine(self, node: Any) -> Engine:
        match node:
            case GroupByKeyAndWindow() if node.label in self.lifts:
                return ColumnarEngine(node, self.lifts[node.label], follow=self.follow)
            case GroupByKeyAndWindow():
                return GroupingEngine(node, self.staged.plan.late_data, self.thaw)
            case Reshuffle():
                return RelayEngine(node)
            case ParDo():
                return SideJoinEngine(node, self.staged, self.side_values)
            case _:
                raise AssertionError(f"{node!r} is no keyed node")

    def instant(
        self,
        clock: int,
        inboxes: Mapping[str, Bundle],
        watermarks: Mapping[str, int],
        *,
        closes: bool,
        partials: Mapping[str, Sequence[tuple[pa.Table, int]]] | None = None,
    ) -> tuple[Arrivals, dict[str, int]]:
        """Run the events of one instant.

        Args:
            clock: the processing clock.
            inboxes: the elements for each keyed node of this stage.
            watermarks: what producers' output watermarks are now, those that have changed.
            closes: whether the clock's tick is complete, so that timers at its own time run.
            partials: the partials for each lifted grouping, each with the number of elements in it.

        Returns:
            what arrives at later stages and sinks, and the output watermarks of this stage's nodes.
        """
        for producer, watermark in watermarks.items():
            self.watermarks[producer] = max(watermark, self.watermarks.get(producer, int(MIN_TIMESTAMP)))
        arrivals: Arrivals = {}
        outputs: dict[str, int] = {}
        for label, engine in self.engines.items():
            watermark = self.input_watermark(label)
            inbox = inboxes.get(label)
            if isinstance(engine, ColumnarEngine):
                engine.advance_clock(clock)
                for table, elements in (partials or {}).get(label, ()):
                    engine.absorb(table, elements)
                if inbox:
                    engine.fold(inbox)
                engine.advance_watermark(watermark)
                outputs[label] = engine.output_watermark()
                self.behind_columns(label, engine, arrivals)
                continue
            if isinstance(engine, SideJoinEngine):
                self._join(engine, clock, inboxes, arrivals)
                outputs[label] = engine.output_watermark()
                continue
            if isinstance(engine, RelayEngine):
                if inbox:
                    engine.relay(inbox.in_order())
                engine.watermark = outputs[label] = watermark
            elif not inbox and engine.pass_by(clock, watermark):
                outputs[label] = engine.output_watermark()
                continue
            else:
                engine.advance_clock(clock)
                if inbox:
                    feed_pairs(engine, inbox.in_order())
                engine.advance_watermark(watermark)
                if closes:
                    engine.leave_instant()
                outputs[label] = engine.output_watermark()
            self.behind(label, engine.take_output(), arrivals)
        return arrivals, outputs

    def behind(self, label: str, output: Bundle, arrivals: Arrivals) -> None:
        """Run the fragment behind a keyed node on what it gave, and add what arrives at later cuts."""
        if output:
            route(self.staged, self.depth, self._fragments[label].run(output), arrivals)

    def behind_columns(self, label: str, engine: ColumnarEngine, arrivals: Arrivals) -> None:
        """Send a lifted grouping's panes on: in columns where only sinks wait for them, else as elements."""
        consumers = self.staged.plan.consumers(Ref(label))
        direct = all(isinstance(node, Write) for node in consumers)
        for panes in engine.take_panes():
            if direct and isinstance(panes, PaneTable):
                for node in consumers:
                    self.panes.setdefault(node.label, []).append(panes)
            else:
                self.behind(label, panes.bundle() if isinstance(panes, PaneTable) else panes, arrivals)

    def take_panes(self) -> dict[str, list[PaneTable]]:
        """Return the panes in columns since the last call."""
        panes, self.panes = self.panes, {}
        return panes

    def _join(self, engine: SideJoinEngine, clock: int, inboxes: Mapping[str, Bundle], arrivals: Arrivals) -> None:
        """Run the events of one instant of a ParDo with changing side inputs."""
        label = engine.label
        inbox = inboxes.get(label)
        sides = [inboxes.get(side_cut(label, number)) for number, _ in engine.sides]
        feeds = [self.staged.side_feeds[label][side] for _, side in engine.sides]
        engine.instant(
            clock,
            inbox and inbox.in_order(),
            [bundle and bundle.in_order() for bundle in sides],
            self.input_watermark(label),
            [least_watermark(feed, self.watermarks) for feed in feeds],
        )
        for tag, output in engine.take_output().items():
            route(self.staged, self.depth, engine.behind(output, tag), arrivals)

    def input_watermark(self, label: str) -> int:
        """Return the low watermark of a node's input: the least over the producers that feed it."""
        return input_watermark(self.staged, label, self.watermarks)

    def tear_down(self) -> None:
        """Let the DoFns go."""
        for fragment in self._fragments.values():
            fragment.tear_down()
        for engine in self.engines.values():
            if isinstance(engine, SideJoinEngine):
                engine.tear_down()


def input_watermark(staged: StagedPlan, label: str, watermarks: Mapping[str, int]) -> int:
    """Return the low watermark of a cut's input."""
    return least_watermark(staged.feeds[label], watermarks)


def least_watermark(feed: Mapping[str, int], watermarks: Mapping[str, int]) -> int:
    """Return the least of some producers' watermarks, each less what the fragment between holds back."""
    least = int(MAX_TIMESTAMP)
    for producer, back in feed.items():
        watermark = watermarks.get(producer, int(MIN_TIMESTAMP))
        if back and int(MIN_TIMESTAMP) < watermark < MAX_TIMESTAMP:
            watermark = max(watermark - back, int(MIN_TIMESTAMP))
        least = min(least, watermark)
    return least


def route(staged: StagedPlan, depth: int, arrived: Mapping[str, Bundle], arrivals: Arrivals) -> None:
    """Add what a fragment behind stage `depth` gave to `arrivals`, with orders as the taking stage compares them."""
    for cut, bundle in arrived.items():
        passed = staged.depth_of(cut) - 1 - depth
        if passed:
            prefix = (1,) * passed
            bundle.orders = [(*prefix, *order) for order in bundle.orders]
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


def feed_pairs(engine: GroupingEngine, inbox: Bundle, *, follow: bool = False) -> None:
    """Give a grouping its elements in order.

    Args:
        engine: the grouping.
        inbox: the elements.
        follow: whether the watermark follows their event times, as in a bounded job.

    Raises:
        InvalidType: for an element that is no pair.
        UserCodeError: when a combiner, a window function or a trigger of the user's raises.
    """
    for value, time, windows, order in zip(inbox.values, inbox.times, inbox.windows, inbox.orders, strict=True):
        if not isinstance(value, tuple) or len(value) != 2:  # noqa: PLR2004 - a pair
            raise InvalidType(
                explain(
                    f"{engine.label!r} groups (key, value) pairs, got {value!r}", hint="add dm.WithKeys(…) before it"
                )
            )
        try:
            if follow:
                engine.advance_watermark(time)
            engine.element(value[0], value[1], time, windows, order)
        except Exception as error:
            raise user_error(error, engine.label, value, hint=None) from error
