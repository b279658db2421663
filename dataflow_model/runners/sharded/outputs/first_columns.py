"""The columns of a stream's sinks that are neither stated nor known from type hints: the first rows decide them.

Until then, tasks send the rows for such a sink to the commit. The first commit that has rows writes them as a bounded
run in one process would, so the columns depend neither on the number of tasks nor on their order. It records the
columns in the checkpoint before it publishes: if it is repeated, or the run is started again, they stay the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from dataflow_model.errors import LOG
from dataflow_model.plan.columns.element_columns import MISSING, columns_of_values
from dataflow_model.plan.columns.record_columns import records_of_kept, values_of_records
from dataflow_model.plan.endpoints.message_sinks import MessageWriter
from dataflow_model.runners.sharded.checkpoint.durable import file_name
from dataflow_model.runners.sharded.checkpoint.parts import SINK_COLUMNS, read_part, write_part
from dataflow_model.runners.sharded.outputs.task_output import write_task
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter

_ROWS: Final = b"rows:"
"""How a message with the rows themselves begins; pickles begin in another way."""
_TASK: Final = "first"


def open_writer(sink: Sink, label: str, directory: str, commit_id: str, task_id: str) -> SinkWriter:
    """Return a task's writer for a sink that awaits its columns.

    Args:
        sink: the sink.
        label: its label.
        directory: the common part of the checkpoint.
        commit_id: the commit.
        task_id: the task.
    """
    columns = _recorded(directory, label)
    return _RowsWriter() if columns is None else sink.with_columns(columns).open(commit_id, task_id)


def with_first_columns(
    sink: Sink, label: str, directory: str, commit_id: str, messages: Sequence[bytes], *, sync: bool
) -> tuple[Sink, list[bytes]]:
    """Return a sink that awaits its columns with those that are decided, and the messages of a commit for it.

    Rows in the messages are written here. If they are the first, they decide the columns.

    Args:
        sink: the sink, as this start of the run uses it.
        label: its label.
        directory: the common part of the checkpoint.
        commit_id: the commit.
        messages: what the tasks have sent.
        sync: whether the record of the columns is on disk when this returns.
    """
    columns = _recorded(directory, label)
    if columns is not None:
        sink = sink.with_columns(columns)
    others = [message for message in messages if not message.startswith(_ROWS)]
    rows = [message.removeprefix(_ROWS) for message in messages if message.startswith(_ROWS)]
    records = records_of_kept(map(load, filter(None, rows)))
    if not records:
        return sink, others
    message = write_task(label, sink, commit_id, _TASK, records)
    if columns is None:
        columns = sink.columns_in(message)
        if columns is not None:
            sink = sink.with_columns(columns)
            sink.check()
            write_part(directory, _name(label), columns.serialize().to_pybytes(), sync=sync)
            _warn_of_nulls(label, records)
    return sink, [*others, message]


class _RowsWriter(MessageWriter):
    """Sends the rows to the commit."""

    def close(self) -> bytes:
        return _ROWS + super().close()


def _warn_of_nulls(label: str, records: Sequence[Record]) -> None:
    columns, _, _ = columns_of_values(values_of_records(records))
    unknown = [name for name, values in columns.items() if all(value is None or value is MISSING for value in values)]
    if unknown:
        LOG.warning(
            "the first rows decide the columns of %r, and they have only nulls in %s: as text it will hold no other "
            "values, so later rows with such become dead letters. To avoid that, pass schema=pa.schema({…}), or add "
            ".with_output_types(…) to the step before.",
            label,
            ", ".join(map(repr, unknown)),
        )


def _recorded(directory: str, label: str) -> pa.Schema | None:
    serialized = read_part(directory, _name(label))
    return None if serialized is None else pa.ipc.read_schema(pa.py_buffer(serialized))


def _name(label: str) -> str:
    return f"{SINK_COLUMNS}/{file_name(label, '.pickle')}"
