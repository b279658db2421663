"""The output to sinks: pending when a task has written it, published with the progress when the micro-batch commits."""

from __future__ import annotations

import functools
import pathlib
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import SupersededRun
from dataflow_model.metrics.collecting import collecting, enter, took
from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.nodes import Write
from dataflow_model.plan.record_columns import KeptRecords
from dataflow_model.runners.engine.records import records_of
from dataflow_model.runners.removing import remove_all
from dataflow_model.runners.sharded.checkpoint.durable import (
    corrupt,
    file_name,
    make_folder,
    seal,
    unseal,
    write_file,
    writing,
)
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.commit_ids import commit_id
from dataflow_model.runners.sharded.progress import progress_after, read_progress, write_progress
from dataflow_model.runners.sharded.rows import Kind, PackedBundle, PackedPanes, Row, unpacked
from dataflow_model.runners.sharded.stageless import follow_sources
from dataflow_model.runners.sharded.unpicklable import unpicklable_element

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from dataflow_model.plan.sinks import Record, Sink, SinkWriter
    from dataflow_model.runners.engine.observing import Observations
    from dataflow_model.runners.sharded.feed.offsets import Control
    from dataflow_model.runners.sharded.program import Program
    from dataflow_model.runners.sharded.task import Task

__all__ = [
    "Pending",
    "PendingWriter",
    "Publisher",
    "fenced",
    "half_published",
    "last_published",
    "read_collected",
    "write_pending",
]

_PUBLISHING: Final = "publishing"


@attrs.define
class Pending:
    """The output of one task for the commit: the sinks' messages by label, and metrics.

    Attributes:
        messages: the messages of output that waits for the commit.
        published: the messages of output that is already published.
        parts: the pending output of tasks in earlier stages.
        control: without keyed stages, the decisions for the micro-batch, from one of the tasks.
        reads: without keyed stages, what the task has read: the observations and the counts of each read.
    """

    messages: dict[str, bytes] = attrs.field(factory=dict)
    published: dict[str, bytes] = attrs.field(factory=dict)
    parts: list[Pending] = attrs.field(factory=list)
    metrics: list[dict[str, Any]] = attrs.field(factory=list)
    tallies: list[Tally] = attrs.field(factory=list)
    control: Control | None = None
    reads: list[tuple[Observations, dict[str, int]]] = attrs.field(factory=list)

    def take_followed(self, program: Program, before: Mapping[str, Any]) -> None:
        """Turn what this task, the only one of its micro-batch, has read without keyed stages into metrics.

        Args:
            program: the program.
            before: the progress after the micro-batch before this one.
        """
        self.metrics += follow_sources(program, self.control, self.reads, before)
        self.control, self.reads = None, []


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
    _writers: dict[str, SinkWriter] = attrs.field(init=False, factory=dict)
    _weak: set[str] = attrs.field(init=False, factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            remove_all((label, writer.abort) for label, writer in self._writers.items())

    def write(self, label: str, records: Sequence[Record]) -> None:
        """Write records for a sink."""
        took(label, len(records))
        self._writer(label).write(records)

    def write_panes(self, packed: PackedPanes) -> None:
        """Write panes in columns, if the sink takes columns."""
        writer, records = self._writer(packed.cut), packed.records()
        took(packed.cut, len(records))
        if writer.takes_columns:
            writer.write_columns(records.panes.columns(panes=self._sink(packed.cut).panes))
        else:
            writer.write(records)

    def close(self) -> Pending:
        """Finish writing, publish weak productions, and return the sinks' messages."""
        if self._weak:
            check_newest(self._program.directory, self._program.fence)
        messages = {label: self._close(label) for label in self._writers if label not in self._weak}
        return Pending(messages, {label: self._close(label) for label in sorted(self._weak)})

    def finish(self) -> Iterator[Row]:
        """Finish as `close` does, and yield a row for the commit, unless nothing was written."""
        pending = self.close()
        if pending != Pending():
            yield Row(self.task.home, len(self._program.staged.stages) + 1, Kind.PENDING, self.task.packed(pending))

    def _close(self, label: str) -> bytes:
        writer = self._writers[label]
        try:
            return writer.close()
        except Exception as error:
            if not writer.kept:
                raise
            raise unpicklable_element(label, [record.value for record in writer.kept], error) from error

    def _writer(self, label: str) -> SinkWriter:
        if label not in self._writers:
            program, sink = self._program, self._sink(label)
            commit = commit_id(program, self.task.micro_batch)
            weak = fenced(sink, program).open_weak(commit, self.part) if program.weak and self.part else None
            if weak is not None:
                self._weak.add(label)
            self._writers[label] = sink.open(commit, self._name) if weak is None else weak
        return self._writers[label]

    def _sink(self, label: str) -> Sink:
        node = self._program.staged.plan[label]
        assert isinstance(node, Write)  # noqa: S101 - only sinks receive output
        return node.sink

    @property
    def _program(self) -> Program:
        return self.task.program


def write_pending(task: Task, rows: Iterable[Row]) -> Pending:
    """Write one task's rows to a place where readers do not see them yet."""
    pending = Pending()
    with collecting() as tally, PendingWriter(task, f"task-{task.part}") as writer:
        pending.tallies.append(tally)
        for row in rows:
            if row.kind == Kind.METRICS:
                pending.metrics.append(unpacked(row.payload))
            elif row.kind == Kind.TALLY:
                pending.tallies.append(unpacked(row.payload))
            elif row.kind == Kind.PENDING:
                pending.parts.append(unpacked(row.payload))
            elif row.kind == Kind.OUTPUT:
                packed: PackedBundle = unpacked(row.payload)
                writer.write(packed.cut, records_of(packed.bundle, packed.instants()))
            elif row.kind == Kind.PANES:
                writer.write_panes(unpacked(row.payload))
            elif row.kind == Kind.CONTROL:
                pending.control = unpacked(row.payload)
            elif row.kind == Kind.SEEN:
                pending.reads.append(unpacked(row.payload))
        pending.parts.append(writer.close())
        task.reach("after_writing")
    return pending


@attrs.frozen
class Publisher:
    """Publishes the output of a program's tasks.

    Args:
        program: the program.
        directory: the directory of the run's own files.
        syncs: whether the progress and the records kept for `collected` are on disk when `commit` returns, like the
            output of `synced` sinks.
        reruns: whether a micro-batch may be run again after its publishing has started, which is then recorded for the
            repeated run; it is not if micro-batches are committed before they are published.
    """

    program: Program
    directory: str
    syncs: bool = False
    reruns: bool = True

    def commit(self, batch: int, pending: Sequence[Pending], before: dict[str, Any] | None = None) -> dict[str, Any]:
        """Publish the output of a micro-batch's tasks; repeating it for the same micro-batch changes nothing.

        Args:
            batch: the number of the micro-batch.
            pending: the output of its tasks.
            before: the progress after the last commit, if the caller knows it; otherwise it is read.

        Returns:
            The progress after this commit.

        Raises:
            SupersededRun: if a newer start of the run has taken over the checkpoint.
        """
        pending = _with_parts(pending)
        before = read_progress(self.directory) if before is None else before
        check_newest(self.directory, self.program.fence)
        if self.program.staged.stages and not any(part.metrics for part in pending):
            self.abort(batch, pending)  # no shard has run: rows of a DataFrame that arrived after the end of the input
            return before
        if self.program.sequencer and self.reruns:
            publishing = pathlib.Path(self.directory, _PUBLISHING)
            with writing(publishing):
                write_file(publishing, str(batch).encode())
        rows: dict[str, Counter[str]] = {}
        tally = Tally()
        self.program.fault.reach("before_publishing", batch)
        for write in self.program.staged.sinks:
            messages = [part.messages[write.label] for part in pending if write.label in part.messages]
            with collecting(tally):
                enter(write.label)
                fenced(write.sink, self.program).commit(commit_id(self.program, batch), messages)
            published = [part.published[write.label] for part in pending if write.label in part.published]
            rows[write.label] = Counter(write.sink.counts([*messages, *published]))
            count = write.sink.count_records(messages)
            if count:
                rows[write.label]["elements_in"] += count
            if count and write.sink.keeps_records:
                kept = write.sink.kept(messages)
                _keep(_collected(self.directory, write.label), commit_id(self.program, batch), kept, sync=self.syncs)
            self.program.fault.reach("while_publishing", batch)
        self.program.fault.reach("after_publishing", batch)
        for part in pending:
            for counted in part.tallies:
                tally.merge(counted)
        metrics = [metrics for part in pending for metrics in part.metrics]
        if self.reruns:
            control = next((part.control for part in pending if part.control is not None), None)
            metrics += follow_sources(self.program, control, [read for part in pending for read in part.reads], before)
        check_newest(self.directory, self.program.fence)
        progress = progress_after(before, batch, metrics, rows, tally)
        write_progress(self.directory, progress, sync=self.syncs)
        self.program.fault.reach("after_progress", batch)
        return progress

    def abort(self, batch: int, pending: Sequence[Pending]) -> None:
        """Remove the output of the tasks, unless a newer start of the run may be writing to the same place."""
        pending = _with_parts(pending)
        try:
            check_newest(self.directory, self.program.fence)
        except SupersededRun:
            return
        commit = commit_id(self.program, batch)
        messages = {
            write.label: [part.messages[write.label] for part in pending if write.label in part.messages]
            for write in self.program.staged.sinks
        }
        remove_all(
            (write.label, functools.partial(write.sink.abort, commit, messages[write.label]))
            for write in self.program.staged.sinks
        )


def last_published(directory: str) -> int | None:
    """Return the last micro-batch whose output may have been published, even in part; `None` if there is none."""
    path = pathlib.Path(directory, _PUBLISHING)
    try:
        return int(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise corrupt(repr(str(path)), f"it does not contain the number of a micro-batch: {error}") from error


def half_published(directory: str, committed: int | None) -> int | None:
    """Return the micro-batch whose publishing has started but that is not committed; `None` if there is none.

    Args:
        directory: our part of a checkpoint.
        committed: the last committed micro-batch.
    """
    published = last_published(directory)
    return published if published is not None and (committed is None or committed < published) else None


def read_collected(directory: str, label: str) -> list[Record]:
    """Return the kept records of a sink, in emission order."""
    records: list[Record] = []
    for path in sorted(_collected(directory, label).glob("*.pickle")):
        for kept in unseal(path.read_bytes(), repr(str(path))):
            records += kept.records() if isinstance(kept, KeptRecords) else [kept]
    records.sort(key=lambda record: record.order)
    return records


def fenced(sink: Sink, program: Program) -> Sink:
    """Return a sink as this start of a run uses it; see `Sink.fenced`."""
    return sink if program.fence is None else sink.fenced(program.fence)


def _with_parts(pending: Sequence[Pending]) -> list[Pending]:
    return [part for whole in pending for part in (whole, *whole.parts)]


def _collected(directory: str, label: str) -> pathlib.Path:
    return pathlib.Path(directory, "collected", file_name(label))


def _keep(directory: pathlib.Path, commit_id: str, kept: Sequence[Record | KeptRecords], *, sync: bool) -> None:
    with writing(directory):
        make_folder(directory)
        write_file(directory / f"{commit_id}.pickle", seal(list(kept)), sync=sync)
