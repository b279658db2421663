"""Static side inputs on Spark: small ones are computed in process, large ones by a bounded job of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Read
from dataflow_model.plan.refinements import may_refine
from dataflow_model.plan.stages import cut_into_stages
from dataflow_model.runners.engine.bounded.execution import part_for, static_sides
from dataflow_model.runners.engine.sides import StaticSide
from dataflow_model.runners.spark.collected import MOST_BYTES

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.engine.bounded.execution import StaticSides
    from dataflow_model.runners.spark.runner import SparkRunner

__all__ = ["spark_static_sides"]


def spark_static_sides(runner: SparkRunner, staged: StagedPlan) -> StaticSides:
    """Compute the static side inputs of a plan.

    A side input that reads a DataFrame, or files of more than 64 MB, is computed by Spark, as a bounded job. Its result
    is still sent with the program, so it should be small. A bounded job may give another answer than a run in process,
    in which elements may be late. Where that is possible, a side input has the semantics of the run, whatever its size.

    Args:
        runner: the runner.
        staged: the plan, with all its sources.
    """
    from dataflow_model.runners.spark import batch

    plan = staged.plan
    inputs = [side for node in plan.nodes if isinstance(node, ParDo) for side in node.side_inputs]
    parts = {side: part_for(plan, side.ref) for side in inputs if side not in staged.changing_sides}
    large = [side for side, part in parts.items() if _needs_spark(part, is_bounded=runner.mode == "batch")]
    sides = static_sides(staged, but=large)
    for side in large:
        result = batch.start(runner, cut_into_stages(parts[side]))
        result.wait_until_finish()
        records = result.collected(parts[side].nodes[-1].label)
        measured = result.measured()
        sides.counted.note(staged.ahead, measured.counters, measured.tally)
        sides.values[side] = StaticSide.of(plan, side, records)
    return sides


def _needs_spark(part: Plan, *, is_bounded: bool) -> bool:
    sources = [node.source for node in part.nodes if isinstance(node, Read)]
    if any(source.as_script is not None for source in sources):
        return False  # scripts are small, and the order of their steps matters
    if any(source.as_dataframe is not None for source in sources):
        return True
    if _depends_on_arrival(part):
        return is_bounded
    return sum(source.size() for source in sources) > MOST_BYTES


def _depends_on_arrival(part: Plan) -> bool:
    """Return whether the order of arrival may show in the result, which a bounded job does not know."""
    keyed = [
        node
        for node in part.nodes
        if isinstance(node, GroupByKeyAndWindow | Deduplicate) or (isinstance(node, ParDo) and node.is_stateful)
    ]
    replays = any(isinstance(node, Read) and node.source.processing_time is not None for node in part.nodes)
    return bool(keyed) and (
        replays or any(not isinstance(node, GroupByKeyAndWindow) or may_refine(node.strategy) for node in keyed)
    )
