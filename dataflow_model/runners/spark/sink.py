"""The sink of a streaming query. Bounded jobs do not use it, and so run on a PySpark without the classes it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from dataflow_model.runners.sharded.publishing import Pending, Publisher, write_pending
from dataflow_model.runners.sharded.rows import rows_of_batches
from dataflow_model.runners.spark.failures import reported
from dataflow_model.runners.spark.stages import value_of
from dataflow_model.runners.spark.tasks import WORKER, this_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from dataflow_model.runners.sharded.program import PackedProgram

__all__ = ["OUR_SINK", "SinkProvider"]

OUR_SINK: Final = "dataflow_model_sink"


class _Message(WriterCommitMessage):
    def __init__(self, pending: Pending) -> None:
        self.pending = pending


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes to all sinks of a pipeline: the output of tasks is pending until one commit publishes it."""

    def __init__(self, packed: PackedProgram, options: dict[str, str]) -> None:
        self.packed = packed
        self.directory = options["directory"]

    @reported
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Message(write_pending(this_task(self.packed), rows_of_batches(iterator)))

    @reported
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        Publisher(WORKER.program(self.packed), self.directory).commit(batchId, _pending(messages))

    @reported
    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        Publisher(WORKER.program(self.packed), self.directory).abort(batchId, _pending(messages))


def _pending(messages: list[Any]) -> list[Pending]:
    return [message.pending for message in messages if message is not None]


class SinkProvider(DataSource):
    """The sink, as Spark's data source API expects it."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return OUR_SINK

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802
        """Return the writer of a stream."""
        del schema, overwrite
        return _StreamWriter(value_of(self.options, "program"), dict(self.options))
