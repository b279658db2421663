"""A worker: the process that runs one shard of a bounded run."""

from __future__ import annotations

import contextlib
import os
import pathlib
import queue
import shutil
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.metrics.collecting import collecting
from dataflow_model.runners.engine.functions.garbage import collect_rarely
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.lifted.allocation import keep_freed_memory
from dataflow_model.runners.local.workers.exchange import Exchange
from dataflow_model.runners.local.workers.failures import pack_error
from dataflow_model.runners.local.workers.messages import (
    PROGRAM_FILE,
    Arrived,
    Assignment,
    Began,
    Done,
    Failed,
    Go,
    Running,
    receive,
    send,
)
from dataflow_model.runners.local.workers.shard_run import ShardRun
from dataflow_model.runners.sharded.outputs.task_output import write_task
from dataflow_model.values.main_classes import stand_in_for_main
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from dataflow_model.runners.sharded.tasks.program import PackedProgram

_END_SECONDS: Final = 2.0
"""How long a worker has to tear its functions down after the parent has ended the run."""


def work(connection: Connection) -> None:
    """Run the parent's assignment, and report the outcome."""
    _keep_from_children(connection)
    try:
        assignment: Assignment = receive(connection)
        send(connection, Began(os.getpid()))
    except (EOFError, OSError):
        return  # the parent has ended, or has stopped the run
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parent = _Parent(connection, assignment.folder)
    try:
        _settle(assignment)
        with exits_reported():
            report: Done | Failed = run_assignment(assignment, parent.barrier, parent.note)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent raises it
        if parent.is_over:
            return
        report = Failed(pack_error(error))
    send(connection, report)


def _keep_from_children(connection: Connection) -> None:
    """Close the connection in processes that users' functions start: the parent sees by its end that this one died."""
    os.set_inheritable(connection.fileno(), False)
    os.register_at_fork(after_in_child=connection.close)


def flush_output() -> None:
    """Write out what was printed, which `os._exit` would discard."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # whatever it is, the process ends here
            stream.flush()


def run_assignment(
    assignment: Assignment, barrier: Callable[[Arrived], None], note: Callable[[Sequence[str]], None]
) -> Done:
    """Run one shard, and write its output to where readers do not see it yet.

    Args:
        assignment: what to do.
        barrier: returns when all workers have called it; takes what this one has counted.
        note: takes the labels of the transforms that run next.
    """
    folder = pathlib.Path(assignment.folder)
    packed: PackedProgram = load(pathlib.Path(folder, PROGRAM_FILE).read_bytes())
    program = packed.unpack()
    stand_in_for_main(program.main_classes)
    program.ambient.apply()
    exchange = Exchange(folder, assignment.number, assignment.workers, lambda: barrier(Arrived(run.progress())))
    run = ShardRun(program, assignment, exchange, note)
    with collecting(run.tally):
        records = run.run()
        barrier(Arrived(run.progress(), writes=True))
        messages: dict[str, bytes] = {}
        note([sink.label for sink in program.staged.sinks])
        for sink in program.staged.sinks:
            written = records.pop(sink.label)
            if len(written):
                task_id = str(assignment.number)
                messages[sink.label] = write_task(sink.label, sink.sink, program.run_id, task_id, written)
    return Done(run.progress(), messages)


def _settle(assignment: Assignment) -> None:
    """Make the process one in which users' functions find what they find in the parent."""
    sys.path[:] = assignment.path
    os.environ.clear()
    os.environ.update(assignment.environment)
    os.chdir(assignment.directory)
    np.random.seed()  # noqa: NPY002 - workers are forks of one process; Python reseeds `random` itself
    pa.set_cpu_count(max(1, (os.cpu_count() or 1) // assignment.workers))
    keep_freed_memory()
    collect_rarely()


@attrs.define
class _Parent:
    """The parent as a worker sees it: a thread waits for its messages, and ends the process when it asks for that.

    Args:
        connection: the connection to the parent.
        folder: the folder of the run, which the last process removes if the parent has died.

    Attributes:
        is_over: whether the parent has ended the run, or has died.
    """

    connection: Connection
    folder: str
    is_over: bool = attrs.field(init=False, default=False)
    _passed: queue.SimpleQueue[Go] = attrs.field(init=False, factory=queue.SimpleQueue)

    def __attrs_post_init__(self) -> None:
        threading.Thread(target=self._listen, name="LocalRunner: parent", daemon=True).start()

    def barrier(self, arrived: Arrived) -> None:
        """Report to the parent, and wait until all workers have done so."""
        send(self.connection, arrived)
        self._passed.get()

    def note(self, labels: Sequence[str]) -> None:
        """Report which transforms run next: if the process ends while they run, it can say nothing any more."""
        send(self.connection, Running(tuple(labels)))

    def _listen(self) -> None:
        try:
            while isinstance(message := receive(self.connection), Go):
                self._passed.put(message)
        except (EOFError, OSError):
            shutil.rmtree(self.folder, ignore_errors=True)  # the parent has died, so nobody else will
        self.is_over = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # so that it tears functions down
        time.sleep(_END_SECONDS)
        flush_output()
        os._exit(1)
