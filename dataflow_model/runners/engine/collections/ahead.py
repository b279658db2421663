"""What has run ahead of a pipeline: the collections that it has made, and the static side inputs among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.plan.logical.ahead import is_kept, static_side_inputs, with_kept
from dataflow_model.plan.logical.stages import stages_of_pass
from dataflow_model.runners.engine.collections.sides import StaticSide
from dataflow_model.runners.reporting import CountedAhead

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.logical.nodes import Ref, SideInput
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.collections.kept import Kept
    from dataflow_model.runners.reporting import Measured
    from dataflow_model.values import Window

    RunPass: TypeAlias = Callable[[StagedPlan, "Ahead"], tuple[Mapping[str, Kept], Measured]]
    """Runs the stages of one pass, given what the passes before it have computed; returns what reaches each sink, and
    what was measured."""


@attrs.define
class Ahead:
    """What the passes ahead of a run have computed.

    Attributes:
        outputs: the collections that are in this process.
        frames: the collections that transforms read from elsewhere, in the form of the runner.
        counted: what was counted meanwhile.
        replays: whether the run follows the replay clock of collections that have one; otherwise all of their elements
            arrive at the first tick, as those of `Create` do.
        sides: the lookups of the static side inputs among them.
    """

    outputs: dict[Ref, Kept] = attrs.field(factory=dict)
    frames: dict[Ref, Any] = attrs.field(factory=dict)
    counted: CountedAhead = attrs.field(factory=CountedAhead)
    replays: bool = True
    sides: dict[SideInput, Callable[[Window], Any]] = attrs.field(init=False, factory=dict)

    def add(self, staged: StagedPlan, outputs: Mapping[Ref, Kept]) -> None:
        """Add collections, of which some are static side inputs of a plan."""
        self.outputs.update(outputs)
        records = {ref: kept.records() for ref, kept in outputs.items()}
        for side in static_side_inputs(staged.whole, staged.changing_sides):
            if side.ref in records:
                self.sides[side] = StaticSide.of(staged.whole, side, records[side.ref])

    def filled(self, staged: StagedPlan) -> StagedPlan:
        """Return a staged plan with the collections that its transforms read."""
        if not self.outputs:
            return staged
        here = {ref: kept for ref, kept in self.outputs.items() if ref not in self.frames}
        return attrs.evolve(staged, plan=with_kept(staged.plan, here, replays=self.replays))


def run_ahead(staged: StagedPlan, run: RunPass) -> Ahead:
    """Run the passes ahead of a plan.

    Args:
        staged: the plan.
        run: runs the stages of one pass.
    """
    ahead = Ahead()
    for part in staged.passes:
        stages = stages_of_pass(staged, part)
        kept, measured = run(stages, ahead)
        ahead.add(staged, {sink.input: kept[sink.label] for sink in stages.sinks if sink.label in kept})
        ran = {node.label for node in part.nodes if not is_kept(node)}
        ahead.counted.note(ran & staged.ahead, measured)
    return ahead
