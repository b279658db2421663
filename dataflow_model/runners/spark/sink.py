"""The sink of a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import WriterCommitMessage

from dataflow_model.runners.engine.functions.garbage import leave_out
from dataflow_model.runners.engine.functions.lifetimes import torn_down_if_failed
from dataflow_model.runners.sharded.commits.publishing import Publisher
from dataflow_model.runners.sharded.outputs.pending import Pending, write_pending
from dataflow_model.runners.sharded.tasks.rows import rows_of_batches
from dataflow_model.runners.spark.deployment.failures import reported
from dataflow_model.runners.spark.deployment.worker_memory import returning_memory
from dataflow_model.runners.spark.stages import value_of
from dataflow_model.runners.spark.tasks import CachedFunctions, this_program, this_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from dataflow_model.runners.sharded.tasks.program import PackedProgram

OUR_SINK: Final = "dataflow_model_sink"


class _Message(WriterCommitMessage):
    def __init__(self, pending: Pending) -> None:
        self.pending = pending


class StreamWriter:
    """Writes to all sinks of a pipeline, as Spark's `DataSourceStreamArrowWriter` expects it.

    The output of tasks is pending until one commit publishes it.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.packed: PackedProgram = value_of(options, "program")
        self.endpoints: PackedProgram = value_of(options, "endpoints")
        self.directory = options["directory"]

    @reported
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Return the pending output of a task."""
        with returning_memory():
            task = this_task(self.packed)
            with torn_down_if_failed(CachedFunctions(task)):
                return _Message(write_pending(task, rows_of_batches(iterator)))

    @reported
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Publish the output of a micro-batch's tasks."""
        self._publisher().commit(batchId, _pending(messages))

    @reported
    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Delete the output of a micro-batch's tasks that ended."""
        self._publisher().abort(batchId, _pending(messages))

    def _publisher(self) -> Publisher:
        program = this_program(self.endpoints)
        leave_out()  # the process in which Spark commits looks through all objects after each commit
        return Publisher(program, self.directory)


def _pending(messages: list[Any]) -> list[Pending]:
    return [message.pending for message in messages if message is not None]
