"""The result of a streaming run, read from the checkpoint: the same on every host."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import LOG, InvalidArgument
from dataflow_model.plan.checks.all_checks import unbounded_collections
from dataflow_model.plan.checks.signals import check_signal
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.reporting import all_counters, make_report
from dataflow_model.runners.runs.background import BackgroundRun
from dataflow_model.runners.sharded.checkpoint.durable import writing
from dataflow_model.runners.sharded.checkpoint.requests import (
    drain_requests,
    note_drained,
    request_drain,
    request_signal,
)
from dataflow_model.runners.sharded.commits.progress import read_measured, read_watermarks
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.runners.sharded.feed.acknowledging import levels_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.reporting import CountedAhead
    from dataflow_model.runners.sharded.directory import Checkpoint
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.time import EventTime


class StreamResult(BackgroundRun, abc.ABC):
    """A streaming run with a checkpoint; see `PipelineResult`.

    Args:
        checkpoint: the checkpoint of the run.
        staged: the plan of the run.
        runner: the name of the runner, for the log.
        counted: what was counted while the static side inputs were computed.
    """

    is_stream = True

    def __init__(self, checkpoint: Checkpoint, staged: StagedPlan, runner: str, counted: CountedAhead) -> None:
        super().__init__(staged, runner)
        self._checkpoint = checkpoint
        self._counted = counted

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the run; starting it again resumes from the checkpoint."""

    def drain(self) -> None:
        """Stop reading, advance the watermark to +∞, emit all pending panes, and end the run for good.

        Waits for the end, except in a function of the run itself.

        Raises:
            InvalidArgument: for a run that was stopped, before or meanwhile. One that has failed raises its error.
        """
        if self._state is RunnerState.FAILED:
            self.wait_until_finish()
        if self._state is RunnerState.STOPPED:
            raise InvalidArgument(
                f"a run can be drained while it is running, but this one is {self._state.value}",
                hint="start the pipeline again with the same checkpoint, and drain the new run",
            )
        if self._state is RunnerState.RUNNING:
            with writing(self._checkpoint.requests):
                request_drain(self._checkpoint.requests)
        if self._may_wait() and self.wait_until_finish() is RunnerState.STOPPED:
            raise InvalidArgument(
                f"the run in {str(self._checkpoint.path)!r} was stopped before it was drained",
                hint="start the pipeline again with the same checkpoint: it reads nothing more and is drained",
            )

    def signal(self, name: str) -> None:
        """Fire `AfterSignal(name)` in every open window that waits for it, once, at the start of the next tick.

        The request is durable when this method returns, so it also takes effect in a run that is resumed.

        Raises:
            InvalidArgument: for a name that no trigger waits for.
        """
        check_signal(self._staged.plan, name)
        with writing(self._checkpoint.requests):
            request_signal(self._checkpoint.requests, name)

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counters by transform label, as of the last micro-batch."""
        measured = read_measured(self._checkpoint.common_part, self._staged.whole)
        return all_counters(self._counted.in_measured(measured))

    def report(self) -> RunReport:
        """Return the report of the run as of the last micro-batch, with its current lag."""
        pending = self._pending_since() if self._state is RunnerState.RUNNING else None
        measured = read_measured(self._checkpoint.common_part, self._staged.whole, pending)
        if self._state is RunnerState.RUNNING:
            measured = attrs.evolve(measured, levels=levels_of(self._staged.sources, self._offset))
        return make_report(self._staged, self._counted.in_measured(measured))

    def watermarks(self) -> Mapping[str, EventTime]:
        """Return the output watermark of each source and keyed node, as of the last micro-batch."""
        return self._counted.with_watermarks(read_watermarks(self._checkpoint.common_part))

    def _records_of(self, label: str) -> list[Record]:
        return read_collected(self._checkpoint.common_part, label)

    @abc.abstractmethod
    def _offset(self) -> Offset | None:
        """Return how far sources have been read for good; `None` before the first commit."""

    @abc.abstractmethod
    def _pending_since(self) -> int | None:
        """Return the wall-clock time at which the current micro-batch started; `None` if there is none."""

    def _leave(self) -> None:
        if self._is_to_drain() or not unbounded_collections(self._staged.plan):
            super()._leave()
        else:
            LOG.warning(
                "%s: the run is stopped because the program ends; with the same checkpoint it resumes. "
                "Call wait_until_finish() on the result of run() to keep the program running",
                self._runner,
            )
            self.stop()

    def _is_to_drain(self) -> bool:
        """Return whether the run ends at the current end of its inputs."""
        return any(drain_requests(self._checkpoint.requests))

    def _finished(self) -> RunnerState:
        """Record that the input has ended; return whether it was drained or has ended by itself."""
        if not self._is_to_drain():
            return RunnerState.DONE
        with writing(self._checkpoint.requests):
            note_drained(self._checkpoint.requests)
        return RunnerState.DRAINED
