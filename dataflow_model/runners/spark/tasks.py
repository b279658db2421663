"""A task of Spark, as the sharded runtime sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.engine.functions.garbage import collect_rarely, leave_out
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.values.main_classes import stand_in_for_main

if TYPE_CHECKING:
    from dataflow_model.runners.sharded.tasks.program import PackedProgram, Program

CACHE: Final = ProcessCache()
"""The cache of this Python process; Spark offers no other way to keep anything between tasks."""


@attrs.frozen
class CachedFunctions:
    """The functions of a task's program that this process keeps for its next tasks; it ends if a task fails.

    Attributes:
        task: the task.
    """

    task: Task

    def tear_down(self) -> None:
        """Tear them down: those after the sources, and those of the shards."""
        self.task.cache.forget_shards(self.task.program.digest)
        self.task.tear_down()


def this_program(packed: PackedProgram) -> Program:
    """Return a program, whose classes of `__main__` this process can refer to by name from now on.

    Its settings apply in the current context, which `reported` has made for the call.
    """
    program = CACHE.program(packed)
    stand_in_for_main(program.main_classes)
    program.ambient.apply()
    return program


def this_task(packed: PackedProgram) -> Task:
    """Return the current task of this process; outside Spark's tasks, part 0 of micro-batch 0."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    program = this_program(packed)
    if context is None:
        return Task(program, CACHE)
    collect_rarely()
    leave_out()
    micro_batch = context.getLocalProperty("streaming.sql.batchId")  # a bounded job has none
    return Task(program, CACHE, int(context.partitionId()), int(micro_batch or 0))
