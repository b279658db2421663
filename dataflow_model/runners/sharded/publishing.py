"""The output of tasks to sinks, published with the progress when the micro-batch commits."""

from __future__ import annotations

import functools
import pathlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import SupersededRun
from dataflow_model.metrics.collecting import collecting, enter
from dataflow_model.metrics.tally import BUNDLE_SIZE, Readings, Tally
from dataflow_model.plan.record_columns import records_of_kept
from dataflow_model.runners.engine.user_code import exits_reported
from dataflow_model.runners.removing import forget_commit, remove_all
from dataflow_model.runners.sharded.checkpoint.durable import (
    corrupt,
    file_name,
    make_folder,
    read_file,
    seal,
    unseal,
    write_file,
    writing,
)
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.commit_ids import commit_id
from dataflow_model.runners.sharded.pending import fenced
from dataflow_model.runners.sharded.progress import progress_after, read_progress, write_progress
from dataflow_model.runners.sharded.stageless import follow_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.record_columns import KeptRecords
    from dataflow_model.plan.records import Record
    from dataflow_model.runners.sharded.pending import Pending
    from dataflow_model.runners.sharded.program import Program

__all__ = ["Publisher", "half_published", "last_published", "read_collected", "take_followed"]

_PUBLISHING: Final = "publishing"


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
        sink_counts: dict[str, Counter[str]] = {}
        tally = Tally()
        self.program.fault.reach("before_publishing", batch)
        for write in self.program.staged.sinks:
            messages = _messages(pending, write.label)
            with collecting(tally), exits_reported(write.label):
                enter(write.label)
                fenced(write.sink, self.program).commit(commit_id(self.program, batch), messages)
            published = [part.published[write.label] for part in pending if write.label in part.published]
            sink_counts[write.label] = Counter(write.sink.counts([*messages, *published]))
            if write.sink.keeps_records and write.sink.count_records(messages):
                kept = write.sink.kept(messages)
                _keep(_collected(self.directory, write.label), commit_id(self.program, batch), kept, sync=self.syncs)
            self.program.fault.reach("while_publishing", batch)
        self.program.fault.reach("after_publishing", batch)
        progress = before
        if before.get("batch", -1) < batch:  # otherwise it was noted before the host could record the commit
            progress = self._progress_after(before, batch, pending, sink_counts, tally)
            check_newest(self.directory, self.program.fence)
            write_progress(self.directory, progress, sync=self.syncs)
        if self.program.fence is None:
            forget_commit(self.program.staged.sinks, commit_id(self.program, batch))
        self.program.fault.reach("after_progress", batch)
        return progress

    def _progress_after(
        self,
        before: dict[str, Any],
        batch: int,
        pending: Sequence[Pending],
        sink_counts: dict[str, Counter[str]],
        tally: Tally,
    ) -> dict[str, Any]:
        """Return the progress after a micro-batch that was published for the first time."""
        for part in pending:
            for counted in part.tallies:
                tally.merge(counted)
        for label, counts in sink_counts.items():
            bundles = tally.own.get(label, Readings()).distributions.get(BUNDLE_SIZE)
            if bundles is not None:
                counts["elements_in"] += int(bundles.sum)
        metrics = [metrics for part in pending for metrics in part.metrics]
        if self.reruns:
            control = next((part.control for part in pending if part.control is not None), None)
            metrics += follow_sources(self.program, control, [read for part in pending for read in part.reads], before)
        return progress_after(before, batch, metrics, sink_counts, tally)

    def abort(self, batch: int, pending: Sequence[Pending]) -> None:
        """Remove the output of the tasks, unless a newer start of the run may be writing to the same place."""
        pending = _with_parts(pending)
        try:
            check_newest(self.directory, self.program.fence)
        except SupersededRun:
            return
        commit = commit_id(self.program, batch)
        remove_all(
            (write.label, functools.partial(write.sink.abort, commit, _messages(pending, write.label)))
            for write in self.program.staged.sinks
        )


def last_published(directory: str) -> int | None:
    """Return the last micro-batch whose output may have been published, even in part; `None` if there is none."""
    path = pathlib.Path(directory, _PUBLISHING)
    try:
        return int(read_file(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise corrupt(repr(str(path)), f"it does not contain the number of a micro-batch: {error}") from error


def half_published(common_part: str, committed: int | None) -> int | None:
    """Return the micro-batch whose publishing has started but that is not committed; `None` if there is none.

    Args:
        common_part: the part of a checkpoint that is the same for all hosts.
        committed: the last committed micro-batch.
    """
    published = last_published(common_part)
    return published if published is not None and (committed is None or committed < published) else None


def read_collected(directory: str, label: str) -> list[Record]:
    """Return the kept records of a sink, in emission order."""
    kept: list[Record | KeptRecords] = []
    for path in sorted(_collected(directory, label).glob("*.pickle")):
        kept += unseal(read_file(path), repr(str(path)))
    return records_of_kept(kept)


def take_followed(pending: Pending, program: Program, before: Mapping[str, Any]) -> None:
    """Turn what a task, the only one of its micro-batch, has read without keyed stages into metrics.

    Args:
        pending: the output of the task.
        program: the program.
        before: the progress after the micro-batch before this one.
    """
    pending.metrics += follow_sources(program, pending.control, pending.reads, before)
    pending.control, pending.reads = None, []


def _with_parts(pending: Sequence[Pending]) -> list[Pending]:
    return [part for whole in pending for part in (whole, *whole.parts)]


def _messages(pending: Sequence[Pending], label: str) -> list[bytes]:
    """Return the messages of a sink whose output waits for the commit."""
    return [part.messages[label] for part in pending if label in part.messages]


def _collected(directory: str, label: str) -> pathlib.Path:
    return pathlib.Path(directory, "collected", file_name(label))


def _keep(directory: pathlib.Path, commit_id: str, kept: Sequence[Record | KeptRecords], *, sync: bool) -> None:
    with writing(directory):
        make_folder(directory)
        write_file(directory / f"{commit_id}.pickle", seal(list(kept)), sync=sync)
