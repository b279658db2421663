"""The result of a bounded run over several processes."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from typing import TYPE_CHECKING

from dataflow_model.metrics.collecting import collecting
from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.checks.signals import check_signal
from dataflow_model.plan.columns.record_columns import records_of_kept
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.local.bounded.support import WORKERS
from dataflow_model.runners.local.bounded.writing import Output
from dataflow_model.runners.local.workers.team import Stopped, Team
from dataflow_model.runners.reporting import Measured
from dataflow_model.runners.runs.bounded import BoundedRun

if TYPE_CHECKING:
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.runners.local.workers.job import Job
    from dataflow_model.runners.local.workers.messages import Progress
    from dataflow_model.time import DurationLike


class WorkersResult(BoundedRun):
    """A run of `LocalRunner(workers=n)`; see `PipelineResult`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.program.staged, f"LocalRunner, {len(job.assignments)} workers")
        self._job = job
        self._stops, self._stop_request = multiprocessing.Pipe(duplex=False)
        self._may_stop = True
        self._lock = threading.Lock()
        """Guards the pipe, which is open as long as the run may be stopped."""
        self._team = Team(job.assignments, job.program.staged.plan.foreign_modules, self._stops, self._note)
        self._progress_of: dict[int, Progress] = {}
        self._published: dict[str, Counter[str]] = {}
        self._tally = Tally()
        self._kept: dict[str, list[bytes]] = {}
        self._collected: dict[str, list[Record]] = {}
        self._start()

    def wait_until_finish(self, timeout: DurationLike | None = None) -> RunnerState:
        """Wait for the end of the run, at most for `timeout`; Ctrl-C stops the run."""
        try:
            return super().wait_until_finish(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise

    def stop(self) -> None:
        """End the workers, without output: a bounded run commits at its end."""
        with self._lock:
            if self._may_stop:
                self._may_stop = False
                self._stop_request.send_bytes(b"")
        if self._may_wait():
            self._thread.join()

    def signal(self, name: str) -> None:
        """Raise an error: each worker is at another instant, so a signal could not take effect at one of them.

        Raises:
            InvalidArgument: for a name that no trigger waits for.
            UnsupportedOnRunner: for any other name.
        """
        check_signal(self._staged.plan, name)
        WORKERS.require(Feature.SIGNALS, f"signal({name!r})")

    def _records_of(self, label: str) -> list[Record]:
        messages = self._kept.get(label)
        if messages is None or self._state is not RunnerState.DONE:
            return []  # nothing before the end
        if label not in self._collected:
            sink = next(node.sink for node in self._staged.sinks if node.label == label)
            self._collected[label] = records_of_kept(sink.packed_records(messages))
        return self._collected[label]

    def _note(self, number: int, progress: Progress) -> None:
        self._progress_of[number] = progress

    def _counted(self) -> dict[str, Counter[str]]:
        """Return what the workers have counted."""
        counters: dict[str, Counter[str]] = {node.label: Counter() for node in self._staged.whole.nodes}
        for counted in [*(progress.counters for progress in list(self._progress_of.values())), self._published]:
            for label, counts in counted.items():
                counters[label].update(counts)
        return counters

    def _low_watermarks(self) -> dict[str, int]:
        watermarks: dict[str, int] = {}
        for progress in list(self._progress_of.values()):
            for label, low in progress.watermarks.items():
                watermarks[label] = min(low, watermarks.get(label, low))
        return watermarks | self._job.counted.watermarks

    def _measured(self, *, commits: int, pending_since: int | None) -> Measured:
        """Return what the workers had counted after their last stage."""
        workers = list(self._progress_of.values())
        tally = self._tally.copy()
        state: Counter[str] = Counter()
        for progress in workers:
            tally.merge(progress.tally)
            state.update(progress.state)
        measured = Measured(
            counters=self._counted(),
            watermarks=self._low_watermarks(),
            tally=tally,
            state={label: (entries, None) for label, entries in state.items()},
            clock=max((progress.clock for progress in workers), default=0),
            commits=commits,
            pending_since=pending_since,
            jumps=workers[0].jumps if workers else {},
        )
        return self._job.counted.in_measured(measured)

    def _execute(self) -> RunnerState:
        run_id, sinks = self._job.program.run_id, self._staged.sinks
        try:
            with collecting(self._tally), Output(run_id, sinks, by_others=True) as output:
                try:
                    self._team.run()
                finally:
                    self._team.end()  # no worker may write any more once its output is removed
                    self._job.folder.remove()
                    self._take(output)
                output.publish()
        except Stopped:
            return RunnerState.STOPPED
        self._published = output.counts
        return RunnerState.DONE

    def _release(self) -> None:
        with self._lock:
            self._may_stop = False
            self._stops.close()
            self._stop_request.close()

    def _take(self, output: Output) -> None:
        """Take what the workers have written."""
        for node in self._staged.sinks:
            messages = [done.messages[node.label] for done in self._team.done() if node.label in done.messages]
            if node.sink.keeps_records:
                self._kept[node.label] = messages
                continue
            for message in messages:
                output.add(node.label, message)
