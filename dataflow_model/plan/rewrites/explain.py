"""A plan in words: its stages, the transforms fused in each, and how the groupings window and trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import attrs

from dataflow_model.plan.checks.all_checks import unbounded_collections
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.plan.functions.dofn import CallableDoFn
from dataflow_model.plan.logical.ahead import KeptSink
from dataflow_model.plan.logical.graph import main_inputs, outputs_of
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    ParDo,
    Read,
    Ref,
    Reshuffle,
    ToPairs,
    Write,
)
from dataflow_model.plan.logical.refinements import inherits_from
from dataflow_model.plan.logical.retracted import memoised
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages, stages_of_pass
from dataflow_model.plan.logical.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
)
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.time import Duration, duration_text
from dataflow_model.triggers import AfterWatermark, DefaultTrigger
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.triggers import Trigger

_HOW: Final = {
    AccumulationMode.CLEAR_ALWAYS: "discarding",
    AccumulationMode.CLEAR_BY_DEFAULT: "discarding unless the trigger says otherwise",
    AccumulationMode.ACCUMULATE_BY_DEFAULT: "accumulating unless the trigger says otherwise",
    AccumulationMode.ACCUMULATE_ALWAYS: "accumulating",
}


def explain(plan: Plan) -> str:
    """Describe how a plan will be run.

    The text has one paragraph per stage: each source or keyed transform and, indented, the transforms fused with it,
    which run in the same worker without a shuffle. A transform with several inputs appears under each of them. What
    static side inputs need comes first: it runs ahead of the run.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> windowing = dm.Window.into(dm.FixedWindows("1 hour")).allowed_lateness("2 hours")
        >>> _ = p | dm.Create([("UA", 1)]) | windowing | dm.Sum.per_key() | dm.Values()
        >>> print(explain(p.plan()))
        stage 0
          Create: 1 element from the program
            + Window.into: FixedWindows('1 hour')
        stage 1
          Sum.PerKey: combine by Sum() per key and window
              where: FixedWindows('1 hour')
              when: on time: when the watermark passes the end of the window; late: at each element, for 2 hours
              how: discarding
            + Values: Map
    """
    if not plan.nodes:
        return "an empty pipeline"
    staged = cut_into_stages(plan, changing_sides(plan))
    lines = []
    for number, part in enumerate(staged.passes, 1):
        title = "ahead of the run" if len(staged.passes) == 1 else f"ahead of the run, pass {number}"
        lines += _paragraphs(stages_of_pass(staged, part), f"{title}, ")
    return "\n".join(lines + _paragraphs(staged))


def _paragraphs(staged: StagedPlan, title: str = "") -> list[str]:
    """Return the lines about each stage."""
    plan = staged.plan
    origins = stage_origins(staged)
    memoised_labels = memoised(plan)
    endless = unbounded_collections(plan)
    lifted = lifts(staged, streaming=bool(endless))
    lines = []
    for depth, stage in enumerate([staged.sources, *staged.stages]):
        lines.append(f"{title}stage {depth}")
        for producer in stage:
            unbounded = ", unbounded" if isinstance(producer, Read) and Ref(producer.label) in endless else ""
            lines.append(f"  {producer.label}: {_kind(producer, memoised_labels, lifted)}{unbounded}")
            if isinstance(producer, GroupByKeyAndWindow):
                lines.extend(f"      {line}" for line in _strategy(staged.whole, producer))
            for node in plan.nodes:
                fused = node.label not in staged.cuts or (
                    isinstance(node, Write) and not isinstance(node.sink, KeptSink)
                )
                if fused and node is not producer and producer.label in origins[node.label]:
                    lines.append(f"    + {node.label}: {_kind(node, memoised_labels, lifted)}")
    return lines


def _is_kept(node: Node) -> bool:
    return isinstance(node, Write) and isinstance(node.sink, KeptSink)


def stage_origins(staged: StagedPlan) -> dict[str, frozenset[str]]:
    """Return, for each node, the sources and keyed nodes in whose stage it runs."""
    behind: dict[Ref, frozenset[str]] = {}
    origins: dict[str, frozenset[str]] = {}
    for node in staged.plan.nodes:
        origins[node.label] = frozenset().union(*(behind[ref] for ref in main_inputs(node)))
        begins_stage = node.label in staged.depths
        for ref in outputs_of(node):
            behind[ref] = frozenset({node.label}) if begins_stage else origins[node.label]
    return origins


def _kind(node: Node, memoised_labels: Collection[str], lifted: Collection[str]) -> str:
    match node:
        case Read():
            return node.source.describe()
        case ParDo():
            return _par_do(node, keeps=node.label in memoised_labels)
        case ToPairs():
            value = "the row" if node.value is None else repr(node.value)
            return f"pairs of {node.key!r} and {value}, read as columns where possible"
        case AssignTimestamps():
            back = "" if node.late_data_horizon is None else f", at most {duration_text(node.late_data_horizon)} back"
            return f"event times by {_called(node.fn)}{back}"
        case AssignWindows():
            return repr(node.strategy.window_fn) if node.assigns else f"trigger {node.strategy.trigger!r}"
        case GroupByKeyAndWindow():
            where = ", partly before the shuffle (lifted)" if node.label in lifted else ""
            how = "group" if isinstance(node.combine, GroupFn) else f"combine by {node.combine!r}"
            by = "by key and window" if isinstance(node.combine, GroupFn) else "per key and window"
            return f"{how} {by}{where}{_dropped(node)}"
        case Flatten():
            return f"{len(node.inputs)} collections merged into one"
        case Reshuffle():
            return "redistributed over the workers"
        case Deduplicate():
            return f"the first element with each id; ids are kept for {duration_text(node.horizon)}{_dropped(node)}"
        case Write():
            return f"to {node.sink.describe()}"
        case _:
            assert_never(node)


def _par_do(node: ParDo, *, keeps: bool) -> str:
    called = node.fn.title()
    if isinstance(node.fn, CallableDoFn):
        name = _called(node.fn.fn)
        kind = called.lstrip("_").removesuffix("Fn")
        called = kind if name.startswith("_") else f"{kind}({name})"
    extras = [f"by key and window, with {node.declaration.describe()}"] if node.is_stateful else []
    if node.fn.takes_batches:
        extras.append("on columns" if not node.fn.takes_elements else "on columns where there are columns")
    if keeps:
        extras.append("outputs kept by input value, for retractions")
    if node.side_inputs:
        extras.append("side inputs " + ", ".join(f"{side.ref.label} as {side.view}" for side in node.side_inputs))
    if node.tags:
        extras.append("outputs " + ", ".join(node.tags))
    if node.dead_letters is not None:
        extras.append(f"dead letters to {node.dead_letters}")
    return "; ".join([called, *extras]) + _dropped(node)


def _dropped(node: GroupByKeyAndWindow | Deduplicate | ParDo) -> str:
    return "" if node.dropped is None else f"; dropped elements to {node.dropped}"


def _called(fn: object) -> str:
    name: str = getattr(fn, "__name__", type(fn).__name__)
    return "lambda" if name == "<lambda>" else name


def _strategy(plan: Plan, node: GroupByKeyAndWindow) -> list[str]:
    strategy = node.strategy
    merged = ", already merged" if strategy.window_fn.is_merging and not strategy.merges else ""
    stamped = strategy.timestamp_combiner
    at = "" if stamped is TimestampCombiner.END_OF_WINDOW else f", panes at the {stamped.value} event time"
    inherited = [
        f"inherited: {strategy.trigger!r}, the continuation of {before.strategy.trigger!r} of {before.label!r}"
        for before in inherits_from(plan, node)
    ]
    return [
        f"where: {strategy.window_fn!r}{merged}",
        f"when: {when_panes_are_emitted(strategy, plan.late_data_of(strategy))}",
        *(f"  {line}" for line in inherited),
        f"how: {how_panes_relate(strategy)}{at}",
    ]


def how_panes_relate(strategy: WindowingStrategy) -> str:
    """Return in words how the panes of a window relate to each other.

    Example:
        >>> from dataflow_model.plan.logical.strategy import DEFAULT_STRATEGY
        >>> how_panes_relate(DEFAULT_STRATEGY)
        'discarding'
    """
    how = _HOW[strategy.accumulation_mode]
    if not strategy.retracting:
        return how
    return (
        f"{how} and retracting"
        if strategy.accumulation_mode is AccumulationMode.ACCUMULATE_ALWAYS
        else (f"{how}, and retracting")
    )


def when_panes_are_emitted(strategy: WindowingStrategy, late_data: LateData) -> str:
    """Return in words when panes are emitted, and what happens to late elements.

    Example:
        >>> from dataflow_model.plan.logical.strategy import DEFAULT_STRATEGY
        >>> when_panes_are_emitted(DEFAULT_STRATEGY, LateData.DROP)
        'on time: when the watermark passes the end of the window'
    """
    trigger, reopens = strategy.trigger, late_data is LateData.DUPLICATE_WINDOW
    if strategy.allowed_lateness > Duration(0):
        words = [f"{trigger.describe()}, for {duration_text(strategy.allowed_lateness)}"]
        words += ["after that in a reopened window"] if reopens else []
    else:  # a window expires when the watermark passes its end
        words = [_without_late(trigger).describe()]
        if not isinstance(strategy.window_fn, GlobalWindows):
            words.append(f"late elements {'reopen their window' if reopens else 'are dropped'}")
    words += ["no empty pane on time"] if strategy.on_time is OnTimeBehavior.FIRE_IF_NON_EMPTY else []
    words += ["always a last pane at expiry"] if strategy.closing is ClosingBehavior.FIRE_ALWAYS else []
    return "; ".join(words)


def _without_late(trigger: Trigger) -> Trigger:
    """Return a trigger as far as it matters for elements that are not late."""
    if isinstance(trigger, DefaultTrigger):
        return AfterWatermark()
    return attrs.evolve(trigger, late=None) if isinstance(trigger, AfterWatermark) else trigger
