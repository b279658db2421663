"""The output of a task to sinks, pending until the micro-batch commits."""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Self

import attrs

from dataflow_model.metrics.collecting import collecting, count_received
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.runners.engine.collections.sink_records import records_of
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id
from dataflow_model.runners.sharded.outputs.first_columns import open_writer
from dataflow_model.runners.sharded.outputs.task_output import TaskOutput
from dataflow_model.runners.sharded.tasks.rows import Kind, PackedBundle, Row, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from dataflow_model.metrics.tally import Tally
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.sharded.feed.planning import Control
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.rows import PackedPanes
    from dataflow_model.runners.sharded.tasks.task import Task
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics


@attrs.define
class Pending:
    """What one task has for the commit: its output to sinks, and what the tasks before it report.

    Attributes:
        messages: by sink, the message of output that waits for the commit.
        published: by sink, the message of output that is already published.
        parts: the pending output of tasks in earlier stages.
        metrics: the metrics of the shards whose rows reached this task.
        tallies: what this task has counted, and the tasks whose rows reached it.
        control: without keyed stages, the decisions for the micro-batch, from one of the tasks.
        reads: without keyed stages, what the task has read: the observations and the counts of each read.
    """

    messages: dict[str, bytes] = attrs.field(factory=dict)
    published: dict[str, bytes] = attrs.field(factory=dict)
    parts: list[Pending] = attrs.field(factory=list)
    metrics: list[TaskMetrics] = attrs.field(factory=list)
    tallies: list[Tally] = attrs.field(factory=list)
    control: Control | None = None
    reads: list[tuple[Observations, dict[str, int]]] = attrs.field(factory=list)


@attrs.define
class PendingWriter:
    """The writers of one task's sinks; as a context manager it removes their output if the task fails.

    Args:
        task: the task.
        part: identifies the output of this task; with weak productions `close` publishes it if the sink can.
    """

    task: Task
    part: str = ""
    _name: str = attrs.field(init=False, factory=lambda: uuid.uuid4().hex[:12])
    _outputs: dict[str, TaskOutput] = attrs.field(init=False, factory=dict)
    _weak: set[str] = attrs.field(init=False, factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for output in self._outputs.values():
                output.abort()

    def write(self, label: str, records: Sequence[Record]) -> None:
        """Write records for a sink."""
        count_received(label, len(records))
        if label not in self._outputs:
            self._outputs[label] = TaskOutput(label, self._sink(label), functools.partial(self._opened, label))
        self._outputs[label].write(records)

    def close(self) -> Pending:
        """Finish writing, publish weak productions, and return the sinks' messages."""
        if self._weak:
            check_newest(self._program.directory, self._program.fence)
        messages = {label: output.close() for label, output in self._outputs.items() if label not in self._weak}
        return Pending(messages, {label: self._outputs[label].close() for label in sorted(self._weak)})

    def finish(self) -> Iterator[Row]:
        """Finish as `close` does, and yield a row for the commit, unless nothing was written."""
        pending = self.close()
        if pending != Pending():
            yield self.task.row_for_commit(Kind.PENDING, pending)

    def _opened(self, label: str) -> SinkWriter:
        program, sink = self._program, self._sink(label)
        commit = commit_id(program, self.task.micro_batch)
        if sink.awaits_columns and program.fence is not None:
            return open_writer(sink, label, program.common, commit, self._name)
        weak = fenced(sink, program).open_weak(commit, self.part) if program.weak and self.part else None
        if weak is not None:
            self._weak.add(label)
        return sink.open(commit, self._name) if weak is None else weak

    def _sink(self, label: str) -> Sink:
        node = self._program.staged.plan[label]
        assert isinstance(node, Write)  # noqa: S101 - only sinks receive output
        return node.sink

    @property
    def _program(self) -> Program:
        return self.task.program


def write_pending(task: Task, rows: Iterable[Row]) -> Pending:
    """Write one task's rows where readers do not see them yet."""
    pending = Pending()
    with collecting() as tally, PendingWriter(task, f"task-{task.part}") as writer:
        pending.tallies.append(tally)
        for row in rows:
            match row.kind:
                case Kind.METRICS:
                    pending.metrics.append(unpacked(row.payload))
                case Kind.TALLY:
                    pending.tallies.append(unpacked(row.payload))
                case Kind.PENDING:
                    pending.parts.append(unpacked(row.payload))
                case Kind.OUTPUT:
                    packed: PackedBundle = unpacked(row.payload)
                    writer.write(packed.cut, records_of(packed.bundle, packed.instants()))
                case Kind.PANES:
                    panes: PackedPanes = unpacked(row.payload)
                    writer.write(panes.cut, panes.records())
                case Kind.CONTROL:
                    pending.control = unpacked(row.payload)
                case Kind.SEEN:
                    pending.reads.append(unpacked(row.payload))
                case _:
                    raise AssertionError(f"unexpected row of kind {row.kind!r}")
        pending.parts.append(writer.close())
        task.reach("after_writing")
    return pending


def fenced(sink: Sink, program: Program) -> Sink:
    """Return a sink as this start of a run uses it; see `Sink.fenced` and `Sink.bounded`."""
    return sink.bounded() if program.fence is None else sink.fenced(program.fence)
