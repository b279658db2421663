"""The output of a bounded run: written as it is made, pending, and published at the end of the run."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final, Self

import attrs

from dataflow_model.metrics.collecting import enter
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.runs.removing import forget_commit, remove_all
from dataflow_model.runners.sharded.outputs.task_output import TaskOutput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.nodes import Write

_ONE_TASK: Final = "0"
_EMPTY: Final = "empty"
"""The id of the task that writes nothing."""


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
        self._tasks = {label: self._task(label, _ONE_TASK) for label in own}

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
                message = self._tasks.setdefault(label, self._task(label, _EMPTY)).close()
                del self._tasks[label]
                self.add(label, message)
        for label, messages in self._messages.items():
            enter(label)
            sink = self._sinks[label].sink
            with exits_reported(label):
                sink.commit(self._run_id, messages)
                self.counts[label] = Counter(sink.counts(messages))
        forget_commit(self._sinks.values(), self._run_id)

    def _task(self, label: str, task_id: str) -> TaskOutput:
        sink = self._sinks[label].sink
        return TaskOutput(label, sink, functools.partial(sink.open, self._run_id, task_id), is_bounded=True)
