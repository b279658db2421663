"""The result of a bounded run in one process."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

from dataflow_model.metrics.collecting import collecting
from dataflow_model.plan.checks.signals import check_signal
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.engine.collections.sink_records import JoinedRecords
from dataflow_model.runners.engine.functions.garbage import collecting_rarely
from dataflow_model.runners.local.bounded.writing import Output
from dataflow_model.runners.runs.bounded import BoundedRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.runners.engine.bounded.execution import Execution
    from dataflow_model.runners.reporting import Measured


class LocalResult(BoundedRun):
    """A run of LocalRunner; see `PipelineResult`."""

    def __init__(self, execution: Execution) -> None:
        super().__init__(execution.staged, "LocalRunner")
        self._execution = execution
        self._stop = threading.Event()
        self._collected: dict[str, Sequence[Record]] = {}
        self._run_id = uuid.uuid4().hex[:12]
        self._start()

    def stop(self) -> None:
        """Stop after the current chunk of input, without output, and wait for that; a local run commits at its end.

        In a function of the run itself it returns at once.
        """
        self._stop.set()
        if self._may_wait():
            self._thread.join()

    def signal(self, name: str) -> None:
        """Fire `AfterSignal(name)` in every open window that waits for it, at the start of the next chunk of input.

        Raises:
            InvalidArgument: for a name that no trigger waits for.
        """
        check_signal(self._execution.staged.plan, name)
        self._execution.signal(name)

    def _records_of(self, label: str) -> list[Record]:
        kept = self._collected.get(label)
        if kept is None:
            return []  # nothing before the end
        if not isinstance(kept, list):
            kept = self._collected[label] = list(kept)  # the records are created here, when they are first read
        return kept

    def _low_watermarks(self) -> Mapping[str, int]:
        return self._execution.low_watermarks()

    def _measured(self, *, commits: int, pending_since: int | None) -> Measured:
        return self._execution.measured(commits=commits, pending_since=pending_since)

    def _done(self) -> float | None:
        return 1.0 if self._state is RunnerState.DONE else self._execution.done()

    def _execute(self) -> RunnerState:
        execution = self._execution
        kept: defaultdict[str, list[Sequence[Record]]] = defaultdict(list)
        with (
            collecting(execution.tally),
            collecting_rarely(),
            Output(self._run_id, execution.staged.sinks) as output,
        ):
            with contextlib.closing(execution.run(self._stop.wait)) as chunks:
                for reached in chunks:
                    if self._stop.is_set():
                        return RunnerState.STOPPED
                    for label, records in reached.items():
                        if output.takes(label):
                            output.write(label, records)
                        else:
                            kept[label].append(records)
            output.publish()
        self._collected = {label: JoinedRecords(chunks) for label, chunks in kept.items()}
        for label, counts in output.counts.items():
            execution.counters[label].update(counts)
        return RunnerState.DONE
