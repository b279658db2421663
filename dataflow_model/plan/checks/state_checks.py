"""Checks of the stateful DoFns in a plan."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from dataflow_model.errors import NotYetSupported, PlanError, UnsupportedOnRunner
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.functions.windowed import ForeignFn
from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.nodes import ParDo, Read, Ref
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.stages import changing_sides

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def check_state(plan: Plan) -> None:
    """Raise for a stateful DoFn that would process retractions as elements, or whose side inputs change.

    Raises:
        PlanError: after a retracting grouping, unless `process` has the parameter `is_retraction`.
        NotYetSupported: with a side input that changes while the plan runs.
    """
    stateful = [node for node in plan.nodes if isinstance(node, ParDo) and node.is_stateful]
    if not stateful:
        return
    retracted = retracted_collections(plan)
    changing = changing_sides(plan)
    for node in stateful:
        source = retracted.get(node.input)
        if source is not None and "is_retraction" not in inspect.signature(node.fn.user_function()).parameters:
            raise PlanError(
                f"{node.label!r} is stateful, and {source.label!r} before it emits retractions, which it would "
                "count as new values",
                hint=_hint_for_retractions(plan, node, source.label),
            )
        if node.has_side_among(changing):
            raise NotYetSupported(
                f"{node.label!r} is stateful, and its side input changes while the pipeline runs; "
                "no runner supports both together yet",
                hint="look the side input up in a dm.Map before it, or join the two with dm.CoGroupByKey",
            )


def check_clock(plan: Plan) -> None:
    """Raise for a function whose work may outlast the input of a stream whose clock stands still then.

    Raises:
        UnsupportedOnRunner: with the label of the function.
    """
    if not any(isinstance(node, Read) and node.source.has_own_clock for node in plan.nodes):
        return
    for node in plan.nodes:
        if isinstance(node, ParDo) and isinstance(node.fn, ResumingFn):
            raise UnsupportedOnRunner(
                f"{node.label!r} may never end, and waits for a clock, but that of a TestStream or of rows with "
                "processing_time= stands still when these end",
                hint="use LocalRunner() without a checkpoint, or leave out the TestStream or processing_time=",
            )


def check_needed_clock(plan: Plan, *, has_replays: bool) -> None:
    """Raise for a function of another SDK that waits for a clock in a bounded run, which may have none.

    Scripts and sources with `processing_time=` bring one, and so does work in front of the function that may never end.

    Args:
        plan: the plan.
        has_replays: whether the run takes the clock of scripts and sources.

    Raises:
        UnsupportedOnRunner: with the label of the function.
    """
    if has_replays and any(isinstance(node, Read) and node.source.has_own_clock for node in plan.nodes):
        return
    live: set[Ref] = set()
    for node in plan.nodes:
        if not live.isdisjoint(node.inputs) or (isinstance(node, ParDo) and isinstance(node.fn, ResumingFn)):
            live.update(outputs_of(node))
        elif isinstance(node, ParDo) and isinstance(node.fn, ForeignFn) and node.fn.needs_clock:
            raise UnsupportedOnRunner(
                f"{node.label!r} has a timer in processing time, which would never fire: a bounded run has no clock",
                hint="use a timer with TimeDomain.WATERMARK, run a stream with a checkpoint, or read from a TestStream "
                "that advances the clock",
            )


def _hint_for_retractions(plan: Plan, node: ParDo, source: str) -> str:
    """Return what the user can do about the retractions of `source`: the code of a join, for example, is not theirs."""
    functions = {other.label for other in plan.nodes if isinstance(other, ParDo)}
    way_out = (
        "put a grouping with .accumulating() between the two"
        if source in functions
        else "use .accumulating() or .discarding() before it"
    )
    if type(node.fn).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return way_out
    return (
        f"add the parameter `is_retraction` to `process` and reverse the effect of retracted values there, or {way_out}"
    )
