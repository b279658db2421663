"""Checks of a plan before any data are read, independent of the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import PlanError
from dataflow_model.plan.checks.record_ids import check_record_ids
from dataflow_model.plan.checks.retractions import check_retractions
from dataflow_model.plan.checks.side_windows import check_side_windows
from dataflow_model.plan.checks.sink_directories import check_sink_directories
from dataflow_model.plan.checks.state_checks import check_state
from dataflow_model.plan.logical.ahead import cut_ahead
from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.nodes import Flatten, GroupByKeyAndWindow, ParDo, Read, Write
from dataflow_model.plan.logical.refinements import groupings_before
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.plan.logical.triggering import check_percentiles
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.plan.logical.strategy import WindowingStrategy


def check(plan: Plan, *, drained: bool = False) -> None:
    """Raise `PlanError` for a plan that could never emit output, has two clocks, or has two sinks in one directory.

    Args:
        plan: the plan.
        drained: whether unbounded inputs end at their current position, so that their groupings do emit output.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> check(p.plan())
    """
    _check_clocks(plan)
    check_state(plan)
    check_retractions(plan)
    check_percentiles(plan, changing_sides(plan))
    check_side_windows(plan, changing_sides(plan))
    check_record_ids(plan)
    check_sink_directories(plan)
    if not drained:
        _check_that_groupings_fire(plan)
        _check_that_side_inputs_appear(plan)


def check_sinks(plan: Plan, *, streaming: bool) -> None:
    """Check that each sink can be written to, without what earlier runs wrote, and accepts a stream if it gets one.

    Args:
        plan: the plan.
        streaming: whether the run is a stream, which writes to its sinks commit by commit, also from bounded inputs.

    Raises:
        SinkError: for an output that cannot be written, or for a bounded run that would double that of another one.
        PlanError: for a sink that does not accept a stream.
    """
    unbounded = unbounded_collections(plan)
    writes = [node for node in plan.nodes if isinstance(node, Write)]
    for node in writes if not streaming else ():  # a stream checks it once it knows whether it is new
        node.sink.check_earlier()
    for node in writes:
        node.sink.check()
        if streaming or node.input in unbounded:
            node.sink.check_unbounded()


def unbounded_collections(plan: Plan) -> frozenset[Ref]:
    """Return the unbounded collections: those that depend on an unbounded source.

    An unbounded side input does not make a collection unbounded.
    """
    unbounded: set[Ref] = set()
    for node in plan.nodes:
        match node:
            case Read():
                endless = not node.source.is_bounded
            case Flatten():
                endless = any(ref in unbounded for ref in node.inputs)
            case _:
                endless = node.inputs[0] in unbounded
        if endless:
            unbounded.update(outputs_of(node))
    return frozenset(unbounded)


def _check_that_groupings_fire(plan: Plan) -> None:
    unbounded = unbounded_collections(plan)
    for node in plan.nodes:
        if not isinstance(node, GroupByKeyAndWindow) or node.input not in unbounded:
            continue
        strategy = node.strategy
        if _waits_for_the_end(strategy):
            raise PlanError(
                f"{node.label!r} would never emit anything: its input is unbounded, so under {strategy.trigger!r} "
                "the watermark never passes the end of the global window",
                hint="put dm.Window.into(dm.FixedWindows(…)) before it, "
                "or dm.Window.trigger(dm.Repeatedly(dm.AfterCount(…)))",
            )


def _check_that_side_inputs_appear(plan: Plan) -> None:
    """Check side inputs that no grouping has made: their elements appear when their window is passed or triggered."""
    unbounded = unbounded_collections(plan)
    for node in plan.nodes:
        for side in node.side_inputs if isinstance(node, ParDo) else ():
            strategy = plan.strategy(side.ref)
            if side.ref not in unbounded or not _waits_for_the_end(strategy):
                continue
            if groupings_before(plan, side.ref, lambda _: True):
                continue
            raise PlanError(
                f"{node.label!r} would wait forever for its side input {side.ref.label!r}, which is unbounded: under "
                f"{strategy.trigger!r} the watermark never passes the end of the global window",
                hint="put dm.Window.into(dm.FixedWindows(…)) before the side input and before the main input, "
                "or dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))) before the side input",
            )


def _waits_for_the_end(strategy: WindowingStrategy) -> bool:
    return strategy.window_fn.is_global and not strategy.trigger.may_fire(allowed_lateness=Duration(0))


def _check_clocks(plan: Plan) -> None:
    # Elements of `Create` arrive at the first tick of any clock, and what static side inputs need is read before it.
    rest = cut_ahead(plan, changing_sides(plan)).rest
    reads = [node for node in rest.nodes if isinstance(node, Read)]
    scripts = [node.label for node in reads if node.source.as_script is not None]
    others = [node for node in reads if node.source.has_own_clock or node.source.as_elements is None]
    others = [node for node in others if node.source.as_script is None]
    if scripts and others:
        raise PlanError(
            f"a pipeline must have one clock, but {scripts[0]!r} scripts it and {others[0].label!r} has another",
            hint="add the rows to the script, or test the two separately",
        )
    replayed = [node.label for node in others if node.source.processing_time is not None]
    walled = [node.label for node in others if node.source.processing_time is None]
    if replayed and walled:
        has_table = any(node.source.opens_empty for node in others)
        raise PlanError(
            f"a pipeline must have one clock, but {replayed} use a replay clock and {walled} use the wall clock",
            hint="read the table once, without dm.io.ReadAgain(…), which follows the wall clock"
            if has_table
            else "pass processing_time='column' to all of them or to none",
        )
