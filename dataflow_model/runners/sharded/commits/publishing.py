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
from dataflow_model.plan.columns.record_columns import records_of_kept
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.runs.removing import forget_commit, remove_all
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, file_name
from dataflow_model.runners.sharded.checkpoint.parts import read_part, write_part, written_once
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.commits.progress import WRITTEN, progress_after, read_progress, write_progress
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id
from dataflow_model.runners.sharded.outputs.first_columns import with_first_columns
from dataflow_model.runners.sharded.outputs.pending import fenced
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.sharded.stages.instants import skipped_in
from dataflow_model.runners.sharded.stages.stageless import follow_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.columns.record_columns import KeptRecords
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.runners.sharded.outputs.pending import Pending
    from dataflow_model.runners.sharded.tasks.program import Program

_COLLECTED: Final = "collected"
"""The folder of the records that sinks keep, and the entry of the progress with the number of files of each sink."""


@attrs.frozen
class Publisher:
    """Publishes the output of a program's tasks.

    Args:
        program: the program.
        directory: the directory of the run's own files.
        syncs: whether the progress and the records kept for `collected` are on disk when `commit` returns, like the
            output of `synced` sinks.
        reruns: whether a micro-batch may be run again after its publishing has started; it is not if micro-batches are
            committed before they are published.
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
        if self.program.sequencer:
            skipped = [file for part in pending for metrics in part.metrics for file in metrics.get("skipped", ())]
            skipped += skipped_in(seen for part in pending for seen, _ in part.reads)
            Publication.begin(self.directory, batch, commit_id(self.program, batch), skipped)
        if self.program.staged.stages and not any(part.metrics for part in pending):
            self.abort(batch, pending)  # no shard has run: rows of a DataFrame that arrived after the end of the input
            progress = {**before, "batch": batch}
            write_progress(self.directory, progress, sync=self.syncs)
            return progress
        is_noted = before.get("batch", -1) >= batch
        files: dict[str, int] = dict(before.get(_COLLECTED, {}))
        sink_counts: dict[str, Counter[str]] = {}
        tally = Tally()
        self.program.fault.reach("before_publishing", batch)
        commit = commit_id(self.program, batch)
        for write in self.program.staged.sinks:
            messages = _messages(pending, write.label)
            sink = fenced(write.sink, self.program)
            with collecting(tally), exits_reported(write.label):
                enter(write.label)
                if sink.awaits_columns and self.program.fence is not None:
                    sink, messages = with_first_columns(
                        sink, write.label, self.directory, commit, messages, sync=self.syncs
                    )
                sink.commit(commit, messages)
            published = [part.published[write.label] for part in pending if write.label in part.published]
            sink_counts[write.label] = Counter(sink.counts([*messages, *published]))
            if write.sink.keeps_records and write.sink.count_records(messages):
                number = files.get(write.label, 0) - is_noted
                self._keep(write.label, batch, number, write.sink.packed_records(messages))
                files[write.label] = number + 1
            self.program.fault.reach("while_publishing", batch)
        self.program.fault.reach("after_publishing", batch)
        progress = before
        if not is_noted:  # otherwise it was noted before the host could record the commit
            progress = {
                **self._progress_after(before, batch, pending, sink_counts, tally),
                _COLLECTED: files,
                WRITTEN: written_once(self.directory),
            }
            check_newest(self.directory, self.program.fence)
            write_progress(self.directory, progress, sync=self.syncs)
        if self.program.fence is None:
            forget_commit(self.program.staged.sinks, commit)
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

    def _keep(self, label: str, batch: int, number: int, kept: Sequence[KeptRecords]) -> None:
        name = f"{_folder(label)}/{commit_id(self.program, batch)}.pickle"
        write_part(self.directory, name, (number, list(kept)), sync=self.syncs)

    def abort(self, batch: int, pending: Sequence[Pending]) -> None:
        """Remove the output of the tasks, unless a newer start of the run may be writing to the same location."""
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


def read_collected(directory: str, label: str) -> list[Record]:
    """Return the kept records of a sink, in emission order.

    Raises:
        StateCorruption: if a file is missing or damaged.
    """
    expected = read_progress(directory).get(_COLLECTED, {}).get(label, 0)
    folder = pathlib.Path(directory, _folder(label))
    parts: dict[int, list[KeptRecords]] = {}
    for path in sorted(folder.glob("*.pickle")):
        number, kept = read_part(directory, f"{_folder(label)}/{path.name}")
        if number in parts:
            raise corrupt(repr(str(folder)), f"it contains two files with the number {number}")
        parts[number] = kept
    missing = sorted(set(range(max([expected, *(number + 1 for number in parts)]))) - parts.keys())
    if missing:
        raise corrupt(repr(str(folder)), f"files missing: {len(missing)}, the first has the number {missing[0]}")
    return records_of_kept(record for number in sorted(parts) for record in parts[number])


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


def _folder(label: str) -> str:
    return f"{_COLLECTED}/{file_name(label)}"
