"""A task of Spark, as the sharded runtime sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.garbage import collect_rarely, leave_out
from dataflow_model.runners.sharded.task import Task, Worker

if TYPE_CHECKING:
    from dataflow_model.runners.sharded.program import PackedProgram

__all__ = ["WORKER", "this_task"]

WORKER: Final = Worker()
"""The cache of this Python process; Spark has no other place to keep anything between tasks."""


def this_task(packed: PackedProgram) -> Task:
    """Return the current task of this process; outside Spark's tasks, part 0 of micro-batch 0."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    program = WORKER.program(packed)
    if context is None:
        return Task(program, WORKER)
    collect_rarely()
    leave_out()
    micro_batch = context.getLocalProperty("streaming.sql.batchId")  # a bounded job has none
    return Task(program, WORKER, int(context.partitionId()), int(micro_batch or 0))
