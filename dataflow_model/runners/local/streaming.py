"""Start a stream in this process, and represent it to the user as a result."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import SupersededRun
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.runners.engine.bounded.execution import run_ahead_in_process
from dataflow_model.runners.engine.functions.garbage import collecting_rarely
from dataflow_model.runners.local.lock import RunLock
from dataflow_model.runners.local.run_file import HOST, RunFile, is_input_over
from dataflow_model.runners.local.stream import LocalStream
from dataflow_model.runners.local.wake_up import WakeUp
from dataflow_model.runners.sharded.checkpoint.running import RunningMark
from dataflow_model.runners.sharded.checkpoint.trust import check_trust
from dataflow_model.runners.sharded.commits.ahead import ahead_of_stream
from dataflow_model.runners.sharded.commits.restoring import claim_sinks
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.results import StreamResult
from dataflow_model.runners.sharded.starting import request_end, stream_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import Clock
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.time import Duration

_SHARDS: Final = 1  # one process gains nothing from several
_SHORTEST_SECONDS: Final = 0.001
"""How long a stream waits at least; on a clock of the user's that stands still, the next moment may stay near."""
_EAGER_SECONDS: Final = 1.0
_EAGER: Final = 4
"""For `_EAGER_SECONDS` after a micro-batch, sources are polled `_EAGER` times as often, since more data may follow."""


@attrs.frozen
class Options:
    """The options of a stream in process.

    Attributes:
        checkpoint: the directory of the checkpoint.
        clock: the wall clock; `None` is the machine's.
        rows_per_batch: the largest number of rows that a micro-batch reads.
        poll_interval: the time between two polls of the sources while the stream is idle.
        max_state_memory: the bytes of memory for state by key; `None` for no bound.
        refresh_side_inputs: whether static side inputs are computed again although the checkpoint holds them.
        trust_checkpoint: whether it is used whoever may write to it.
    """

    checkpoint: str
    clock: Clock | None
    rows_per_batch: int
    poll_interval: Duration
    max_state_memory: int | None = None
    refresh_side_inputs: bool = False
    trust_checkpoint: bool = False


def start(plan: Plan, options: Options, *, until: str | None) -> LocalStreamResult:
    """Start the stream of a plan in its own thread."""
    lock, stream = open_stream(plan, options, until=until)
    with contextlib.ExitStack() as resources:
        resources.callback(lock.release)
        resources.callback(stream.close)
        return LocalStreamResult(stream, resources, int(options.poll_interval) / 1_000_000)


def open_stream(plan: Plan, options: Options, *, until: str | None = None) -> tuple[RunLock, LocalStream]:
    """Lock a checkpoint, and return the lock with the stream as it was left; nothing runs yet.

    Raises:
        CheckpointMismatch: if the checkpoint belongs to another pipeline or runner.
        CheckpointInUse: if its run is alive, in this process or another.
        UntrustedCheckpoint: if everybody may write to it.
        SinkError: if the directory cannot be written, or is on a network file system.
    """
    staged = cut_into_stages(plan, changing_sides(plan))
    check_trust(options.checkpoint, is_trusted=options.trust_checkpoint)
    Checkpoint.check_path(options.checkpoint, HOST)
    lock = RunLock.of(options.checkpoint, HOST)
    with contextlib.ExitStack() as undone:
        undone.callback(lock.release)
        lock.take()
        checkpoint = Checkpoint.open(options.checkpoint, staged, _SHARDS, HOST, is_input_over)
        request_end(checkpoint, staged, until)
        wall = None if options.clock is None else int(options.clock.now())
        ahead = ahead_of_stream(
            checkpoint.common_part,
            staged,
            functools.partial(run_ahead_in_process, staged, wall),
            anew=options.refresh_side_inputs,
        )
        program = stream_program(
            checkpoint,
            _synced(ahead.filled(staged)),
            ahead.sides,
            range(checkpoint.shards),
            max_state_memory=options.max_state_memory,
        )
        feed = Feed.of(
            program,
            rows_per_batch=options.rows_per_batch,
            parallelism=1,
            read_clock=_reading(program, options.clock),
        )
        file = RunFile.create(checkpoint.host_part)
        undone.callback(file.close)
        stream = LocalStream(checkpoint, program, file, feed, ahead.counted)
        claim_sinks(stream.program, options.checkpoint)
        undone.pop_all()
    return lock, stream


@contextlib.contextmanager
def opened_stream(plan: Plan, options: Options, *, until: str | None = None) -> Iterator[LocalStream]:
    """Open a stream that the caller steps through in the `with` block, as tests and benchmarks do."""
    lock, stream = open_stream(plan, options, until=until)
    try:
        with collecting_rarely():
            stream.roll_forward()
            yield stream
    finally:
        stream.close()
        lock.release()


def _synced(staged: StagedPlan) -> StagedPlan:
    """Return a staged plan whose sinks sync what they write and publish to disk."""
    nodes = tuple(
        attrs.evolve(node, sink=node.sink.synced()) if isinstance(node, Write) else node for node in staged.plan.nodes
    )
    return attrs.evolve(staged, plan=attrs.evolve(staged.plan, nodes=nodes))


def _reading(program: Program, clock: Clock | None) -> Callable[[int], int]:
    """Return a function from the machine's clock to the reading of the stream's wall clock."""
    if clock is None:
        return program.fault.read_clock
    return lambda _: program.fault.read_clock(int(clock.now()))


class LocalStreamResult(StreamResult):
    """The result of a stream on LocalRunner; see `PipelineResult`. The stream runs in a thread of this process.

    Args:
        stream: the stream.
        resources: what closes it and releases its lock. The run takes this over when it starts, so that nobody else
            closes the file that it uses.
        poll_seconds: the time between two polls of the sources while the stream is idle.
    """

    def __init__(self, stream: LocalStream, resources: contextlib.ExitStack, poll_seconds: float) -> None:
        super().__init__(stream.checkpoint, stream.program.staged, "LocalRunner, stream", stream.counted)
        self._stream = stream
        self._poll_seconds = poll_seconds
        self._stopping = threading.Event()
        self._wake_up = WakeUp(stream.feed.notifiers())
        self._mark = RunningMark(stream.checkpoint.common_part)
        self._resources = resources.pop_all()
        self._start()

    def stop(self) -> None:
        """Stop after the current micro-batch, and wait for that; a later run continues from the checkpoint.

        In a function of the run itself it returns at once.
        """
        self._stopping.set()
        self._wake_up.ring()
        if self._may_wait():
            self._over.wait()

    def _offset(self) -> Offset:
        return self._stream.offset

    def _pending_since(self) -> int | None:
        return self._stream.began

    def _execute(self) -> RunnerState:
        self._mark.start()
        try:
            with collecting_rarely():
                self._run()
        except BaseException:
            with contextlib.suppress(Exception):
                self._stream.close()
            raise
        self._stream.close()
        return self._finished() if self._stream.is_over else RunnerState.STOPPED

    def _release(self) -> None:
        with self._resources:
            self._resources.callback(self._wake_up.close)
            self._mark.end(superseded=isinstance(self._error, SupersededRun))

    def _run(self) -> None:
        """Run micro-batches until the input ends or the run is stopped."""
        stream = self._stream
        eager_until = 0.0
        stream.roll_forward()
        while not stream.is_over and not self._stopping.is_set():
            if stream.step():
                eager_until = time.monotonic() + _EAGER_SECONDS
            else:
                is_eager = time.monotonic() < eager_until
                until_poll = self._poll_seconds / _EAGER if is_eager else self._poll_seconds
                if self._wake_up.wait(min(until_poll, max(stream.until_due(), _SHORTEST_SECONDS))):
                    stream.feed.polls.hasten()
