"""Rounds: a plan rewritten for the papers' micro-batch engine, which repeatedly processes the newest data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.nodes import AssignWindows, GroupByKeyAndWindow, Read
from dataflow_model.plan.strategy import AccumulationMode, ClosingBehavior, OnTimeBehavior
from dataflow_model.time import Duration, DurationLike, duration
from dataflow_model.triggers import AtPeriod, Repeatedly

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import Node
    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["check_interval", "in_rounds"]


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
    if interval is None:
        raise InvalidArgument(
            "mode='microbatch' needs `interval`, got none", hint="pass interval='1 minute', for example"
        )
    length = duration(interval)
    if length <= Duration(0):
        raise InvalidArgument(
            f"`interval` must be positive, got {length!r}", hint="pass interval='1 minute', for example"
        )
    return length


def in_rounds(plan: Plan, interval: Duration) -> Plan:
    """Return the plan as it runs in rounds of the clock.

    A round is `(start, end]` on the clock, aligned to the epoch. At its end every window that has changed during the
    round emits one accumulating pane. The pane is early: the watermark stays at −∞ and nothing expires until the input
    ends, which ends the last round. The plan's windows apply; its triggers, modes, lateness and estimators are ignored.

    Source: the Dataflow Model paper, section 3.1.2: micro-batch execution (its figure 10).

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Window.into(dm.FixedWindows("2 minutes")) | dm.Sum.per_key()
        >>> in_rounds(p.plan(), dm.duration("1 minute")).nodes[-1].strategy.trigger
        Repeatedly(AtPeriod('1 minute'))
    """
    return attrs.evolve(
        plan,
        nodes=tuple(_node(node, interval) for node in plan.nodes),
        strategies={ref: _strategy(strategy, interval) for ref, strategy in plan.strategies.items()},
    )


def _node(node: Node, interval: Duration) -> Node:
    match node:
        case Read():
            return attrs.evolve(node, source=node.source.in_rounds())
        case AssignWindows() | GroupByKeyAndWindow():
            return attrs.evolve(node, strategy=_strategy(node.strategy, interval))
        case _:
            return node


def _strategy(strategy: WindowingStrategy, interval: Duration) -> WindowingStrategy:
    return attrs.evolve(
        strategy,
        trigger=Repeatedly(AtPeriod(interval)),
        accumulation_mode=AccumulationMode.ACCUMULATE_ALWAYS,
        retracting=False,
        on_time=OnTimeBehavior.FIRE_IF_NON_EMPTY,
        closing=ClosingBehavior.FIRE_IF_NON_EMPTY,
        may_lose_data=False,
    )
