"""Groupings of panes that refine each other, about which `run()` warns."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import PlanWarning, explain
from dataflow_model.plan.graph import dropped_of, main_inputs
from dataflow_model.plan.nodes import AssignWindows, Deduplicate, GroupByKeyAndWindow, Node, ParDo
from dataflow_model.plan.strategy import TimestampCombiner
from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterBytes,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AfterWatermark,
    AtPeriod,
    OrFinally,
    Trigger,
)
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import Ref
    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["groupings_before", "inherits_from", "keeps_all_panes", "may_refine", "warn_about_refinements"]

_ONCE: Final = (
    AfterBytes,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AtPeriod,
)
"""The leaves that finish when they fire, besides `AfterWatermark`."""
_IN_ROUNDS: Final = (
    "use mode='streaming', or between the two only functions that retractions may pass through, "
    "and windows that do not merge"
)


def warn_about_refinements(plan: Plan, *, in_rounds: bool = False) -> None:
    """Warn about each grouping whose result depends on how often a grouping before it refines its panes.

    * Accumulating panes that are not retracted are counted again with each refinement. There is no warning if a
      stateful function, `Deduplicate`, or a function with the parameter `pane` is between the two groupings, since it
      can choose among the panes.
    * A retraction that has the event time of an element may be late for the grouping that should apply it, unless
      that groups the global window.

    Args:
        plan: the plan, as it is run.
        in_rounds: whether it was rewritten to run in rounds, so that its accumulation modes are not the user's.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> each = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        >>> sums = p | dm.Create([("a", 1)]) | each | "by name" >> dm.Sum.per_key() | dm.Values()
        >>> _ = sums | "in all" >> dm.CombineGlobally(sum)
        >>> with warnings.catch_warnings(record=True) as shown:
        ...     warnings.simplefilter("always")
        ...     warn_about_refinements(p.plan())
        >>> print(shown[0].message)
        'in all/CombinePerKey' groups the accumulating panes of 'by name'. Under Repeatedly(AfterCount(1)), ...
        Hint: use .accumulating_and_retracting() before 'by name'; .discarding() is right only where ...
    """
    for problem in _problems(plan, in_rounds=in_rounds):
        warnings.warn(problem, PlanWarning, stacklevel=3)


def may_refine(strategy: WindowingStrategy) -> bool:
    """Return whether a window, or one that it merges into, may have more than one pane.

    Example:
        >>> from dataflow_model.plan.strategy import WindowingStrategy
        >>> from dataflow_model.triggers import Repeatedly
        >>> may_refine(WindowingStrategy()), may_refine(WindowingStrategy(trigger=Repeatedly(AfterCount(9))))
        (False, True)
    """
    if not strategy.trigger.may_fire(allowed_lateness=strategy.allowed_lateness):
        return False  # its only pane is emitted when the window expires
    return strategy.merges or not _fires_once(strategy.trigger)


def groupings_before(plan: Plan, ref: Ref, through: Callable[[Node], bool]) -> list[GroupByKeyAndWindow]:
    """Return the nearest groupings whose panes are in a collection, through nodes that `through` accepts, in order."""
    refs, seen, labels = [ref], set(), set()
    while refs:
        ref = refs.pop()
        if ref in seen:
            continue
        seen.add(ref)
        before = plan[ref.label]
        if ref == dropped_of(before):
            continue
        if isinstance(before, GroupByKeyAndWindow):
            labels.add(before.label)
        elif through(before):
            refs.extend(main_inputs(before))
    return [
        candidate
        for candidate in plan.nodes
        if isinstance(candidate, GroupByKeyAndWindow) and candidate.label in labels
    ]


def inherits_from(plan: Plan, node: GroupByKeyAndWindow) -> list[GroupByKeyAndWindow]:
    """Return the groupings whose triggers this grouping continues: those before it without windowing in between.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> sums = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> _ = sums | dm.Count.per_key()
        >>> [before.label for before in inherits_from(p.plan(), p.plan()["Count.PerKey"])]
        ['Sum.PerKey']
    """
    return groupings_before(plan, node.input, lambda between: not isinstance(between, AssignWindows))


def keeps_all_panes(node: Node) -> bool:
    """Return whether a transform passes on every pane, and does not choose among them.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([1]) | dm.Map(lambda x, pane: x)
        >>> [keeps_all_panes(node) for node in p.plan().nodes]
        [True, False]
    """
    return _passes_retractions(node) and not (isinstance(node, ParDo) and "pane" in node.metadata)


def _problems(plan: Plan, *, in_rounds: bool) -> Iterator[str]:
    for node in plan.nodes:
        if not isinstance(node, GroupByKeyAndWindow):
            continue
        for before in groupings_before(plan, node.input, keeps_all_panes):
            strategy = before.strategy
            if strategy.accumulates and not strategy.retracting and may_refine(strategy):
                way_out = (
                    f"use .accumulating_and_retracting() before {before.label!r}; .discarding() is right only where "
                    "combining the panes combines the elements, as in a sum of sums or counts, or the greatest of the "
                    "greatest, but not in a mean of means"
                )
                yield explain(
                    f"{node.label!r} groups the accumulating panes of {before.label!r}. Under {strategy.trigger!r}, a "
                    "window may emit several panes, and each contains the elements of the previous ones, so these are "
                    "counted more than once",
                    hint=_IN_ROUNDS if in_rounds else way_out,
                )
        if isinstance(node.strategy.window_fn, GlobalWindows):
            continue  # it drops nothing before the end of the input
        for before in groupings_before(plan, node.input, _passes_retractions):
            strategy = before.strategy
            at = strategy.timestamp_combiner
            if strategy.retracting and at is not TimestampCombiner.END_OF_WINDOW and may_refine(strategy):
                yield explain(
                    f"{node.label!r} groups the panes of {before.label!r}, which emits retractions at the event time "
                    f"of the {at.value} element: a retraction may be late and be dropped",
                    hint=f"leave out .timestamp_combiner({at.value!r}) before {before.label!r}",
                )


def _passes_retractions(node: Node) -> bool:
    return not (isinstance(node, Deduplicate) or (isinstance(node, ParDo) and node.is_stateful))


def _fires_once(trigger: Trigger) -> bool:
    match trigger:
        case AfterWatermark():
            return trigger.early is None and trigger.late is None
        case AfterAny() | AfterAll():
            # `AfterAll` fires when all are ready, and children that fire once have finished by then.
            return all(map(_fires_once, trigger.children))
        case OrFinally():
            return _fires_once(trigger.first)
        case _:
            return isinstance(trigger, _ONCE)
