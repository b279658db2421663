"""One shard of one keyed stage: takes the events of an instant, gives what goes on to later stages and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import InvalidType, explain
from dataflow_model.plan.nodes import GroupByKeyAndWindow, Reshuffle
from dataflow_model.runners.engine.elementwise import Fragment
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.runners.engine.relay import RelayEngine
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.cells import KeyState
    from dataflow_model.values import Window

__all__ = ["Arrivals", "StageShard", "feed_pairs", "join_arrivals", "route"]

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
    """

    staged: StagedPlan
    depth: int
    side_values: Mapping[SideInput, Callable[[Window], Any]] = attrs.field(factory=dict)
    thaw: Callable[[bytes], KeyState] | None = None
    engines: dict[str, GroupingEngine | RelayEngine] = attrs.field(init=False, factory=dict)
    watermarks: dict[str, int] = attrs.field(init=False, factory=dict)
    _fragments: dict[str, Fragment] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Make an engine and a fragment for each keyed node."""
        for node in self.staged.stages[self.depth - 1]:
            self.engines[node.label] = self._engine(node)
            self._fragments[node.label] = Fragment(self.staged.plan, node.label, self.staged.cuts, self.side_values)

    def _engine(self, node: Any) -> GroupingEngine | RelayEngine:
        match node:
            case GroupByKeyAndWindow():
                return GroupingEngine(node, self.staged.plan.late_data, self.thaw)
            case Reshuffle():
                return RelayEngine(node)
            case _:
                raise AssertionError(f"{node!r} is no keyed node")

    def instant(
        self, clock: int, inboxes: Mapping[str, Bundle], watermarks: Mapping[str, int], *, closes: bool
    ) -> tuple[Arrivals, dict[str, int]]:
        """Run the events of one instant.

        Args:
            clock: the processing clock.
            inboxes: the elements for each keyed node of this stage.
            watermarks: what producers' output watermarks are now, those that have changed.
            closes: whether the clock's tick is complete, so that timers at its own time run.

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
            if isinstance(engine, RelayEngine):
                if inbox:
                    engine.relay(inbox.in_order())
                engine.watermark = outputs[label] = watermark
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

    def input_watermark(self, label: str) -> int:
        """Return the low watermark of a node's input: the least over the producers that feed it."""
        return input_watermark(self.staged, label, self.watermarks)

    def tear_down(self) -> None:
        """Let the DoFns go."""
        for fragment in self._fragments.values():
            fragment.tear_down()


def input_watermark(staged: StagedPlan, label: str, watermarks: Mapping[str, int]) -> int:
    """Return the least of the producers' watermarks, each less what the fragment between holds back."""
    least = int(MAX_TIMESTAMP)
    for producer, back in staged.feeds[label].items():
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
                explain(f"{engine.label!r} groups (key, value) pairs, got {value!r}", hint="add dm.WithKeys(…) before it")
            )
        try:
            if follow:
                engine.advance_watermark(time)
            engine.element(value[0], value[1], time, windows, order)
        except Exception as error:
            raise user_error(error, engine.label, value, hint=None) from error
