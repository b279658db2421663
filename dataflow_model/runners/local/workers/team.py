"""The workers of one run, as the parent leads them: through barriers to the end, or to an early one."""

from __future__ import annotations

import contextlib
import os
import signal
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import WorkerLost
from dataflow_model.runners.local.workers.failures import unpack_error
from dataflow_model.runners.local.workers.fork_server import fork_worker
from dataflow_model.runners.local.workers.messages import Arrived, Began, Done, Failed, Go, Running, Stop, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from dataflow_model.runners.local.workers.fork_server import ForkedWorker
    from dataflow_model.runners.local.workers.messages import Assignment, Progress, Report

_END_SECONDS: Final = 5.0
_MOST_SHOWN: Final = 8
_OF_CRASHES: Final = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
_EXITED: Final = (
    "a function, or a library that it calls, has ended the process, such as by os._exit: raise an exception instead"
)
_CRASHED: Final = "compiled code has crashed: set the environment variable PYTHONFAULTHANDLER=1 to see where"
_MEMORY: Final = (
    "the system ends processes if it is short of memory: use fewer workers or read less data; "
    "anything that the worker has written is in the output of this process"
)


class Stopped(Exception):
    """The run was stopped."""


@attrs.define(eq=False)
class _Worker:
    """A worker as the parent sees it.

    Attributes:
        number: its number.
        forked: its process.
        process: the id of its process, once it has begun.
        running: the labels of the transforms that it runs.
        report: its last report since it began or passed a barrier, or `None`.
    """

    number: int
    forked: ForkedWorker
    process: int | None = None
    running: tuple[str, ...] = ()
    report: Report | None = None

    @property
    def connection(self) -> Connection:
        return self.forked.connection

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
        match message:
            case Began():
                self.process = message.process
            case Running():
                self.running = message.labels
            case _:
                self.report = message

    def send(self, message: Assignment | Go | Stop) -> None:
        try:
            send(self.connection, message)
        except OSError:
            raise self._lost() from None

    def stop(self) -> None:
        """Ask the process to end."""
        with contextlib.suppress(OSError):
            send(self.connection, Stop())

    def end(self) -> None:
        """Wait until the process has ended, and end it if it takes too long."""
        with contextlib.suppress(OSError, EOFError):
            while self.connection.poll(_END_SECONDS):
                self._drop()
            if self.process is not None:
                os.kill(self.process, signal.SIGKILL)  # it is alive, since the other end of its connection is open
                while True:
                    self._drop()
        self.forked.close()

    def _drop(self) -> None:
        message: Any = receive(self.connection)
        if isinstance(message, Began):
            self.process = message.process

    def _lost(self) -> WorkerLost:
        process = "" if self.process is None else f" (process {self.process})"
        status = self.forked.ended_with()
        labels = ", ".join(map(repr, self.running[:_MOST_SHOWN]))
        if len(self.running) > _MOST_SHOWN:
            labels += f" and {len(self.running) - _MOST_SHOWN} more"
        running = f"\n  transforms: {labels}" if self.running else ""
        exited, ended = status is not None and status >= 0, _ending(status)
        return WorkerLost(
            f"worker {self.number}{process} of LocalRunner(workers=…) {ended} before its work was done{running}",
            hint=_EXITED if exited else _CRASHED if -(status or 0) in _OF_CRASHES else _MEMORY,
        )


def _ending(status: int | None) -> str:
    """Return in words how a process has ended.

    Args:
        status: what `ForkedWorker.ended_with` has returned.

    Example:
        >>> _ending(3), _ending(-9)
        ('exited with status 3', 'was ended by the signal SIGKILL')
    """
    if status is None:
        return "ended"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by the signal {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"was ended by the signal {-status}"


@attrs.define(eq=False)
class Team:
    """Starts the workers of a run and leads them.

    Args:
        assignments: what each worker does.
        modules: what is imported before workers are forked, besides this package.
        stops: becomes readable when the run is stopped.
        note: takes what the workers have counted, by worker, whenever that changes.
    """

    assignments: Sequence[Assignment]
    modules: tuple[str, ...]
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
            worker = _Worker(assignment.number, fork_worker(self.modules))
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
            worker.stop()
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
