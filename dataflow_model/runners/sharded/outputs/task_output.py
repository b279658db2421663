"""What one task writes to one sink, pending until a commit publishes it."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.metrics.collecting import enter
from dataflow_model.runners.engine.collections.sink_records import JoinedRecords
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords
from dataflow_model.runners.runs.removing import remove_all
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter

_AT_ONCE: Final = 131_072
"""The number of records that are written at a time: writing a few takes about as long as writing some thousands."""


@attrs.define
class TaskOutput:
    """The records of one task for one sink, written where readers do not see them yet.

    Args:
        label: the label of the sink.
        sink: the sink.
        open_writer: opens its writer, at the first record.
        is_bounded: whether it is the output of a bounded run in process: many records are then written at a time, or
            all of them if the writer is to see all at once, and panes in columns are sorted.
    """

    label: str
    sink: Sink
    open_writer: Callable[[], SinkWriter]
    is_bounded: bool = False
    _waiting: list[Sequence[Record]] = attrs.field(init=False, factory=list)
    _writer: SinkWriter | None = attrs.field(init=False, default=None)

    def write(self, records: Sequence[Record]) -> None:
        """Write records, or let them wait for more; outside of bounded runs, none of them open the writer too."""
        if self.is_bounded and not len(records):
            return
        self._waiting.append(records)
        if not self.is_bounded or (sum(map(len, self._waiting)) >= _AT_ONCE and not self._opened().needs_all):
            self._write_waiting()

    def close(self) -> bytes:
        """Write what waits, and return the message for the commit.

        Raises:
            InvalidType: if the message contains the records, and one of them cannot be pickled.
        """
        if self._waiting or self._writer is None:
            self._write_waiting()
        writer = self._opened()
        with self._reported():
            try:
                return writer.close()
            except BaseException as error:
                if not writer.in_message:
                    raise
                raise unpicklable_element(self.label, [record.value for record in writer.in_message], error) from error

    def abort(self) -> None:
        """Remove what has been written."""
        if self._writer is not None:
            remove_all([(self.label, self._writer.abort)])

    def _opened(self) -> SinkWriter:
        if self._writer is None:
            with self._reported():
                self._writer = self.open_writer()
        return self._writer

    def _write_waiting(self) -> None:
        """Write what waits at once; panes that are columns stay so where the sink takes them."""
        joined, self._waiting = JoinedRecords(self._waiting), []
        writer = self._opened()
        panes = [chunk.panes for chunk in joined.chunks if isinstance(chunk, PaneRecords)]
        with self._reported():
            if not writer.takes_columns or len(panes) < len(joined.chunks):
                writer.write(joined.chunks[0] if len(joined.chunks) == 1 else joined)
                return
            for table in panes:
                ordered = table.in_order() if self.is_bounded else table
                writer.write_columns(ordered.columns(panes=self.sink.panes))

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Report what the sink raises with its label, and count what it counts under it."""
        enter(self.label)
        with exits_reported(self.label):
            yield


def write_task(label: str, sink: Sink, commit_id: str, task_id: str, records: Sequence[Record]) -> bytes:
    """Write all records of one task of a bounded run where readers do not see them yet, and return the message."""
    task = TaskOutput(label, sink, functools.partial(sink.open, commit_id, task_id), is_bounded=True)
    try:
        task.write(records)
        return task.close()
    except BaseException:
        task.abort()
        raise
