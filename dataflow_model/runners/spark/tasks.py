"""What a task of Spark knows of itself."""

from __future__ import annotations

from typing import Any

__all__ = ["micro_batch_of_task", "partition_of_task"]


def micro_batch_of_task() -> int | None:
    """Return the number of the micro-batch that this process works on; `None` outside a stream's tasks."""
    context = _context()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return None if number is None else int(number)


def partition_of_task() -> int:
    """Return the number of the partition that this process works on; 0 outside Spark's tasks."""
    context = _context()
    return 0 if context is None else int(context.partitionId())


def _context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()
