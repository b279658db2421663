"""What the state of a transform means, in the record of a run, and whether a changed transform can continue with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.plan.functions.dofn import BoundedLatenessFn
from dataflow_model.plan.logical.fingerprint import stable_repr
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.strategy import AccumulationMode
from dataflow_model.plan.rewrites.lifting import has_one_pane
from dataflow_model.runners.engine.core.program import compile_tree
from dataflow_model.runners.engine.functions.uncombining import MultisetFn, subtracting
from dataflow_model.runners.engine.grouping.stored.packed_form import CellForm
from dataflow_model.time import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.stages import StagedPlan

_CLEARING: Final = frozenset({AccumulationMode.CLEAR_ALWAYS.value, AccumulationMode.CLEAR_BY_DEFAULT.value})


@attrs.frozen(kw_only=True)
class GroupingRecord:
    """What the state of a grouping means.

    Attributes:
        kept: the combiner, the window function and the rule for the event time of panes, which have to stay the same.
        trigger: the trigger.
        mode: the accumulation mode.
        retracting: whether a pane retracts the one before it.
        lateness: the allowed lateness, in microseconds.
        is_corrected: whether values in its input may be taken back.
        can_subtract: whether its combiner can subtract values.
        keeps_inputs: whether its accumulators are the inputs, since the combiner cannot subtract them.
        has_one_pane: whether each window emits one pane, when it expires.
        merges: whether its windows may merge.
        length: the length of its windows, in microseconds; `None` if they have several.
        form: the form of its cells, a `CellForm`.
    """

    kept: str
    trigger: str
    mode: str
    retracting: bool
    lateness: int
    is_corrected: bool
    can_subtract: bool
    keeps_inputs: bool
    has_one_pane: bool
    merges: bool
    length: int | None
    form: Mapping[str, Any]

    @classmethod
    def of(cls, node: GroupByKeyAndWindow, plan: Plan, *, is_corrected: bool) -> Self:
        """Return the record of a grouping.

        Args:
            node: the grouping.
            plan: its plan.
            is_corrected: whether values in its input may be taken back.
        """
        strategy, combine = node.strategy, subtracting(node) if is_corrected else node.combine
        return cls(
            kept=f"{node.combine.title()} under {stable_repr(strategy.window_fn)}, {strategy.timestamp_combiner.value}",
            trigger=stable_repr(strategy.trigger),
            mode=strategy.accumulation_mode.value,
            retracting=strategy.retracting,
            lateness=int(strategy.allowed_lateness),
            is_corrected=is_corrected,
            can_subtract=node.combine.can_subtract,
            keeps_inputs=isinstance(combine, MultisetFn),
            has_one_pane=has_one_pane(plan, node),
            merges=strategy.merges,
            length=None if (length := strategy.window_fn.length) is None else int(length),
            form=attrs.asdict(CellForm.of(compile_tree(strategy.trigger), combine.kernel_form())),
        )

    @property
    def cells(self) -> CellForm:
        """The form of its cells."""
        return CellForm(**self.form)

    @property
    def may_have_emitted(self) -> bool:
        """Whether a cell that has the index 0 may have elements that were in a pane, and are no longer in it."""
        return self.merges and self.mode in _CLEARING and not self.has_one_pane

    def goes_on_from(self, before: GroupingRecord) -> bool:
        """Return whether the grouping can continue with the state of an earlier one whose windows have emitted nothing.

        Values that may be taken back now are those of windows that have emitted nothing either, so all of them will
        have been added.

        Args:
            before: the earlier one.
        """
        if self.kept != before.kept or self.keeps_inputs != before.keeps_inputs:
            return False
        return self.is_corrected == before.is_corrected or (self.is_corrected and self.can_subtract)

    def conflict_with_emitted(self, before: GroupingRecord) -> str | None:
        """Return why the grouping cannot continue with windows that have emitted a pane; `None` if it can.

        Args:
            before: the grouping as it was then.
        """
        if (self.mode, self.retracting) == (before.mode, before.retracting):
            return None
        if self.mode == before.mode and before.retracting:
            return None  # nothing is retracted any more
        if self.retracting and self.mode == before.mode:
            return "could not retract what they have emitted, which is not in the state"
        if before.mode in _CLEARING:
            return "no longer contain what they have emitted"
        return "contain what they have emitted, and would emit it again"

    def changes_from(self, before: GroupingRecord) -> list[str]:
        """Return what has changed without a conflict, in the words of users.

        Args:
            before: the grouping as it was then.
        """
        changes = []
        if self.trigger != before.trigger:
            changes.append(f"trigger {self.trigger}, was {before.trigger}")
        if (self.mode, self.retracting) != (before.mode, before.retracting):
            changes.append(f"{_mode_text(self)}, was {_mode_text(before)}")
        if self.lateness != before.lateness:
            changes.append(f"lateness {duration_text(self.lateness)}, was {duration_text(before.lateness)}")
        return changes


def groupings_of(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the record of each grouping of a plan by label, as JSON values."""
    retracted = retracted_collections(plan)
    return {
        node.label: attrs.asdict(GroupingRecord.of(node, plan, is_corrected=node.input in retracted))
        for node in plan.nodes
        if isinstance(node, GroupByKeyAndWindow)
    }


@attrs.frozen(kw_only=True)
class FunctionRecord:
    """The lateness of a function with state.

    Attributes:
        lateness: how late its elements may be, in microseconds.
        may_grow: whether it can be longer in a changed pipeline: nothing is gone that a later element would need.
    """

    lateness: int
    may_grow: bool

    def change_from(self, before: FunctionRecord) -> str | None:
        """Return why the function cannot continue with its state; `None` if it can.

        Args:
            before: the function as it was.
        """
        if self.lateness <= before.lateness or (self.may_grow and before.may_grow):
            return None
        return (
            f"has: lateness {duration_text(self.lateness)}, was {duration_text(before.lateness)}; what later elements "
            "would need is no longer in its state"
        )


def functions_of(staged: StagedPlan) -> dict[str, dict[str, Any]]:
    """Return the record of each function with state by label, as JSON values.

    A join releases what no element can need any more, and a function that requires sorted input has passed some time.
    In the global window, lateness makes no difference to other functions.

    Args:
        staged: a plan.
    """
    functions = {}
    for node in staged.keyed:
        if not isinstance(node, ParDo):
            continue
        strategy, fn = staged.plan.strategy(node.input), node.fn
        sorts = node.is_stateful and node.declaration.time_sorted
        own = fn.lateness if isinstance(fn, BoundedLatenessFn) else None
        joins = node.label in staged.side_feeds and not strategy.window_fn.is_global
        functions[node.label] = attrs.asdict(
            FunctionRecord(
                lateness=int(strategy.allowed_lateness) if own is None else own,
                may_grow=own is None and not sorts and not joins,
            )
        )
    return functions


def _mode_text(grouping: GroupingRecord) -> str:
    names = {"clear_always": "discarding", "accumulate_always": "accumulating"}
    return names.get(grouping.mode, grouping.mode) + (" and retracting" if grouping.retracting else "")
