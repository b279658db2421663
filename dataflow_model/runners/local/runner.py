"""The runner without Java: for unit tests, notebooks and small data, and for streams in one process."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Final, Literal

import attrs

from dataflow_model.arguments import OTHER_CHECKPOINTS, calls_explained, positive_int
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.checks.all_checks import check_sinks
from dataflow_model.plan.checks.state_checks import check_clock, check_needed_clock
from dataflow_model.plan.logical.runner import Clock
from dataflow_model.plan.rewrites.bounded import for_bounded_run
from dataflow_model.plan.rewrites.rounds import check_interval, in_rounds
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.grouping.uncompiled import warn_if_uncompiled
from dataflow_model.runners.local.bounded.result import LocalResult
from dataflow_model.runners.local.bounded.support import BOUNDED, STREAMING, WORKERS
from dataflow_model.runners.runs.options import (
    checked_flag,
    checkpoint_path,
    reject_options_of_streams,
    rows_per_batch,
    state_memory,
    trusts,
)
from dataflow_model.time import Duration, InstantLike, ProcessingTime, duration, duration_text, processing_time

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import PipelineResult
    from dataflow_model.time import DurationLike

_MODES: Final = ("streaming", "microbatch")
_POLL: Final = "10 milliseconds"


@calls_explained(dict.fromkeys(OTHER_CHECKPOINTS, "use `checkpoint`"))
class LocalRunner:
    r"""Run a pipeline in process: no Java, one shard, deterministic under a replay clock.

    It has stream semantics. Without a checkpoint it reads bounded sources and commits at the end of the run: files with
    a `processing_time=` column are replayed in its order; without one, all rows arrive at one tick of the wall clock.
    With a checkpoint it runs as a stream of micro-batches, also over unbounded sources. Each micro-batch is one durable
    transaction, and a run that is started again continues exactly where it stopped.

    Args:
        clock: the wall clock for sources without a replay clock; by default the machine's clock. Without a checkpoint
            it is read once, when the run starts. With one, a `Clock` such as `testing.ManualClock` is read in each
            micro-batch; an instant is a clock that stands still.
        mode: `"streaming"`, or `"microbatch"`, which runs in rounds of the clock: at the end of each round every window
            that has changed emits an early, accumulating pane, whatever its trigger, and nothing expires before the
            input ends.
        interval: the length of a round in microbatch mode.
        checkpoint: a directory on a local disk, in which the state of a stream is kept between starts.
        poll_interval: with a checkpoint, how long an idle run waits before it checks its sources and requests again; by
            default 10 milliseconds. In the first second after a micro-batch it waits a quarter of that. On Linux, a
            file that appears in a followed folder ends the wait.
        max_rows_per_batch: with a checkpoint, the maximum number of rows of files (or steps of a script) that a
            micro-batch reads; by default 400,000.
        max_state_memory: with a checkpoint, the memory for the state of keys, in bytes or as text such as `"500 MB"`
            (units B, kB, MB, GB and TB in powers of 1,000; KiB, MiB, GiB and TiB in powers of 1,024); by default not
            bounded. State beyond it is kept in a temporary file, which makes the run slower but changes no result. See
            "State larger than memory" in `docs/runners.md` for what the bound covers.
        refresh_side_inputs: with a checkpoint, whether static side inputs are computed again when the run starts; by
            default their values, which the checkpoint keeps, stay as they were when the run began.
        workers: the number of processes that run the pipeline, each with a shard of the keys; by default 1, which is
            this process. The results are the same for any number. With several, users' functions are pickled and run in
            processes of their own, which see none of this process's objects; each file sink writes a file per process.
            Only without a checkpoint.
        trust_checkpoint: with a checkpoint, whether to use it even if other users may write to it, since a checkpoint
            contains code. By default, one that everybody may write to is rejected, and one that belongs to another user
            or that its group may write to is warned about.

    Raises:
        InvalidArgument: for an unknown mode, an interval that does not fit the mode, numbers out of range, options of a
            stream without a checkpoint, or several workers with one.
        InvalidType: for a clock that is neither an instant nor a `Clock`, such as a class of clocks; for a
            `trust_checkpoint` that is not true or false.

    Source: Beam's DirectRunner, which has no checkpoints.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline(runner=dm.LocalRunner()) as p:
        ...     _ = p | dm.Create([("UA", 4), ("UA", 6)]) | dm.Mean.per_key() | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('UA', 5.0)]

        As a stream, from a folder that is followed; here it ends with the files that are there now:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "delays.csv").write_text("at,carrier,delay\n2013-01-01T05:00Z,UA,4\n")
        >>> p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=folder / "checkpoint"))
        >>> rows = p | dm.io.ReadCsv(folder / "*.csv", event_time="at", follow=True)
        >>> windows = rows | dm.WithKeys("carrier", value="delay") | dm.Window.into(dm.FixedWindows("1 hour"))
        >>> _ = windows | dm.Sum.per_key() | dm.io.Collect()
        >>> result = p.run(until="drained")
        >>> result.wait_until_finish()
        <RunnerState.DRAINED: 'drained'>
        >>> [record.value for record in result.collected("Collect")]
        [('UA', 4)]
    """

    def __init__(  # noqa: PLR0913 - the options of three hosts
        self,
        clock: InstantLike | Clock | None = None,
        *,
        mode: Literal["streaming", "microbatch"] = "streaming",
        interval: DurationLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        poll_interval: DurationLike | None = None,
        max_rows_per_batch: int | None = None,
        max_state_memory: int | str | None = None,
        refresh_side_inputs: bool = False,
        workers: int = 1,
        trust_checkpoint: bool = False,
    ) -> None:
        if mode not in _MODES:
            raise InvalidArgument(
                f"`mode` must be 'streaming' or 'microbatch', got {mode!r}",
                hint="use mode='streaming', which processes data as they arrive",
            )
        if checkpoint is None:
            of_streams = {
                "poll_interval": poll_interval,
                "max_rows_per_batch": max_rows_per_batch,
                "max_state_memory": max_state_memory,
                "refresh_side_inputs": refresh_side_inputs or None,
                "trust_checkpoint": trust_checkpoint or None,
            }
            reject_options_of_streams(of_streams, "no checkpoint", "pass checkpoint='checkpoints/delays', for example")
        self._rows = rows_per_batch(max_rows_per_batch)
        self._state_memory = state_memory(max_state_memory)
        self._refreshes = checked_flag("refresh_side_inputs", refresh_side_inputs)
        self._workers = _number_of_workers(workers, checkpoint)
        self._poll = duration(_POLL if poll_interval is None else poll_interval)
        if self._poll <= Duration(0):
            raise InvalidArgument(
                f"`poll_interval` must be positive, got {self._poll!r}",
                hint="use poll_interval='1 second', for example",
            )
        self.checkpoint = None if checkpoint is None else checkpoint_path(checkpoint)
        self._trusts_checkpoint = trusts(trust_checkpoint)
        self._clock = _checked_clock(clock)
        self._interval = check_interval(mode, interval)

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        """Start a run of the plan in a thread of its own.

        Raises:
            PlanError: with a checkpoint, for a sink that does not accept a stream.
                With several workers, for a function or a side input that cannot be pickled.
            UnsupportedOnRunner: for a feature that the runner does not support; see `runners.local.bounded.support`.
            CheckpointMismatch: for a checkpoint of another pipeline or runner.
            CheckpointInUse: for a checkpoint whose run is alive, in this process or another.
            UntrustedCheckpoint: for a checkpoint that everybody may write to.
            SinkError: for an output or a checkpoint that cannot be written.

        Warns:
            RuntimeWarning: once in a process, if the core is not compiled.
        """
        bounded = BOUNDED if self._workers == 1 else WORKERS
        support = bounded if self.checkpoint is None else STREAMING
        plan = self.rewritten(plan)
        support.check(plan)
        if self.checkpoint is not None:
            check_clock(plan)
        else:
            check_needed_clock(plan, has_replays=True)
        check_sinks(plan, streaming=self.checkpoint is not None)
        warn_if_uncompiled()
        with exits_reported():
            return self._start(plan, until)

    def _start(self, plan: Plan, until: str | None) -> PipelineResult:
        if self.checkpoint is not None:
            return self._stream(plan, self.checkpoint, until)
        clock = self._clock.now() if isinstance(self._clock, Clock) else self._clock
        wall = None if clock is None else int(clock)
        if self._workers > 1:
            from dataflow_model.runners.local.workers.job import Job
            from dataflow_model.runners.local.workers.result import WorkersResult

            return WorkersResult(Job.of(plan, self._workers, wall))
        return LocalResult(Execution.of(plan, wall))

    def rewritten(self, plan: Plan) -> Plan:
        """Return the plan as it is run: in rounds, in microbatch mode; its tables read once, if it is no stream."""
        plan = for_bounded_run(plan) if self.checkpoint is None else plan
        return plan if self._interval is None else in_rounds(plan, self._interval)

    def _stream(self, plan: Plan, checkpoint: str, until: str | None) -> PipelineResult:
        from dataflow_model.runners.local.streaming import Options, start

        clock = _StandingClock(self._clock) if isinstance(self._clock, ProcessingTime) else self._clock
        options = Options(
            checkpoint,
            clock,
            self._rows,
            self._poll,
            self._state_memory,
            refresh_side_inputs=self._refreshes,
            trust_checkpoint=self._trusts_checkpoint,
        )
        return start(plan, options, until=until)

    def __repr__(self) -> str:
        options = [] if self._clock is None else [f"clock={self._clock!r}"]
        if self._interval is not None:
            options += ["mode='microbatch'", f"interval={duration_text(self._interval)!r}"]
        options += [] if self.checkpoint is None else [f"checkpoint={self.checkpoint!r}"]
        options += [] if self._state_memory is None else [f"max_state_memory={self._state_memory}"]
        options += [] if self._workers == 1 else [f"workers={self._workers}"]
        return f"LocalRunner({', '.join(options)})"


@attrs.frozen
class _StandingClock:
    """A clock that stands still."""

    at: ProcessingTime

    def now(self) -> ProcessingTime:
        """Return the fixed time."""
        return self.at


def _checked_clock(clock: InstantLike | Clock | None) -> Clock | ProcessingTime | None:
    given: object = clock
    if isinstance(given, type):  # the class of a clock has a `now` too, but not what it needs
        raise InvalidType(
            f"`clock` must be an instant or a clock, got the class {given.__name__}", hint=f"write {given.__name__}()"
        )
    if isinstance(given, os.PathLike) or (isinstance(given, str) and not given[:1].isdigit()):
        raise InvalidArgument(
            f"`clock` must be an instant or a clock, got {given!r}",
            hint=f"pass the directory of a checkpoint by its name, checkpoint={str(given)!r}; "
            "an instant is written '2013-01-01T05:00-05:00'",
        )
    if clock is None:
        return None
    if isinstance(clock, datetime.datetime):  # it has a `now` of its own
        return processing_time(clock)
    return clock if isinstance(clock, Clock) else processing_time(clock)


def _number_of_workers(workers: object, checkpoint: object) -> int:
    count = positive_int("workers", workers, "use workers=os.cpu_count(), for example")
    if count > 1 and checkpoint is not None:
        raise InvalidArgument(
            f"a stream with a checkpoint runs in one process, got workers={count}",
            hint="leave out workers=, or leave out checkpoint= to run bounded input to its end; "
            "dm.SparkRunner(spark, mode='streaming') runs streams in several processes",
        )
    return count
