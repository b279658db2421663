"""The output of a bounded run: pending while it is written, published at the end of the run."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final, Self

import attrs

from dataflow_model.metrics.collecting import enter
from dataflow_model.runners.engine.collections.sink_records import JoinedRecords
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords
from dataflow_model.runners.runs.removing import forget_commit, remove_all

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
    from dataflow_model.plan.logical.nodes import Write

_EMPTY: Final = "empty"
"""The id of the task that writes nothing."""


class Output:
    """The output of a bounded run, but for what is kept in the process.

    As a context manager it removes what has not been published at the end.

    Args:
        run_id: the id of the run, under which it publishes once.
        sinks: the sinks of the run.

    Attributes:
        counts: what the sinks have counted, by label, once they have published.
    """

    def __init__(self, run_id: str, sinks: Iterable[Write]) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._run_id = run_id
        bounded = (attrs.evolve(node, sink=node.sink.bounded()) for node in sinks if not node.sink.keeps_records)
        self._sinks = {node.label: node for node in bounded}
        self._messages: dict[str, list[bytes]] = {label: [] for label in self._sinks}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_all(
            (label, functools.partial(self._sinks[label].sink.abort, self._run_id, messages))
            for label, messages in self._messages.items()
            if label not in self.counts
        )

    def write(self, label: str, task_id: str, records: JoinedRecords) -> None:
        """Write the records of one task."""
        self.add(label, write_task(self._sinks[label], self._run_id, task_id, records))

    def add(self, label: str, message: bytes) -> None:
        """Add the message of a task that has written its records elsewhere."""
        self._messages[label].append(message)

    def publish(self) -> None:
        """Publish the output of each sink, once all of it is written."""
        for label, messages in self._messages.items():
            if not messages:  # some sinks show that the output is empty
                self.write(label, _EMPTY, JoinedRecords(()))
        for label, messages in self._messages.items():
            enter(label)
            sink = self._sinks[label].sink
            with exits_reported(label):
                sink.commit(self._run_id, messages)
                self.counts[label] = Counter(sink.counts(messages))
        forget_commit(self._sinks.values(), self._run_id)


def write_task(node: Write, commit_id: str, task_id: str, records: JoinedRecords) -> bytes:
    """Write all records of one task to a place where readers do not see them yet, and return the message."""
    enter(node.label)
    with exits_reported(node.label):
        writer = node.sink.open(commit_id, task_id)
    try:
        with exits_reported(node.label):
            _write(writer, node.sink, records)
            return writer.close()
    except BaseException:
        remove_all([(node.label, writer.abort)])
        raise


def _write(writer: SinkWriter, sink: Sink, records: JoinedRecords) -> None:
    """Write all records at once; panes that are columns stay so where the sink takes them."""
    panes = [chunk.panes for chunk in records.chunks if isinstance(chunk, PaneRecords)]
    if not writer.takes_columns or len(panes) < len(records.chunks):
        writer.write(records)
        return
    for table in panes:
        writer.write_columns(table.in_order().columns(panes=sink.panes))
