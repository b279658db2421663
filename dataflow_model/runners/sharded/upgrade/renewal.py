"""Groupings that go on under another trigger, mode or lateness: their state in the form that it has now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.functions.dofn import BoundedLatenessFn
from dataflow_model.plan.logical.fingerprint import stable_repr
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo
from dataflow_model.plan.rewrites.lifting import lift_by_elements
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
from dataflow_model.runners.engine.machines.stateful import StatefulMachine
from dataflow_model.runners.engine.state.resharding import keys_of_share, partials_of_share
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.runners.engine.state.resharding import Share
    from dataflow_model.runners.sharded.checkpoint.groupings import GroupingRecord


@attrs.frozen
class Renewal:
    """What has changed in the groupings of a run that was upgraded.

    Attributes:
        before: the groupings that have another trigger, mode or lateness, as they were.
        columns: those that kept their state in columns.
        lateness: the lateness that each function with state had, in microseconds.
    """

    before: Mapping[str, GroupingRecord] = attrs.field(factory=dict)
    columns: frozenset[str] = frozenset()
    lateness: Mapping[str, int] = attrs.field(factory=dict)

    def share(
        self,
        plan: Plan,
        machine: KeyedMachine,
        parts: Iterable[Mapping[bytes, Any]],
        share: Share,
        position: Mapping[str, Any],
    ) -> dict[bytes, Any]:
        """Return the stored entries with which a machine of a new shard begins.

        Args:
            plan: the new pipeline.
            machine: the machine.
            parts: the stored entries of the old shards.
            share: the shard.
            position: the clocks with which the machine begins.
        """
        label = machine.label
        if isinstance(machine, StatefulMachine) and self._has_other_lateness(plan, label):
            return machine.with_own_lateness(keys_of_share(parts, share))
        if label not in self.before or not isinstance(machine, DurableMachine):
            return machine.share(parts, share)
        node = plan[label]
        assert isinstance(node, GroupByKeyAndWindow)  # noqa: S101 - so is the machine
        now = {"watermark": position["watermark"], "clock": position["clock"]}
        if label in self.columns:
            columnar = ColumnarMachine(node, lift_by_elements(node))
            columnar.set_clocks(**now)
            columnar.apply(partials_of_share(parts, share))
            windows = columnar.open_windows()
            columnar.tear_down()
            return machine.from_windows(windows, **now) if windows else {}
        before = self.before[label]
        has_new_trigger = stable_repr(node.strategy.trigger) != before.trigger
        return machine.renewed(keys_of_share(parts, share), before.cells if has_new_trigger else None, **now)

    def position(self, plan: Plan, label: str, position: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the clocks with which a machine begins: windows that have expired stay so, if it allows more lateness.

        Args:
            plan: the new pipeline.
            label: the label of the machine.
            position: the clocks of the old machine.
        """
        before, node = self.before.get(label), plan[label]
        if isinstance(node, GroupByKeyAndWindow) and before is not None:
            was, lateness = before.lateness, node.strategy.allowed_lateness
        elif isinstance(node, ParDo) and node.is_stateful and self._has_other_lateness(plan, label):
            was, lateness = self.lateness[label], plan.strategy(node.input).allowed_lateness
        else:
            return position
        if int(lateness) <= was or position["watermark"] == MIN_TIMESTAMP:
            return position
        closed = position["watermark"] - was
        return {**position, "closed": max(closed, position.get("closed", int(MIN_TIMESTAMP)))}

    def _has_other_lateness(self, plan: Plan, label: str) -> bool:
        """Return whether the input of a function with state has another lateness than before."""
        node = plan[label]
        if not isinstance(node, ParDo) or label not in self.lateness or isinstance(node.fn, BoundedLatenessFn):
            return False
        return int(plan.strategy(node.input).allowed_lateness) != self.lateness[label]
