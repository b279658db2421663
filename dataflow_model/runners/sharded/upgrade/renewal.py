"""Groupings that go on under another trigger, mode or lateness: their state in the form that it has now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.logical.fingerprint import stable_repr
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.plan.rewrites.lifting import lift_by_elements
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
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
    """

    before: Mapping[str, GroupingRecord] = attrs.field(factory=dict)
    columns: frozenset[str] = frozenset()

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
        if before is None or not isinstance(node, GroupByKeyAndWindow):
            return position
        if int(node.strategy.allowed_lateness) <= before.lateness or position["watermark"] == MIN_TIMESTAMP:
            return position
        closed = position["watermark"] - before.lateness
        return {**position, "closed": max(closed, position.get("closed", int(MIN_TIMESTAMP)))}
