"""The output of a bounded run: written as it is made, pending, and published at the end of the run."""

from __future__ import annotations

import contextlib
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
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import SinkWriter
    from dataflow_model.plan.logical.nodes import Write

_ONE_TASK: Final = "0"
_EMPTY: Final = "empty"
"""The id of the task that writes nothing."""
_AT_ONCE: Final = 131_072
"""The number of records that are written at a time: writing a few takes about as long as writing some thousands."""


class TaskOutput:
    """The records of one task for one sink, written where readers do not see them yet.

    Args:
        node: the sink.
        commit_id: the id of the commit that will publish them.
        task_id: the id of the task.
    """

    def __init__(self, node: Write, commit_id: str, task_id: str) -> None:
        self._node, self._ids = node, (commit_id, task_id)
        self._held: list[Sequence[Record]] = []
        self._writer: SinkWriter | None = None

    def write(self, records: Sequence[Record]) -> None:
        """Write records, or hold them until there are many; all of them, if the writer is to see all at once."""
        if not len(records):
            return
        self._held.append(records)
        if sum(map(len, self._held)) >= _AT_ONCE and not self._opened().needs_all:
            self._write_held()

    def close(self) -> bytes:
        """Write the rest, and return the message for the commit."""
        is_first = self._writer is None
        writer = self._opened()
        if self._held or is_first:
            self._write_held()
        try:
            with self._reported():
                message = writer.close()
        except BaseException:
            self.abort()
            raise
        self._writer = None
        return message

    def abort(self) -> None:
        """Remove what has been written, unless that has been done, or the message has been handed over."""
        writer, self._writer = self._writer, None
        if writer is not None:
            remove_all([(self._node.label, writer.abort)])

    def _opened(self) -> SinkWriter:
        if self._writer is None:
            with self._reported():
                self._writer = self._node.sink.open(*self._ids)
        return self._writer

    def _write_held(self) -> None:
        """Write the records that are held at once; panes that are columns stay so where the sink takes them."""
        records, self._held = JoinedRecords(self._held), []
        writer = self._opened()
        panes = [chunk.panes for chunk in records.chunks if isinstance(chunk, PaneRecords)]
        try:
            with self._reported():
                if not writer.takes_columns or len(panes) < len(records.chunks):
                    writer.write(records)
                    return
                for table in panes:
                    writer.write_columns(table.in_order().columns(panes=self._node.sink.panes))
        except BaseException:
            self.abort()
            raise

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Report what the sink raises with its label, and count what it counts under it."""
        enter(self._node.label)
        with exits_reported(self._node.label):
            yield


def write_task(node: Write, commit_id: str, task_id: str, records: Sequence[Record]) -> bytes:
    """Write all records of one task where readers do not see them yet, and return the message."""
    task = TaskOutput(node, commit_id, task_id)
    task.write(records)
    return task.close()


class Output:
    """The output of a bounded run, but for what is kept in the process.

    As a context manager it removes what has not been published at the end.

    Args:
        run_id: the id of the run, under which it publishes once.
        sinks: the sinks of the run.
        by_others: whether other processes write too, and hand in their messages.

    Attributes:
        counts: what the sinks have counted, by label, once they have published.
    """

    def __init__(self, run_id: str, sinks: Iterable[Write], *, by_others: bool = False) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._run_id = run_id
        self._is_begun = by_others
        bounded = (attrs.evolve(node, sink=node.sink.bounded()) for node in sinks if not node.sink.keeps_records)
        self._sinks = {node.label: node for node in bounded}
        self._messages: dict[str, list[bytes]] = {label: [] for label in self._sinks}
        own = {} if by_others else self._sinks
        self._tasks = {label: TaskOutput(node, run_id, _ONE_TASK) for label, node in own.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            task.abort()
        if self._is_begun:
            remove_all(
                (label, functools.partial(self._sinks[label].sink.abort, self._run_id, messages))
                for label, messages in self._messages.items()
                if label not in self.counts
            )

    def takes(self, label: str) -> bool:
        """Return whether the records of a sink are written; otherwise they are kept in the process."""
        return label in self._tasks

    def write(self, label: str, records: Sequence[Record]) -> None:
        """Write records of a sink."""
        self._is_begun = True
        self._tasks[label].write(records)

    def add(self, label: str, message: bytes) -> None:
        """Add the message of a task that has written its records elsewhere."""
        self._messages[label].append(message)

    def publish(self) -> None:
        """Publish the output of each sink, once all of it is written."""
        self._is_begun = True
        for label, messages in self._messages.items():
            if not messages:  # some sinks show that the output is empty
                task = self._tasks.pop(label, None) or TaskOutput(self._sinks[label], self._run_id, _EMPTY)
                self.add(label, task.close())
        for label, messages in self._messages.items():
            enter(label)
            sink = self._sinks[label].sink
            with exits_reported(label):
                sink.commit(self._run_id, messages)
                self.counts[label] = Counter(sink.counts(messages))
        forget_commit(self._sinks.values(), self._run_id)
