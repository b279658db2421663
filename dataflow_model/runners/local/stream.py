"""A stream in this process: its micro-batches follow the data, and each is one durable transaction.

The order of a micro-batch:

1. its output is written where readers do not see it, and synced to disk;
2. one SQLite transaction commits the state, the offset and the pending output of the sinks;
3. the sinks publish, and sync;
4. the progress is written, and the next transaction marks the commit as published;
5. the sources learn what has been read for good, and functions that await it that their output is committed.

A restart publishes pending output again, which does not change what is already published; it never runs the
micro-batch again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from dataflow_model.micros import wall_clock
from dataflow_model.plan.logical.graph import take_uncommitted
from dataflow_model.runners.local.run_file import Commit
from dataflow_model.runners.reporting import CountedAhead
from dataflow_model.runners.sharded.checkpoint.requests import (
    check_signals,
    drain_requests,
    forget_signals,
    pending_signals,
)
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.publishing import Publisher, take_followed
from dataflow_model.runners.sharded.commits.restoring import check_ends, check_progress, check_rows_held
from dataflow_model.runners.sharded.feed.acknowledging import acknowledge
from dataflow_model.runners.sharded.outputs.pending import write_pending
from dataflow_model.runners.sharded.outputs.publication import check_committed
from dataflow_model.runners.sharded.stages.in_process import InProcess
from dataflow_model.runners.sharded.stages.work import has_work, plan_work
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dataflow_model.runners.local.run_file import RunFile, ShardStore
    from dataflow_model.runners.sharded.directory import Checkpoint
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.feed.planning import Feed
    from dataflow_model.runners.sharded.stages.work import Work
    from dataflow_model.runners.sharded.tasks.program import Program


@attrs.define
class LocalStream:
    """A run, step by step.

    Args:
        checkpoint: the checkpoint of the run.
        program: the program to run.
        file: the durable record of the run.
        feed: decides how far each micro-batch reads.
        counted: what was counted while the static side inputs were computed.

    Attributes:
        began: the wall-clock time at which the current micro-batch saw its data; `None` between micro-batches.
    """

    checkpoint: Checkpoint
    program: Program
    file: RunFile
    feed: Feed
    counted: CountedAhead = attrs.field(factory=CountedAhead)
    began: int | None = None
    _cache: ProcessCache = attrs.field(init=False, factory=ProcessCache)
    _shards: InProcess[ShardStore] = attrs.field(init=False)
    _last: Commit | None = attrs.field(init=False, default=None)
    _pending: Commit | None = attrs.field(init=False, default=None)
    _progress: dict[str, Any] = attrs.field(init=False, factory=dict)
    _is_closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Load the last commit and its progress.

        Raises:
            CheckpointMismatch: if a source has an end that had none before, or the reverse after the end.
            StateCorruption: if the last commit is damaged, or does not belong to the progress, or a request is missing.
            SourceError: if a table has other rows than those with which the run began.
        """
        self._last = self.file.last_commit()
        self._progress = read_progress(self.checkpoint.common_part)
        number = None if self._last is None else self._last.number
        published = number if number is None or self.file.is_published() else number - 1
        check_progress(str(self.checkpoint.path), self._progress, number, published)
        check_committed(self.checkpoint.common_part, number)
        check_signals(self.checkpoint.requests, self.offset.signalled)
        check_ends(self.program.staged.sources, self.offset, str(self.checkpoint.path))
        check_rows_held(self.program.staged.sources, self.offset)
        if self._last is not None:
            planned = self._last.number, self._last.offset.sequencer
            self.program = attrs.evolve(self.program, planned=planned)
            # The progress is written once everything is published and on disk.
            if self._progress.get("batch", -1) < self._last.number:
                self._pending = self._last
        depths = range(1, len(self.program.staged.stages) + 1)
        stores = {(depth, shard): self.file.store(depth, shard) for depth in depths for shard in self.program.shard_ids}
        self._shards = InProcess(self.program, stores, self._cache, stays=True)

    @property
    def offset(self) -> Offset:
        """The current offset of the sources."""
        return self.checkpoint.begins if self._last is None else self._last.offset

    @property
    def is_over(self) -> bool:
        """Whether the run is over."""
        last = self._last
        return self.offset.last and not (self.feed.outlasts and last is not None and last.moment is not None)

    def roll_forward(self) -> None:
        """Publish the last commit of an earlier start of the run, unless it is marked as published.

        Its sources may not have learned of it.
        """
        if self._pending is not None:
            self._publish(self._pending)
        elif self._last is not None:
            acknowledge(self.program.staged.sources, self._last.offset)

    def step(self) -> bool:
        """Run a micro-batch if there is anything to do; return whether there was."""
        requests = self.checkpoint.requests
        drain, until_drained = drain_requests(requests)
        start = self.offset
        end = self.feed.next(
            start,
            drain=drain,
            until_drained=until_drained,
            signals=pending_signals(requests),
            committed=self._progress,
        )
        if end is start:
            return False
        works = plan_work(self.feed, start, end)
        ended = () if self._last is None else self._last.ended
        if not (self._is_due() or has_work(start, end, works, ended)):
            return False
        self.began = wall_clock()
        try:
            self._publish(self._commit(end, works))
        finally:
            self.began = None
        return True

    def until_due(self) -> float:
        """Return how many seconds of the wall clock are left until something happens without new data."""
        if self._last is None or self._last.moment is None:
            return math.inf
        return (self._last.moment - self.feed.wall()) / 1_000_000

    def close(self) -> None:
        """Mark the last commit as published, if it is; then close the file and tear down the functions, all once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._pending is None:
                self.file.note_published()
        finally:
            self.file.close()
            self._cache.forget(self.program.digest)

    def _is_due(self) -> bool:
        """Return whether the wall clock has reached the moment at which something happens without new data.

        Before the first micro-batch, the state of a run that was upgraded may wait for any moment.
        """
        return self._last is None or self.until_due() <= 0

    def _commit(self, end: Offset, works: Sequence[Work]) -> Commit:
        """Run a micro-batch, and commit it with its pending output."""
        number = 0 if self._last is None else self._last.number + 1
        fault = self.program.fault
        with self.file.transaction():
            rows = self._shards.run(number, works)
            pending = write_pending(Task(self.program, self._cache, micro_batch=number), rows)
            take_followed(pending, self.program, self._progress)
            moments = [moment for part in pending.metrics if (moment := part.get("moment")) is not None]
            commit = Commit(
                number,
                end,
                tuple(works[0].control.ended),
                min(moments, default=None),
                (pending,),
            )
            try:
                commit = self.file.put_commit(commit, self._last)
                fault.reach("before_commit", number)
            except BaseException:
                self._publisher.abort(number, commit.pending)
                raise
        self._last = self._pending = commit
        fault.reach("after_commit", number)
        return commit

    def _publish(self, commit: Commit) -> None:
        self._progress = self._publisher.commit(commit.number, commit.pending, self._progress)
        forget_signals(self.checkpoint.requests, commit.offset.signals)
        self._pending = None
        acknowledge(self.program.staged.sources, commit.offset)
        for call in take_uncommitted(self.program.staged.plan.nodes):
            call()

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.program, self.checkpoint.common_part, syncs=True, reruns=False)
