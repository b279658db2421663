"""Rounds: a plan rewritten for the papers' micro-batch engine, which repeatedly processes the newest data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.arguments import positive_duration
from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.checks.retractions import applies_retractions
from dataflow_model.plan.functions.dofn import FlatMapFn, MapFn, UnlessRetractedFn, ValuesFn
from dataflow_model.plan.logical.graph import without_dropped
from dataflow_model.plan.logical.nodes import (
    MAIN,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    ParDo,
    Read,
    Ref,
    Write,
)
from dataflow_model.plan.logical.refinements import groupings_before, keeps_all_panes
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.plan.logical.strategy import AccumulationMode, ClosingBehavior, OnTimeBehavior
from dataflow_model.triggers import AtPeriod, Repeatedly

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import Duration, DurationLike

_VALUES: Final = "values of"
"""The prefix of the labels of the nodes that keep retractions from a transform."""


def check_interval(mode: str, interval: DurationLike | None) -> Duration | None:
    """Return the length of a round; `None` in modes without rounds.

    Raises:
        InvalidArgument: for an interval without rounds, rounds without an interval, or one that is not positive.
    """
    if mode != "microbatch":
        if interval is not None:
            raise InvalidArgument(
                f"`interval` applies only to mode='microbatch', got {interval!r} with mode={mode!r}",
                hint="leave `interval` out, or use mode='microbatch'",
            )
        return None
    hint = "pass interval='1 minute', for example"
    if interval is None:
        raise InvalidArgument("mode='microbatch' needs `interval`, got none", hint=hint)
    return positive_duration("interval", interval, hint)


def in_rounds(plan: Plan, interval: Duration) -> Plan:
    """Return the plan as it runs in rounds of the clock.

    A round is `(start, end]` on the clock, aligned to the epoch. At its end every window that has changed during the
    round emits one accumulating pane. The pane is early: the watermark stays at −∞ and nothing expires until the input
    ends, which ends the last round. The plan's windows apply; its triggers, lateness and estimators are ignored.

    * A grouping retracts the pane before if its strategy says so. So does a grouping whose panes are grouped again or
      are a side input, where each refinement would be one more element; everything else sees only values.
    * A grouping of nothing but panes of groupings emits its own panes at the end of the tick in which they arrive.
    * A fan-out combines in one stage. Its panes would arrive no sooner in two.

    Source: the Dataflow Model paper, section 3.1.2: micro-batch execution (its figure 10).

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> sums = p | dm.Create([("a", 1)]) | dm.Window.into(dm.FixedWindows("2 minutes")) | dm.Sum.per_key()
        >>> _ = sums | dm.Count.per_key()
        >>> first, second = (node.strategy for node in in_rounds(p.plan(), dm.duration("1 minute")).nodes[-2:])
        >>> first.trigger, first.retracting
        (Repeatedly(AtPeriod('1 minute')), True)
        >>> second.trigger, second.retracting
        (Repeatedly(AfterProcessingTime('0 seconds')), False)
    """
    rounds = _triggered(_in_one_stage(plan), interval)
    return _for_values_only(_retracting(rounds), retracted_collections(rounds))


def _in_one_stage(plan: Plan) -> Plan:
    """Return the plan with each fan-out undone."""
    parts = {node.fan_out.parts for node in plan.nodes if isinstance(node, GroupByKeyAndWindow) and node.fan_out}

    def whole(node: Node) -> Node:
        if node.label in parts:
            assert isinstance(node, GroupByKeyAndWindow)  # noqa: S101 - it makes the parts
            if node.dropped is not None:  # an output that stays empty here
                return ParDo(label=node.label, input=node.input, fn=MapFn(_same), tags=(node.dropped,))
            return Flatten(label=node.label, inputs=node.inputs)
        if isinstance(node, GroupByKeyAndWindow) and node.fan_out:
            return attrs.evolve(node, combine=node.fan_out.combine, fan_out=None)
        return node

    return plan.changed(whole)


def _same(element: Any) -> Any:
    return element


def _triggered(plan: Plan, interval: Duration) -> Plan:
    """Return the plan with the triggers and the accumulation of rounds."""
    changing = changing_sides(plan)
    of_rounds: set[Ref] = set()  # collections whose elements are all emitted at the ends of rounds

    def triggered(node: Node) -> Node:
        match node:
            case Read():
                return attrs.evolve(node, source=node.source.in_rounds())
            case AssignWindows():
                node = attrs.evolve(node, strategy=_strategy(node.strategy, interval))
            case GroupByKeyAndWindow():
                strategy = _strategy(node.strategy, interval)
                if node.input in of_rounds:
                    strategy = attrs.evolve(strategy, trigger=strategy.trigger.continuation())
                of_rounds.update(without_dropped(node))
                return attrs.evolve(node, strategy=strategy)
        emits_later = isinstance(node, Deduplicate) or (
            isinstance(node, ParDo) and (node.is_stateful or node.has_side_among(changing))
        )
        if not emits_later and of_rounds.issuperset(node.inputs):
            of_rounds.update(without_dropped(node))
        return node

    rounds = plan.changed(triggered)
    strategies = {ref: _strategy(strategy, interval) for ref, strategy in plan.strategies.items()}
    return attrs.evolve(rounds, strategies=strategies)


def _strategy(strategy: WindowingStrategy, interval: Duration) -> WindowingStrategy:
    return attrs.evolve(
        strategy,
        trigger=Repeatedly(AtPeriod(interval)),
        accumulation_mode=AccumulationMode.ACCUMULATE_ALWAYS,
        on_time=OnTimeBehavior.FIRE_IF_NON_EMPTY,
        closing=ClosingBehavior.FIRE_IF_NON_EMPTY,
        may_lose_data=False,
    )


def _retracting(plan: Plan) -> Plan:
    """Return the plan in which the groupings retract whose panes are grouped again, or are a side input."""
    changing = changing_sides(plan)
    able = plan.changed(_where_retracted)

    def passes(node: Node) -> bool:
        return keeps_all_panes(node) and applies_retractions(node, changing)

    correctable = [
        node.input
        for node in able.nodes
        if isinstance(node, GroupByKeyAndWindow) and applies_retractions(node, changing)
    ]
    correctable += [side.ref for node in able.nodes if isinstance(node, ParDo) for side in node.side_inputs]
    corrected = {before.label for ref in correctable for before in groupings_before(able, ref, passes)}

    def retracting(node: Node) -> Node:
        if isinstance(node, GroupByKeyAndWindow) and node.label in corrected:
            return attrs.evolve(node, strategy=attrs.evolve(node.strategy, retracting=True))
        return node

    rounds = plan.changed(retracting)
    retracted = retracted_collections(rounds)

    def chosen(node: Node) -> Node:
        before = rounds[node.inputs[0].label] if node.inputs else node
        return _where_retracted(node) if not retracted.keys().isdisjoint((*node.inputs, *before.inputs)) else node

    return rounds.changed(chosen)


def _where_retracted(node: Node) -> Node:
    if isinstance(node, ParDo) and isinstance(node.fn, UnlessRetractedFn):
        return attrs.evolve(node, fn=FlatMapFn(node.fn.where_retracted))
    return node


def _for_values_only(plan: Plan, prepared: Collection[Ref]) -> Plan:
    """Return the plan in which retractions reach only groupings and side inputs, and what is prepared for them.

    Args:
        plan: the plan.
        prepared: the collections that may contain retractions by the user's own strategies.
    """
    changing = changing_sides(plan)
    nodes: list[Node] = []
    strategies = dict(plan.strategies)
    for node in plan.nodes:
        if not isinstance(node, Write) and keeps_all_panes(node) and applies_retractions(node, changing):
            nodes.append(node)
            continue
        assert isinstance(node, Write | ParDo | Deduplicate | GroupByKeyAndWindow)  # noqa: S101 - others take them all
        ref = node.input
        if ref in retracted_collections(attrs.evolve(plan, nodes=tuple(nodes))) and ref not in prepared:
            values = Ref(f"{_VALUES} {ref.label}" if ref.tag == MAIN else f"{_VALUES} {ref.label} ({ref.tag})")
            if values not in strategies:
                nodes.append(ParDo(label=values.label, input=ref, fn=ValuesFn()))
                strategies[values] = plan.strategy(ref)
            ref = values
        nodes.append(attrs.evolve(node, input=ref))
    return attrs.evolve(plan, nodes=tuple(nodes), strategies=strategies)
