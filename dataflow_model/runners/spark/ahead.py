"""What runs ahead of a pipeline on Spark: small passes in process, others as bounded jobs of Spark's."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dataflow_model.plan.logical.ahead import KeptSink
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Read, Write
from dataflow_model.plan.logical.refinements import may_refine
from dataflow_model.runners.engine.bounded.execution import run_pass_in_process
from dataflow_model.runners.engine.collections.ahead import run_ahead
from dataflow_model.runners.spark.collected import MOST_BYTES

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.collections.ahead import Ahead
    from dataflow_model.runners.engine.collections.kept import Kept
    from dataflow_model.runners.reporting import Measured
    from dataflow_model.runners.spark.runner import SparkRunner


def run_ahead_on_spark(runner: SparkRunner, staged: StagedPlan) -> Ahead:
    """Run the passes ahead of a plan; what transforms of a bounded job read stays on the executors.

    A pass that reads a DataFrame, or files of more than 64 MB, is a bounded job. Static side inputs are still sent with
    the program, so they should be small. A bounded job may give another answer than a run in process, in which elements
    may be late. Where that is possible, a pass has the semantics of the run, whatever its size.

    Args:
        runner: the runner.
        staged: the plan.
    """
    return run_ahead(staged, functools.partial(_run_pass, runner))


def _run_pass(runner: SparkRunner, staged: StagedPlan, ahead: Ahead) -> tuple[dict[str, Kept], Measured]:
    """Run the stages of one pass; return what reaches each sink and is in this process, and what was measured."""
    from dataflow_model.runners.spark import batch

    is_bounded = runner.mode == "batch"
    if not _needs_spark(staged.plan, ahead, is_bounded=is_bounded):
        return run_pass_in_process(None, staged, ahead)
    job = batch.start_pass(runner, staged, ahead)
    job.wait_until_finish()
    outputs: dict[str, Kept] = {}
    for write in staged.sinks:
        sink = write.sink
        assert isinstance(sink, KeptSink)  # noqa: S101 - a pass has no others
        if sink.is_side or not is_bounded:
            outputs[write.label] = job.kept(sink)
        if sink.is_read and is_bounded:
            ahead.frames[write.input] = job.kept_rows(sink)
    return outputs, job.measured()


def _needs_spark(plan: Plan, ahead: Ahead, *, is_bounded: bool) -> bool:
    reads = [node for node in plan.nodes if isinstance(node, Read)]
    sources = [read.source for read in reads]
    if any(source.as_script is not None for source in sources):
        return False  # scripts are small, and the order of their steps matters
    on_executors = {ref.label for ref in ahead.frames}
    if any(read.source.as_dataframe is not None or read.label in on_executors for read in reads):
        return True
    if _depends_on_arrival(plan):
        return is_bounded
    is_read = any(isinstance(node, Write) and getattr(node.sink, "is_read", False) for node in plan.nodes)
    if is_bounded and is_read and any(source.as_columns is not None for source in sources):
        return True  # transforms of a bounded job read it later, in parallel
    return sum(source.size() for source in sources) > MOST_BYTES


def _depends_on_arrival(plan: Plan) -> bool:
    """Return whether the order of arrival may show in the result, which a bounded job does not know."""
    keyed = [
        node
        for node in plan.nodes
        if isinstance(node, GroupByKeyAndWindow | Deduplicate) or (isinstance(node, ParDo) and node.is_stateful)
    ]
    replays = any(isinstance(node, Read) and node.source.processing_time is not None for node in plan.nodes)
    return bool(keyed) and (
        replays or any(not isinstance(node, GroupByKeyAndWindow) or may_refine(node.strategy) for node in keyed)
    )
