"""The base class of results: a run in a background thread, its state, progress and log, and waiting for its end."""

from __future__ import annotations

import abc
import concurrent.futures.thread  # noqa: F401 - it cannot be imported any more while a run ends with the program
import contextlib
import contextvars
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.display import Board, Count, html_table
from dataflow_model.errors import LOG, InvalidArgument, UnsupportedOnRunner, UserCodeError
from dataflow_model.plan.columns.records import Records
from dataflow_model.plan.endpoints.message_sinks import DataFrameSink, TabularSink
from dataflow_model.plan.logical.collecting import check_collected, table_of_collected
from dataflow_model.plan.logical.runner import RunnerState, is_observed
from dataflow_model.runners.engine.functions.ambient import Ambient
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.runs.progress import live_progress, progress_board
from dataflow_model.runners.runs.run_log import RunLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import Sink
    from dataflow_model.plan.logical.nodes import Write
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.time import DurationLike
    from dataflow_model.values.tables import Table

_SHOWN_SECONDS: Final = 0.25
_LOGGED_SECONDS: Final = 10.0
"""The seconds between two updates of the progress and the log, with a live table and without."""
_MOST_LINES: Final = 6
"""Of an error that a notebook shows with the run."""
_WAY_ON: Final = {
    RunnerState.RUNNING: "result.report() says how far it is, wait_until_finish() waits for the end, stop() stops it.",
    RunnerState.DONE: "result.report() has the counts of each transform and the watermarks.",
    RunnerState.DRAINED: "result.report() has the counts of each transform and the watermarks.",
    RunnerState.STOPPED: "A run with a checkpoint resumes when the pipeline is run with the same checkpoint.",
    RunnerState.FAILED: "wait_until_finish() raises the error. A run with a checkpoint resumes where it failed.",
}
"""What the user can do next."""
_RUNS: Final[weakref.WeakSet[BackgroundRun]] = weakref.WeakSet()
"""The runs of this process; see `_leave_runs`."""


class BackgroundRun(abc.ABC):
    """The base class of the results of all runs; see `PipelineResult`.

    A subclass calls `_start` when it is ready to execute.

    Args:
        staged: the plan that runs.
        runner: what runs it, in words.

    Attributes:
        is_stream: whether it commits micro-batches, rather than once at its end.
    """

    is_stream: ClassVar[bool] = False
    _error: BaseException | None = None

    def __init__(self, staged: StagedPlan, runner: str) -> None:
        self._staged = staged
        self._runner = runner
        self._state = RunnerState.RUNNING
        self._trace: TracebackType | None = None
        self._problem = ""
        self._is_error_seen = False
        self._ambient = Ambient.here()
        work = contextvars.Context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name=runner, daemon=True)
        self._beginning = threading.Lock()
        """Taken once: by the thread when it begins to run, or by `_start` if it gives up before that."""
        self._process = os.getpid()
        self._ending = threading.Event()
        self._over = threading.Event()

    @property
    def state(self) -> RunnerState:
        """The current state of the run."""
        return self._state

    def wait_until_finish(self, timeout: DurationLike | None = None) -> RunnerState:
        """Wait for the end of the run, at most for `timeout`; if the run failed, each call raises its error.

        Raises:
            InvalidArgument: if `timeout` is negative; in a function of the run itself, which would wait for itself; in
                a process that was forked from that of the run, which would wait forever.
        """
        if not self._is_here:
            raise InvalidArgument(
                f"wait_until_finish() was called in process {os.getpid()}, but {self._runner} runs in process "
                f"{self._process}, from which this one was forked",
                hint="wait for the end in the process that has started the run",
            )
        if threading.current_thread() is self._thread:
            raise InvalidArgument(
                f"wait_until_finish() was called in a function of the run that it waits for, {self._runner}",
                hint="call stop() or drain() there, which return at once, and wait for the end elsewhere",
            )
        self._over.wait(_seconds(timeout))
        if self._error is not None and self._over.is_set():
            self._is_error_seen = True
            error = self._error.with_traceback(self._trace)  # without what an earlier call has added
            raise error
        return self._state

    def drain(self) -> None:
        """Wait for the end, except in a function of the run itself: a bounded run drains by itself."""
        if self._may_wait():
            self.wait_until_finish()

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the run, and wait for its end; in a function of the run itself it returns at once."""

    def cancel(self) -> None:
        """Stop the run, as `stop` does."""
        self.stop()

    @abc.abstractmethod
    def report(self) -> RunReport:
        """Return a report of the run so far."""

    def collected(self, label: str) -> list[Record]:
        """Return what the `io.Collect` sink with this full label has received, in emission order.

        Before a stream has ended, these are the records of the micro-batches that are committed; a bounded run has none
        before its end. Call `wait_until_finish()` first for all of them.

        Raises:
            InvalidArgument: for a label that no such sink has.
        """
        check_collected(self._staged.plan, label)
        return Records(self._records_of(label))

    def table(self, label: str) -> Table:
        """Return what the `io.Collect` or `io.ToDataFrame` sink with this label has kept, as columns.

        Raises:
            InvalidArgument: for a label that no such sink has.
            SinkError: for a record that does not fit the others.
        """
        return table_of_collected(self._staged.plan, label, self.collected(label))

    def dataframe(self, label: str) -> Any:
        """Raise `UnsupportedOnRunner`: only a batch job on Spark has DataFrames as results."""
        raise UnsupportedOnRunner(
            f"only a batch job on Spark has DataFrames as results, got {self._runner} and the label {label!r}",
            hint=f"use result.table({label!r}).to_pandas()",
        )

    @abc.abstractmethod
    def _records_of(self, label: str) -> list[Record]:
        """Return the records that a sink has kept so far."""

    # ------------------------------------------------------------------------------------------- beginning and end

    @property
    def _is_here(self) -> bool:
        """Whether this is the process of the run, and not a fork of it, which has none of the threads of the run."""
        return os.getpid() == self._process

    def _may_wait(self) -> bool:
        """Return whether the caller may wait for the end: not in a function of the run itself, nor in a fork."""
        return self._is_here and threading.current_thread() is not self._thread

    @abc.abstractmethod
    def _execute(self) -> RunnerState:
        """Run to the end and publish the output, in the thread of the run; return how the run has ended."""

    def _reported(self, error: BaseException) -> BaseException:
        """Return the error to report in place of the one with which the run has ended."""
        return error

    def _release(self) -> None:  # noqa: B027 - a run may hold nothing
        """Release what the run holds, however it has ended."""

    def _start(self) -> None:
        """Start the thread of the run, and the thread that shows and logs its progress.

        From here on, the run releases what it holds. If the start fails or is interrupted, nobody gets this result, so
        the run is stopped.
        """
        try:
            self._log = RunLog(self._staged.whole, self._runner, self.report, self._staged.ahead)
            self._progress = live_progress()
            self._watcher: threading.Thread | None = None
            if is_observed():
                self._watcher = threading.Thread(target=self._watch, name=f"{self._runner}: watcher", daemon=True)
                self._watcher.start()
            self._thread.start()
            _RUNS.add(self)
        except BaseException:  # Ctrl-C too, also while the thread is running already
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Stop the run if its thread has begun; otherwise release what it holds, and keep the thread from beginning."""
        if not self._beginning.acquire(blocking=False):
            self.stop()
            return
        self._ending.set()
        self._state = RunnerState.STOPPED
        self._release()
        self._over.set()

    def _work(self) -> None:
        if not self._beginning.acquire(blocking=False):
            return
        ended_as = RunnerState.FAILED
        try:
            self._ambient.apply()
            with exits_reported():
                ended_as = self._execute()
        except BaseException as error:  # noqa: BLE001 - whatever it is, wait_until_finish raises it in the caller's thread
            self._fail(self._reported(error))
        try:
            self._release()
        except Exception:  # noqa: BLE001 - the run has ended as it has, and whoever waits for it must learn that
            LOG.exception("a run has ended, but not everything that it held could be released")
        finally:
            self._state = ended_as
            self._end()

    def _watch(self) -> None:
        """Update the progress, and log what was dropped, at regular intervals until the run ends."""
        while not self._ending.wait(_SHOWN_SECONDS if self._progress.is_shown else _LOGGED_SECONDS):
            # A failed update must not affect the run; the next one may succeed.
            with contextlib.suppress(Exception):
                self._progress.update(self._board)
                self._log.update()

    def _fail(self, error: BaseException) -> None:
        """Record the error with which the run has failed."""
        self._error = error
        # The cause of an error in a user's function has the user's frames; those of the engine would hide them.
        self._trace = None if isinstance(error, UserCodeError) else error.__traceback__
        self._problem = f"{type(error).__name__}: {error}"

    def _end(self) -> None:
        """Notify all waiters that the run has ended in `_state`."""
        self._ending.set()
        if self._watcher is not None:
            self._watcher.join()
        try:
            self._progress.end(self._board)
            self._log.end(self._state, self._error)
        except Exception:  # noqa: BLE001 - the run has ended as it has: a checkpoint that is gone, say, is not its failure
            LOG.exception("the end of a run could not be shown")
        finally:
            self._over.set()

    def _leave(self) -> None:
        """Wait for the end of the run, since the program ends, unless that is because of an error or Ctrl-C."""
        if hasattr(sys, "last_type"):
            LOG.warning("%s: the program ends with an error, so the run is abandoned", self._runner)
        else:
            self._over.wait()

    def _log_unseen_error(self) -> None:
        """Log the error with which the run has failed, unless `wait_until_finish` has raised it."""
        if self._error is not None and not self._is_error_seen and self._is_here:
            self._is_error_seen = True
            LOG.error("%s has failed:", self._runner, exc_info=self._error.with_traceback(self._trace))

    def __del__(self) -> None:
        self._log_unseen_error()

    def _board(self) -> Board:
        """Return the content of the live table."""
        board = progress_board(self.report(), self._staged)
        return attrs.evolve(board, caption=f"{self._standing()}; {board.caption}", done=self._done())

    def _done(self) -> float | None:
        """Return the part of the run that is done, from 0 to 1; `None` if that is not known, as of a stream."""
        return None

    def _standing(self) -> str:
        return f"{self._runner}: {self._state.value} after {self._log.seconds:,.0f} s"

    # --------------------------------------------------------------------------------------------------- showing it

    def __repr__(self) -> str:
        sinks = [f"{node.label!r} {received:,}" for node, received in self._received()]
        return f"<{self._runner}: {self._state.value}{', received: ' if sinks else ''}{', '.join(sinks)}>"

    def _repr_html_(self) -> str:
        received = list(self._received())
        rows = [(node.label, Count(count), _kind(node.sink), _way_to(node)) for node, count in received]
        headings = ("sink", "received", "kind", "read it") if rows else ()
        notes = [*self._problem.splitlines()[:_MOST_LINES], _WAY_ON[self._state]]
        return html_table(f"{self._runner}: {self._state.value}", headings, rows, total=len(rows), notes=notes)

    def _received(self) -> Iterator[tuple[Write, int]]:
        """Yield the sinks with the number of elements that each has received so far."""
        transforms = self.report().transforms
        for node in self._staged.sinks:
            yield node, transforms[node.label].elements_in


def _leave_runs() -> None:
    """End all runs at the end of the program, and log the errors of those that nobody has waited for.

    A process that a function has forked also ends here, in a copy of the thread of a run that goes on elsewhere.
    """
    for run in tuple(_RUNS):
        if run._is_here and run._thread.is_alive():  # noqa: SLF001
            run._leave()  # noqa: SLF001
        run._log_unseen_error()  # noqa: SLF001


# The runs end before Python stops what they may need: executors of `concurrent.futures`, whose own callback was
# registered first and is called last, then everything registered with `atexit`. There is no public function for that.
threading._register_atexit(_leave_runs)  # type: ignore[attr-defined] # noqa: SLF001


def _seconds(timeout: DurationLike | None) -> float | None:
    """Return a timeout in seconds, in the range that `threading` accepts."""
    if timeout is None:
        return None
    length = nonnegative_duration("timeout", timeout, "use 0 to return at once, or leave it out to wait for the end")
    return min(int(length) / 1_000_000, threading.TIMEOUT_MAX)


def _kind(sink: Sink) -> str:
    """Describe a sink and the directory to which it writes, as the user wrote its transform."""
    if sink.keeps_records:
        return sink.describe().partition("(")[0]
    name, directory = type(sink).__name__.removesuffix("Sink"), sink.directory()
    return name if directory is None else f"{name} in {directory}"


def _way_to(node: Write) -> str:
    """Return how to read what a sink has kept, if it is kept for the program that has started the run."""
    if isinstance(node.sink, DataFrameSink):
        return f"result.dataframe({node.label!r})"
    if isinstance(node.sink, TabularSink):
        return f"result.table({node.label!r}) or result.collected({node.label!r})"
    return f"result.collected({node.label!r})" if node.sink.keeps_records else ""
