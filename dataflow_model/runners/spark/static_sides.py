"""Static side inputs on Spark: small ones are computed in process, large ones by a bounded job of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.nodes import ParDo, Read
from dataflow_model.plan.stages import cut_into_stages
from dataflow_model.runners.engine.bounded.execution import part_for, side_values
from dataflow_model.runners.engine.sides import StaticSide
from dataflow_model.runners.spark.collected import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.runners.spark.runner import SparkRunner
    from dataflow_model.values import Window

__all__ = ["spark_side_values"]


def spark_side_values(
    runner: SparkRunner, plan: Plan, but: Collection[SideInput] = ()
) -> Mapping[SideInput, Callable[[Window], Any]]:
    """Return the lookups of the static side inputs.

    A side input that reads a DataFrame, or files of more than 64 MB, is computed by Spark. Its result is still sent
    with the program, so it should be small.

    Args:
        runner: the runner.
        plan: the plan.
        but: the side inputs that change while the plan runs.
    """
    from dataflow_model.runners.spark import batch

    changing = set(map(id, but))
    static = [side for node in plan.nodes if isinstance(node, ParDo) for side in node.side_inputs]
    static = [side for side in static if id(side) not in changing]
    parts = {side: part_for(plan, side.ref) for side in static}
    large = [side for side, part in parts.items() if _needs_spark(part)]
    values = dict(side_values(plan, but=(*but, *large)))
    for side in large:
        result = batch.start(runner, cut_into_stages(parts[side]))
        result.wait_until_finish()
        records = result.collected(parts[side].nodes[-1].label)
        values[side] = StaticSide(side, records, plan.strategy(side.ref).accumulates)
    return values


def _needs_spark(part: Plan) -> bool:
    sources = [node.source for node in part.nodes if isinstance(node, Read)]
    if any(source.as_script is not None for source in sources):
        return False  # scripts are small, and the order of their steps matters
    if any(source.as_dataframe is not None for source in sources):
        return True
    return sum(source.size() for source in sources) > MOST_BYTES
