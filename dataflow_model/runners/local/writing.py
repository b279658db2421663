"""Write the records of a bounded run to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.columns.panes import PaneRecords

if TYPE_CHECKING:
    from dataflow_model.plan.sinks import Sink, SinkWriter
    from dataflow_model.runners.engine.records import JoinedRecords

__all__ = ["write_task"]


def write_task(sink: Sink, commit_id: str, task_id: str, records: JoinedRecords) -> bytes:
    """Write all records of one task to a place where readers do not see them yet, and return the message."""
    writer = sink.open(commit_id, task_id)
    try:
        _write(writer, sink, records)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _write(writer: SinkWriter, sink: Sink, records: JoinedRecords) -> None:
    """Write all records at once; panes that are columns stay so where the sink takes them."""
    panes = [chunk.panes for chunk in records.chunks if isinstance(chunk, PaneRecords)]
    if not writer.takes_columns or len(panes) < len(records.chunks):
        writer.write(records)
        return
    for table in panes:
        writer.write_columns(table.in_order().columns(panes=sink.panes))
