"""Options for single groupings of a pipeline, by their labels: a percentile of the watermark, and retractions."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2

from dataflow_model.errors import InvalidArgument, UnsupportedOnRunner
from dataflow_model.plan.checks.retractions import check_retractions
from dataflow_model.plan.functions.windowed import ForeignFn
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.triggers import AfterEach, AfterWatermark, DefaultTrigger
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.strategy import WindowingStrategy

_SDF: Final = common_urns.sdf_components
_SPLITTABLE: Final = frozenset(
    {
        _SDF.PAIR_WITH_RESTRICTION.urn,
        _SDF.SPLIT_AND_SIZE_RESTRICTIONS.urn,
        _SDF.TRUNCATE_SIZED_RESTRICTION.urn,
        _SDF.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn,
    }
)
"""The parts of splittable functions."""


def with_percentiles(plan: Plan, settings: Iterable[str]) -> Plan:
    """Return a plan some of whose groupings also emit an early pane, at a percentile of the watermark.

    Args:
        plan: the plan of a pipeline of Beam's.
        settings: for each grouping, its label or that of a transform around it, `=`, and the percentile.

    Raises:
        InvalidArgument: for another form, a percentile outside `(0, 100)`, a label without groupings, or a grouping
            whose trigger does not wait for the end of its window alone.
    """
    for setting in settings:
        label, _, number = setting.rpartition("=")
        percentile = _percentile(number, setting)
        option = f"--dm_watermark_percentile={setting}"
        plan = _changed(plan, label, option, lambda node: _early(node, percentile))  # noqa: B023 - called at once
    return plan


def with_retractions(plan: Plan, labels: Iterable[str], retractable: Iterable[str]) -> Plan:
    """Return a plan some of whose groupings retract each pane before the next one of its window.

    Args:
        plan: the plan of a pipeline of Beam's.
        labels: the labels of the groupings, or of transforms around them.
        retractable: the labels of the functions that may run on retractions though nothing reads their outputs.

    Raises:
        InvalidArgument: for a label without groupings, or a grouping whose panes do not accumulate.
        UnsupportedOnRunner: for retractions that would reach a function that cannot take them.
        PlanError: the same.
    """
    labels = tuple(labels)
    for label in labels:
        plan = _changed(plan, label, f"--dm_retracting={label}", _retracting)
    if labels:
        _check_readers(plan, tuple(retractable))
        check_retractions(plan)
    return plan


def is_under(label: str, outer: str) -> bool:
    """Return whether a label is that of a transform, or of one inside of it.

    Example:
        >>> is_under("sums/Group", "sums"), is_under("sums 2/Group", "sums")
        (True, False)
    """
    return f"{label}/".startswith(f"{outer}/")


def _percentile(number: str, setting: str) -> float:
    try:
        percentile = float(number)
    except ValueError:
        percentile = 0
    if not 0 < percentile < LOW_WATERMARK:
        raise InvalidArgument(
            f"`dm_watermark_percentile` must be LABEL=PERCENTILE with a percentile between 0 and 100, got {setting!r}",
            hint="write --dm_watermark_percentile='Sum per team=99', for example",
        )
    return percentile


def _changed(plan: Plan, label: str, option: str, change: Callable[[GroupByKeyAndWindow], WindowingStrategy]) -> Plan:
    """Return the plan with the strategies of the groupings under a label changed."""
    groupings = {node.label for node in plan.nodes if isinstance(node, GroupByKeyAndWindow)}
    chosen = {name for name in groupings if is_under(name, label)}
    if not chosen:
        raise InvalidArgument(
            f"the option {option!r} names no grouping; the groupings are {sorted(groupings)}",
            hint="use one of these labels, or that of a transform around one",
        )

    def changed(node: Any) -> Any:
        return attrs.evolve(node, strategy=change(node)) if node.label in chosen else node

    return plan.changed(changed)


def _early(node: GroupByKeyAndWindow, percentile: float) -> WindowingStrategy:
    trigger = node.strategy.trigger
    if not isinstance(trigger, DefaultTrigger) and not (isinstance(trigger, AfterWatermark) and trigger.early is None):
        raise InvalidArgument(
            f"{node.label!r} has the trigger {trigger!r}, beside which it is not known what a percentile "
            "of the watermark should do",
            hint="use a percentile with the default trigger, or with AfterWatermark(late=…)",
        )
    return attrs.evolve(node.strategy, trigger=AfterEach(AfterWatermark(percentile=percentile), trigger))


def _retracting(node: GroupByKeyAndWindow) -> WindowingStrategy:
    if not node.strategy.accumulates:
        raise InvalidArgument(
            f"{node.label!r} discards what it has emitted, so it has nothing to retract",
            hint="use accumulation_mode=AccumulationMode.ACCUMULATING in the WindowInto before it",
        )
    return attrs.evolve(node.strategy, retracting=True)


def _check_readers(plan: Plan, retractable: tuple[str, ...]) -> None:
    """Raise for a function of Beam's that would take a retraction for another element."""
    retracted = retracted_collections(plan)
    for node in plan.nodes:
        if not isinstance(node, ParDo):
            continue
        for side in node.side_inputs:
            if side.ref in retracted:
                raise _refused(node.label, f"reads {side.ref.label!r} as a side input", retracted[side.ref].label)
        if node.input in retracted and isinstance(node.fn, ForeignFn):
            reason = why_not_retractable(vars(node.fn)["spec"], retractable)
            if reason is not None:
                raise _refused(*reason, retracted[node.input].label)


def why_not_retractable(spec: Any, retractable: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the function of a stage that cannot run on retractions, and why; `None` if all can.

    Args:
        spec: the `StageSpec` of the stage.
        retractable: the labels of the functions that are declared to.
    """
    if spec.stateful is not None:
        return str(spec.stateful), "has state or timers"
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    read = {pcoll for transform in descriptor.transforms.values() for pcoll in transform.inputs.values()}
    for name, transform in descriptor.transforms.items():
        if transform.spec.urn in _SPLITTABLE:
            return name, "is splittable"
        is_end = read.isdisjoint(transform.outputs.values()) and set(spec.outputs).isdisjoint(
            transform.outputs.values()
        )
        if (
            is_end
            and transform.spec.urn == common_urns.primitives.PAR_DO.urn
            and not any(is_under(name, one) for one in retractable)
        ):
            return name, "is at the end of the pipeline, where it may write what it is given"
    return None


def _refused(label: str, reason: str, source: str) -> UnsupportedOnRunner:
    return UnsupportedOnRunner(
        f"{label!r} {reason}, but {source!r} emits retractions, which the function cannot tell from other elements",
        hint="write with dataflow_model.beam.Write, whose sinks apply retractions; a function that undoes nothing "
        f"and may run on them can be named: --dm_retractable={label!r}",
    )
