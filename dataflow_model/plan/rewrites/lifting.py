"""Lifting: combine before the shuffle, in columns, where that cannot change a pane.

The rule applies to a grouping whose panes depend only on the elements of each window when the watermark passes its
end: with a combiner that has a kernel, a watermark trigger, no lateness, and input that stays in columns all the way
from one source. Runners then send one partial per key and window instead of the elements; the panes are the same. Of
dropped elements only the number is known then, so a grouping with an output for them is not lifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.logical.nodes import MAIN, AssignWindows, GroupByKeyAndWindow, Read, Ref, ToPairs
from dataflow_model.plan.logical.strategy import LateData, TimestampCombiner
from dataflow_model.time import Duration
from dataflow_model.triggers import AfterWatermark, DefaultTrigger
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.functions.kernels import Kernel
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.windowing import WindowFn

_LONGEST: Final = 2**60
"""Windows longer than this (36,000 years) are not lifted, since their bounds might overflow."""


@attrs.frozen
class Lift:
    """How one grouping gets its input in columns.

    Attributes:
        label: the label of the grouping.
        read: the label of the source.
        key: the column of the keys.
        value: the column of the values; `None` if only the number of elements matters.
        kernel: the kernel that combines the values.
        unread: the column of the values if only their number matters: it is not read, and is null in elements that
            are processed one by one after all.
        windows: the label of the transform that assigns the windows; empty if there is none.
    """

    label: str
    read: str
    key: str
    value: str | None
    kernel: Kernel
    unread: str | None = None
    windows: str = ""


def lifts(staged: StagedPlan, *, streaming: bool, by_instant: bool = False) -> Mapping[str, Lift]:
    """Return the groupings of a plan that are lifted, by label.

    Args:
        staged: the plan.
        streaming: whether the plan runs as a stream. There sessions may still grow, and with a replay clock a
            micro-batch contains many instants, so both are left to the general path.
        by_instant: whether the runner makes partials for each instant separately; a replay clock then makes no
            difference.

    Example:
        >>> import tempfile, pathlib, pyarrow as pa, pyarrow.parquet as pq
        >>> import dataflow_model as dm
        >>> from dataflow_model.plan.logical.stages import cut_into_stages
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pa.table({"at": [5], "carrier": ["UA"], "delay": [3]})
        >>> pq.write_table(table, pathlib.Path(folder.name, "a.parquet"))
        >>> p = dm.Pipeline()
        >>> rows = p | dm.io.ReadParquet(folder.name, event_time="at") | dm.Window.into(dm.FixedWindows("1 hour"))
        >>> _ = rows | dm.WithKeys("carrier", value="delay") | dm.Sum.per_key()
        >>> lift = lifts(cut_into_stages(p.plan()), streaming=True)["Sum.PerKey"]
        >>> lift.read, lift.key, lift.value, str(lift.kernel)
        ('ReadParquet', 'carrier', 'delay', 'sum')
        >>> folder.cleanup()
    """
    sources = [read.source for read in staged.sources]
    if staged.records_percentiles:
        return {}
    if streaming and not by_instant and any(source.has_own_clock for source in sources):
        return {}
    lifted = {}
    for node in staged.plan.nodes:
        lift = _lift(staged.plan, node, streaming=streaming) if isinstance(node, GroupByKeyAndWindow) else None
        if lift is not None:
            lifted[lift.label] = lift
    return lifted


def may_stay_in_columns(plan: Plan, node: GroupByKeyAndWindow) -> bool:
    """Return whether a grouping of a stream that keeps its state in columns may do so in a changed pipeline."""
    return has_one_pane(plan, node) and not node.strategy.retracting


def lift_by_elements(node: GroupByKeyAndWindow) -> Lift:
    """Return the lift of a grouping that keeps its state in columns, but no longer gets input in columns."""
    kernel = node.combine.own_kernel
    assert kernel is not None  # noqa: S101 - with it the grouping got its columns
    return Lift(node.label, "", "", None, kernel)


def _lift(plan: Plan, node: GroupByKeyAndWindow, *, streaming: bool) -> Lift | None:
    kernel = node.combine.own_kernel
    if kernel is None or not (has_one_pane(plan, node) and _suits(node, streaming=streaming)):
        return None
    pairs: ToPairs | None = None
    assigning: list[str] = []
    at: Ref = node.input
    while True:
        before = plan[at.label]
        match before:
            case AssignWindows():
                assigning += [before.label] * before.assigns
            case ToPairs() if pairs is None:
                pairs = before
            case Read() if at.tag == MAIN and before.source.as_columns is not None:
                break
            case _:
                return None
        at = before.input
    if pairs is None or not isinstance(pairs.key, str) or len(assigning) > 1:
        return None
    if pairs.value is None and kernel.reduction is not None:
        return None
    windows = assigning[0] if assigning else ""
    if kernel.reduction is None:
        return Lift(node.label, before.label, pairs.key, None, kernel, unread=pairs.value, windows=windows)
    return Lift(node.label, before.label, pairs.key, pairs.value, kernel, windows=windows)


def has_one_pane(plan: Plan, node: GroupByKeyAndWindow) -> bool:
    """Return whether each window has one pane, with all elements that were on time for it."""
    strategy = node.strategy
    trigger = strategy.trigger
    plain = type(trigger) is DefaultTrigger or (
        type(trigger) is AfterWatermark
        and trigger.early is None
        and trigger.late is None
        and trigger.percentile == LOW_WATERMARK
    )
    no_lateness = strategy.allowed_lateness == Duration(0)
    return plain and no_lateness and plan.late_data_of(strategy) is LateData.DROP


def _suits(node: GroupByKeyAndWindow, *, streaming: bool) -> bool:
    """Return whether its windows and its panes can be columns."""
    strategy = node.strategy
    return (
        strategy.timestamp_combiner is TimestampCombiner.END_OF_WINDOW
        and not strategy.merged
        and not strategy.retracting
        and node.dropped is None
        and _assigns_columns(strategy.window_fn, streaming=streaming)
    )


def _assigns_columns(window_fn: WindowFn, *, streaming: bool) -> bool:
    """Return whether the windows can be columns; in a stream, only if they are finite and do not grow."""
    if not window_fn.assigns_columns or (window_fn.length or Duration(0)) > Duration(micros=_LONGEST):
        return False
    if window_fn.is_merging:
        return window_fn.merges_intersecting and not streaming
    return not (streaming and window_fn.is_global)
