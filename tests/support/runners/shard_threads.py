"""The shards of `LocalRunner(workers=n)` in threads of this process: fast enough to draw many cases."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any
from unittest import mock

import attrs

from dataflow_model.runners.local.workers import result
from dataflow_model.runners.local.workers.job import Job
from dataflow_model.runners.local.workers.worker import run_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.local.workers.messages import Arrived, Assignment, Done, Progress


@attrs.define
class Threads:
    """Takes the place of the `Team` of a run."""

    assignments: Sequence[Assignment]
    modules: tuple[str, ...]
    stops: Any
    note: Callable[[int, Progress], None]
    finished: list[Done] = attrs.field(factory=list)

    def run(self) -> list[Done]:
        barrier = threading.Barrier(len(self.assignments))

        def work(assignment: Assignment) -> Done:
            def wait(arrived: Arrived) -> None:
                self.note(assignment.number, arrived.progress)
                barrier.wait()

            try:
                done = run_assignment(assignment, wait, lambda _: None)
            except BaseException:
                barrier.abort()
                raise
            self.note(assignment.number, done.progress)
            return done

        with concurrent.futures.ThreadPoolExecutor(len(self.assignments)) as threads:
            ends = [threads.submit(work, assignment) for assignment in self.assignments]
        errors = [end.exception() for end in ends]
        for error in errors:
            if error is not None and not isinstance(error, threading.BrokenBarrierError):
                raise error
        self.finished = [end.result() for end in ends]
        return self.finished

    def done(self) -> list[Done]:
        return self.finished

    def end(self) -> None:
        """Do nothing: the threads have ended."""


@attrs.frozen
class ThreadedRunner:
    """Runs a plan as `LocalRunner(clock, workers=n)` does, in threads."""

    workers: int
    clock: int = 0

    def run(self, plan: Plan, *, until: str | None = None) -> result.WorkersResult:
        del until
        job = Job.of(plan, self.workers, self.clock)
        with mock.patch.object(result, "Team", Threads):
            return result.WorkersResult(job)
