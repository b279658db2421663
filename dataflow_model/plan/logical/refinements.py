"""Panes that refine each other, and what takes them: `run()` warns, or rejects the plan, as `outcomes` says."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import PlanError, PlanWarning, explain
from dataflow_model.plan.endpoints.outcomes import Firings, Mode, Reader, Verdict, Windows, outcome
from dataflow_model.plan.functions.kernels import Kernel
from dataflow_model.plan.logical.graph import dropped_of, main_inputs
from dataflow_model.plan.logical.nodes import AssignWindows, Deduplicate, GroupByKeyAndWindow, Node, ParDo, Write
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.strategy import LateData, TimestampCombiner
from dataflow_model.time import Duration, duration_text
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
    from collections.abc import Callable, Collection, Iterator

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.plan.logical.strategy import WindowingStrategy

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
_WHEN: Final = {
    Firings.ON_TIME: "each window emits one pane",
    Firings.ONCE: "windows may emit their panes in any order",
}
_IN_ROUNDS: Final = (
    "use mode='streaming', or between the two only functions that retractions may pass through, "
    "and windows that do not merge"
)


@attrs.frozen
class _Problem:
    """Something that is not right.

    Attributes:
        verdict: whether to warn or to reject the plan.
        message, way_out: as in an error.
    """

    verdict: Verdict
    message: str
    way_out: str


def check_refinements(plan: Plan, *, in_rounds: bool = False) -> None:
    """Check each sink and grouping that takes the panes of a grouping against the rules of `outcomes`.

    * The outputs of a stateful function that takes them back count as retracting panes, which are emitted early.
    * A function with the parameter `pane`, a stateful function or a `Deduplicate` in between can choose among the
      panes, so nothing is checked behind it. Behind a function with the parameter `window`, the keys of a table may
      contain the window, so it is assumed that they do.
    * There is also a warning about a retraction that has the event time of an element: it may be late for the grouping
      that should apply it, unless that groups the global window.

    Args:
        plan: the plan, as it is run.
        in_rounds: whether it was rewritten to run in rounds, so that its accumulation modes are not the user's.

    Raises:
        PlanError: for a sink that would hold a wrong result.

    Warns:
        PlanWarning: for a result that is only right if its reader knows how to read it, or not right at all.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> each = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        >>> sums = p | dm.Create([("a", 1)]) | each | "by name" >> dm.Sum.per_key() | dm.Values()
        >>> _ = sums | "in all" >> dm.CombineGlobally(sum)
        >>> with warnings.catch_warnings(record=True) as shown:
        ...     warnings.simplefilter("always")
        ...     check_refinements(p.plan())
        >>> print(shown[0].message)
        'in all/CombinePerKey' groups the accumulating panes of 'by name'. Under Repeatedly(AfterCount(1)), ...
        Hint: use .accumulating_and_retracting() before 'by name'; .discarding() is right only where ...
    """
    problems = [*_problems(plan, in_rounds=in_rounds)]
    for problem in problems:
        if problem.verdict is Verdict.REJECTED:
            raise PlanError(problem.message, hint=f"{problem.way_out} (docs/how.md has a table of what is right)")
    for problem in problems:
        warnings.warn(explain(problem.message, hint=problem.way_out), PlanWarning, stacklevel=3)


def firings_of(strategy: WindowingStrategy, late_data: LateData | None = None) -> list[Firings]:
    """Return when the windows of a grouping may emit panes.

    Args:
        strategy: the grouping's.
        late_data: the pipeline's default.

    Example:
        >>> import dataflow_model as dm
        >>> hours = dm.Window.into(dm.FixedWindows("1 hour"))
        >>> firings_of(hours.strategy), firings_of(hours.allowed_lateness("1 day").strategy)
        ([<Firings.ON_TIME: 'on time'>], [<Firings.LATE: 'late'>])
    """
    lateness = strategy.allowed_lateness
    if not strategy.trigger.may_fire(allowed_lateness=lateness):
        firings = [Firings.ON_TIME]
    elif not may_refine(strategy):
        firings = [Firings.ONCE]
    elif lateness == Duration(0):
        firings = [Firings.EARLY]
    else:
        is_early = strategy.trigger.may_fire(allowed_lateness=Duration(0))
        firings = [Firings.EARLY_AND_LATE if is_early else Firings.LATE]
    reopens = (strategy.late_data or late_data) is LateData.DUPLICATE_WINDOW
    return [*firings, Firings.REOPENED] if reopens and not strategy.window_fn.is_global else firings


def may_refine(strategy: WindowingStrategy) -> bool:
    """Return whether a window, or one that it merges into, may have more than one pane.

    Example:
        >>> from dataflow_model.plan.logical.strategy import WindowingStrategy
        >>> from dataflow_model.triggers import Repeatedly
        >>> may_refine(WindowingStrategy()), may_refine(WindowingStrategy(trigger=Repeatedly(AfterCount(9))))
        (False, True)
    """
    if not strategy.trigger.may_fire(allowed_lateness=strategy.allowed_lateness):
        return False  # its only pane is emitted when the window expires
    return strategy.merges or not _fires_once(strategy.trigger)


def groupings_before(plan: Plan, ref: Ref, through: Callable[[Node], bool]) -> list[GroupByKeyAndWindow]:
    """Return the nearest groupings whose panes are in a collection, through nodes that `through` accepts, in order."""
    return [node for node in _nearest(plan, ref, through) if isinstance(node, GroupByKeyAndWindow)]


def _nearest(plan: Plan, ref: Ref, through: Callable[[Node], bool]) -> list[GroupByKeyAndWindow | ParDo]:
    """Return the nearest groupings before a collection, and the nearest functions that take back their outputs."""
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
            continue
        if isinstance(before, ParDo) and before.retracts and ref.tag != before.dead_letters:
            labels.add(before.label)
        if through(before):
            refs.extend(main_inputs(before))
    return [node for node in plan.nodes if isinstance(node, GroupByKeyAndWindow | ParDo) and node.label in labels]


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


def _problems(plan: Plan, *, in_rounds: bool) -> Iterator[_Problem]:
    retracted = retracted_collections(plan)
    for node in plan.nodes:
        if not isinstance(node, GroupByKeyAndWindow | Write):
            continue
        for before in _nearest(plan, node.input, keeps_all_panes):
            if isinstance(before, ParDo):
                problem = _of_outputs(plan, before, node)
            else:
                problem = _of_panes(plan, before, node, retracted, in_rounds=in_rounds)
            if problem is not None:
                yield problem
        if isinstance(node, Write) or isinstance(node.strategy.window_fn, GlobalWindows):
            continue  # it drops nothing before the end of the input
        for before in groupings_before(plan, node.input, _passes_retractions):
            strategy = before.strategy
            at = strategy.timestamp_combiner
            if strategy.retracting and at is not TimestampCombiner.END_OF_WINDOW and may_refine(strategy):
                yield _Problem(
                    Verdict.WARNED,
                    f"{node.label!r} groups the panes of {before.label!r}, which emits retractions at the event time "
                    f"of the {at.value} element: a retraction may be late and be dropped",
                    f"leave out .timestamp_combiner({at.value!r}) before {before.label!r}",
                )


def _of_panes(
    plan: Plan,
    before: GroupByKeyAndWindow,
    node: GroupByKeyAndWindow | Write,
    retracted: Collection[Ref],
    *,
    in_rounds: bool,
) -> _Problem | None:
    """Return what is not right about a node that takes the panes of a grouping."""
    strategy = before.strategy
    mode = Mode.ACCUMULATING if strategy.accumulates else Mode.DISCARDING
    if strategy.retracting and node.input in retracted:  # in rounds, a sink may be passed values only
        mode = Mode.RETRACTING
    windows = Windows.MERGE if strategy.merges else Windows.VANISH if before.input in retracted else Windows.STAY
    reader = (
        _grouping_as_reader(before, node)
        if isinstance(node, GroupByKeyAndWindow)
        else _sink_as_reader(plan, before, strategy, node)
    )
    answers = [(firings, outcome(mode, firings, windows, reader)) for firings in firings_of(strategy, plan.late_data)]
    wrong = [answer for answer in answers if answer[1].verdict is not Verdict.RIGHT]
    if not wrong:
        return None
    wrong.reverse()  # so that what reopens windows is named first
    firings, answer = next((answer for answer in wrong if answer[1].verdict is Verdict.REJECTED), wrong[0])
    verb = "groups" if isinstance(node, GroupByKeyAndWindow) else "writes"
    lateness = strategy.allowed_lateness
    late = "" if lateness == Duration(0) else f" and {duration_text(lateness)} of allowed lateness"
    when = _WHEN.get(firings, "a window may emit several panes")
    return _Problem(
        answer.verdict,
        f"{node.label!r} {verb} the {mode.value} panes of {before.label!r}. Under {strategy.trigger!r}{late}, {when}, "
        f"and {answer.why}",
        _IN_ROUNDS
        if in_rounds and isinstance(node, GroupByKeyAndWindow)
        else answer.way_out.replace("{grouping}", repr(before.label)),
    )


def _of_outputs(plan: Plan, before: ParDo, node: GroupByKeyAndWindow | Write) -> _Problem | None:
    """Return what is not right about a node that takes the outputs of a function that takes them back."""
    if isinstance(node, GroupByKeyAndWindow):  # see `check_retractions`
        return None
    reader = _sink_as_reader(plan, before, plan.strategy(before.input), node)
    answer = outcome(Mode.RETRACTING, Firings.EARLY, Windows.VANISH, reader)
    if answer.verdict is Verdict.RIGHT:
        return None
    return _Problem(
        answer.verdict,
        f"{node.label!r} writes the outputs of {before.label!r}, which takes them back, and {answer.why}",
        answer.way_out.replace("{grouping}", repr(before.label)),
    )


def _grouping_as_reader(before: GroupByKeyAndWindow, node: GroupByKeyAndWindow) -> Reader:
    whole = node.combine.own_kernel in {Kernel.COUNT, Kernel.MEAN} or before.combine.own_kernel is Kernel.MEAN
    return Reader.WHOLES if whole and node.fan_out is None else Reader.PARTS


def _sink_as_reader(
    plan: Plan, before: GroupByKeyAndWindow | ParDo, strategy: WindowingStrategy, node: Write
) -> Reader:
    def reaches(through: Callable[[Node], bool]) -> bool:
        """Return whether the panes reach the sink through transforms that `through` accepts."""
        return before in _nearest(plan, node.input, lambda between: keeps_all_panes(between) and through(between))

    has_window = strategy.window_fn.is_global or not reaches(
        lambda between: not (isinstance(between, ParDo) and "window" in between.metadata)
    )
    keeps_windows = reaches(lambda between: not (isinstance(between, AssignWindows) and between.assigns))
    return node.sink.reader(has_window=has_window, keeps_windows=keeps_windows)


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
