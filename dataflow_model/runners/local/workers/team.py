"""The workers of one run, as the parent leads them: through barriers to the end, or to an early one."""

from __future__ import annotations

import contextlib
import os
import signal
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import WorkerLost
from dataflow_model.runners.local.workers.failures import unpack_error
from dataflow_model.runners.local.workers.messages import Arrived, Began, Done, Failed, Go, Stop, receive, send
from dataflow_model.runners.local.workers.nursery import fork_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.runners.local.workers.messages import Assignment, Progress, Report

__all__ = ["Stopped", "Team"]

_END_SECONDS: Final = 5.0


class Stopped(Exception):
    """The run was stopped."""


@attrs.define(eq=False)
class _Worker:
    """A worker as the parent sees it.

    Attributes:
        number: its number.
        connection: the connection to it.
        process: the id of its process, once it has begun.
        report: its last report since it began or passed a barrier, or `None`.
    """

    number: int
    connection: Connection
    process: int | None = None
    report: Report | None = None

    @property
    def is_over(self) -> bool:
        return isinstance(self.report, Done | Failed)

    def next_report(self) -> None:
        """Receive what the worker has sent.

        Raises:
            WorkerLost: if its process has died.
        """
        try:
            message = receive(self.connection)
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(message, Began):
            self.process = message.process
        else:
            self.report = message

    def send(self, message: Assignment | Go | Stop) -> None:
        try:
            send(self.connection, message)
        except OSError:
            raise self._lost() from None

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        with contextlib.suppress(OSError, EOFError):
            send(self.connection, Stop())
            while self.connection.poll(_END_SECONDS):
                self._drop()
            if self.process is not None:
                os.kill(self.process, signal.SIGKILL)  # it is alive, since the other end of its connection is open
                while True:
                    self._drop()
        self.connection.close()

    def _drop(self) -> None:
        message: Any = receive(self.connection)
        if isinstance(message, Began):
            self.process = message.process

    def _lost(self) -> WorkerLost:
        process = "" if self.process is None else f" (process {self.process})"
        return WorkerLost(
            f"worker {self.number}{process} of LocalRunner(workers=…) ended before its work was done",
            hint="the system ends processes if it is short of memory: use fewer workers or read less data; "
            "anything that the worker has written is in the output of this process",
        )


@attrs.define(eq=False)
class Team:
    """Starts the workers of a run and leads them.

    Args:
        assignments: what each worker does.
        stops: becomes readable when the run is stopped.
        note: takes what the workers have counted, by worker, whenever that changes.
    """

    assignments: Sequence[Assignment]
    stops: Connection
    note: Callable[[int, Progress], None]
    _workers: list[_Worker] = attrs.field(init=False, factory=list)
    _is_writing: bool = attrs.field(init=False, default=False)

    def run(self) -> None:
        """Run all workers to their ends.

        Raises:
            Stopped: if the run was stopped.
            WorkerLost: if a worker has died.
            BaseException: what a worker has raised.
        """
        for assignment in self.assignments:
            worker = _Worker(assignment.number, fork_worker())
            self._workers.append(worker)
            worker.send(assignment)
        while not all(worker.is_over for worker in self._workers):
            self._lead()
        for worker in self._workers:
            if isinstance(worker.report, Failed):
                raise unpack_error(worker.report.error)
        if self.stops.poll():
            raise Stopped

    def done(self) -> list[Done]:
        """Return the final reports of the workers that have written all of their output."""
        return [worker.report for worker in self._workers if isinstance(worker.report, Done)]

    def end(self) -> None:
        """End all workers that have not ended."""
        for worker in self._workers:
            worker.end()

    def _lead(self) -> None:
        """Wait for reports and act on them.

        Once workers are writing, a stop or a failure no longer interrupts the others, so that their output is known and
        can be removed.
        """
        running = {worker.connection: worker for worker in self._workers if not worker.is_over}
        ready: list[Any] = wait([*running, *([] if self._is_writing else [self.stops])])
        for connection in ready:
            if connection is self.stops:
                raise Stopped
            worker = running[connection]
            worker.next_report()
            if isinstance(worker.report, Failed) and not self._is_writing:
                raise unpack_error(worker.report.error)
            if isinstance(worker.report, Arrived | Done):
                self.note(worker.number, worker.report.progress)
        reports = [worker.report for worker in self._workers]
        if all(isinstance(report, Arrived) for report in reports):
            self._is_writing = any(isinstance(report, Arrived) and report.writes for report in reports)
            for worker in self._workers:
                worker.report = None
                worker.send(Go())
