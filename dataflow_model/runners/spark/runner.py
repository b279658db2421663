"""SparkRunner: the same pipeline as a bounded job or as one Structured Streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from dataflow_model.arguments import OTHER_CHECKPOINTS, calls_explained, nonnegative_duration, positive_int
from dataflow_model.errors import InvalidArgument, InvalidType, SessionStopped
from dataflow_model.plan.checks.all_checks import check_sinks
from dataflow_model.plan.checks.state_checks import check_needed_clock
from dataflow_model.plan.checks.weak import check_weak
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.rewrites.bounded import for_bounded_run
from dataflow_model.plan.rewrites.rounds import check_interval, in_rounds
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.grouping.uncompiled import warn_if_uncompiled
from dataflow_model.runners.runs.options import (
    checked_flag,
    checkpoint_path,
    reject_options_of_streams,
    rows_per_batch,
    state_memory,
    trusts,
)
from dataflow_model.runners.spark.deployment.failures import is_stopped
from dataflow_model.runners.spark.deployment.installation import check_pyspark
from dataflow_model.runners.spark.deployment.session import active, shuffle_partitions
from dataflow_model.runners.spark.deployment.worker_python import quick_workers
from dataflow_model.runners.spark.support import BATCH, STREAMING

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import PipelineResult
    from dataflow_model.time import DurationLike

_MODES: Final = ("batch", "streaming", "microbatch")
_PRODUCTIONS: Final = ("strong", "weak")
_MOST_SHARDS: Final = 64


@calls_explained(
    {
        **dict.fromkeys(OTHER_CHECKPOINTS, "use `checkpoint`"),
        "spark": "pass the session: dm.SparkRunner(dataflow_model.runners.spark.local_session('name'), …)",
        "trigger": "use trigger_interval='10 seconds'",
    }
)
class SparkRunner:
    """Run a pipeline on Spark.

    Args:
        spark: the Spark session: local, on a cluster, or through Spark Connect.
        mode: `"batch"` runs bounded sources as a job. Each key's elements are processed in event-time order with the
            watermark following them; clocks and watermark estimators are ignored, so no element is late and no pane
            fires early by the clock. `"streaming"` runs one query with one checkpoint for the whole pipeline.
            `"microbatch"` does the same in rounds of the clock: at the end of each round every window that has changed
            emits an early, accumulating pane, whatever its trigger, and nothing expires before the input ends.
        checkpoint: in streaming modes, a directory that the driver and the executors can reach; a run that is started
            again with the same directory continues where it stopped.
        trigger_interval: in streaming modes, the interval at which micro-batches start; by default each starts as soon
            as the previous one has ended.
        shards: the number of shards that own the state; by default the session's number of shuffle partitions, at most
            64. A run keeps its initial number.
        interval: in microbatch mode, the length of a round.
        max_rows_per_batch: in streaming modes, the maximum number of rows of files (or steps of a script) that a
            micro-batch reads; by default 400,000.
        max_state_memory: in streaming modes, the memory for the state of keys, in bytes or as text such as `"500 MB"`
            (units B, kB, MB, GB and TB in powers of 1,000; KiB, MiB, GiB and TiB in powers of 1,024), divided evenly
            among the shards and keyed transforms; by default not bounded. State beyond it is kept in temporary files of
            the workers, which makes the run slower but changes no result. See "State larger than memory" in
            `docs/runners.md` for what the bound covers.
        refresh_side_inputs: in streaming modes, whether static side inputs are computed again when the run starts; by
            default their values, which the checkpoint keeps, stay as they were when the run began.
        productions: in streaming modes, `"strong"` publishes the output of a micro-batch when all of its state is
            durable. `"weak"` publishes it earlier, from the tasks that produce it; but a task or micro-batch that fails
            is run again, and its output may be published twice. Use it only for idempotent output.
        trust_checkpoint: in streaming modes, whether to use the checkpoint even if other users may write to it, since a
            checkpoint contains code. By default, one that everybody may write to is rejected, and one that belongs to
            another user or that its group may write to is warned about.

    Raises:
        InvalidType: for something that is no Spark session; for `None` when it runs a pipeline; for a
            `trust_checkpoint` that is not true or false.
        InvalidArgument: for an unknown mode, a missing interval, a checkpoint that is missing or a URL, or numbers out
            of range; for options of streams with `mode="batch"`, weak productions among them: a bounded job publishes
            once, at its end.
        ModuleNotFoundError: if PySpark is not installed.
        UnsupportedOnRunner: for a PySpark that is too old.

    Source: Beam's SparkRunner, whose Python pipelines cannot stream.

    Example:
        >>> runner = SparkRunner(None, mode="micro")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `mode` must be 'batch', 'streaming' or 'microbatch', got 'micro'
        Hint: use mode='batch' for bounded inputs, mode='streaming' for a query that runs on
    """

    def __init__(  # noqa: PLR0913 - the options of three modes
        self,
        spark: SparkSession | Any,
        mode: Literal["batch", "streaming", "microbatch"] = "batch",
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        trigger_interval: DurationLike | None = None,
        interval: DurationLike | None = None,
        shards: int | None = None,
        max_rows_per_batch: int | None = None,
        max_state_memory: int | str | None = None,
        refresh_side_inputs: bool = False,
        productions: Literal["strong", "weak"] = "strong",
        trust_checkpoint: bool = False,
    ) -> None:
        _check_session(spark, may_be_missing=True)
        if mode not in _MODES:
            raise InvalidArgument(
                f"`mode` must be 'batch', 'streaming' or 'microbatch', got {mode!r}",
                hint="use mode='batch' for bounded inputs, mode='streaming' for a query that runs on",
            )
        if mode != "batch" and not checkpoint:
            raise InvalidArgument(
                "a streaming run needs `checkpoint`, got none",
                hint="pass a separate directory such as checkpoint='/data/checkpoints/flights'",
            )
        if mode == "batch":
            of_streams = {
                "checkpoint": checkpoint,
                "trigger_interval": trigger_interval,
                "max_rows_per_batch": max_rows_per_batch,
                "max_state_memory": max_state_memory,
                "refresh_side_inputs": refresh_side_inputs or None,
                "trust_checkpoint": trust_checkpoint or None,
            }
            reject_options_of_streams(of_streams, "mode='batch'", "use mode='streaming'")
        pause = 0 if trigger_interval is None else trigger_interval
        self.trigger_interval = nonnegative_duration("trigger_interval", pause, "use trigger_interval='1 second'")
        if productions not in _PRODUCTIONS:
            raise InvalidArgument(
                f"`productions` must be 'strong' or 'weak', got {productions!r}",
                hint="use 'strong' unless duplicates may be published after a crash",
            )
        if productions == "weak" and mode == "batch":
            raise InvalidArgument(
                "mode='batch' has no weak productions: a bounded job publishes once, at its end",
                hint="use mode='streaming', or leave `productions` out",
            )
        path = None if checkpoint is None else checkpoint_path(checkpoint)
        check_pyspark("batch" if mode == "batch" else "streaming")
        self.spark = spark
        self.mode = mode
        self.productions = productions
        self.checkpoint = path
        self.trust_checkpoint = trusts(trust_checkpoint)
        self.max_rows_per_batch = rows_per_batch(max_rows_per_batch)
        self.max_state_memory = state_memory(max_state_memory)
        self.refresh_side_inputs = checked_flag("refresh_side_inputs", refresh_side_inputs)
        self.interval = check_interval(mode, interval)
        self._shards = None if shards is None else positive_int("shards", shards, "use shards=8, for example")

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        """Start a run of the plan and return its result immediately.

        Raises:
            InvalidType: if `spark` is not a Spark session.
            PlanError: for a sink that does not accept a stream, weak productions of values that may be retracted, or
                functions that cannot be pickled.
            UnsupportedOnRunner: for a feature that the mode does not support; see `runners.spark.support`.
            CheckpointMismatch: for a checkpoint of another pipeline.
            UntrustedCheckpoint: for a checkpoint that everybody may write to.
            SessionStopped: if the session, or that of a DataFrame in a stream, was stopped.

        Warns:
            RuntimeWarning: once in a process, if the core is not compiled for the driver. A note in the report says so
                of executors.
        """
        from dataflow_model.runners.sharded.tasks.unpicklable import check_functions

        plan = self.rewritten(plan)
        if self.productions == "weak":
            check_weak(plan)
        support = BATCH if self.mode == "batch" else STREAMING
        support.check(plan)
        if self.mode == "batch":
            check_needed_clock(plan, has_replays=False)
        check_sinks(plan, streaming=self.mode != "batch")
        check_functions(plan)
        _check_session(self.spark)
        if is_stopped(self.spark):
            raise SessionStopped(
                "the Spark session was stopped before the run started",
                hint="create a new session, and pass it to a new SparkRunner",
            )
        warn_if_uncompiled()
        workers = quick_workers(self.spark, plan.foreign_modules)
        if self.mode == "batch":
            from dataflow_model.runners.spark import batch

            with exits_reported(), workers:
                return batch.start(self, cut_into_stages(plan))
        from dataflow_model.runners.spark import streaming  # a PySpark that supports only batch cannot import it

        with exits_reported(), workers, active(self.spark):
            return streaming.start(self, cut_into_stages(plan, changing_sides(plan)), until=until)

    def rewritten(self, plan: Plan) -> Plan:
        """Return the plan as it is run: in rounds, in microbatch mode; its tables read once, if it is no stream."""
        plan = for_bounded_run(plan) if self.mode == "batch" else plan
        return plan if self.interval is None else in_rounds(plan, self.interval)

    def shards(self) -> int:
        """Return the number of shards of a new run."""
        return self._shards or min(shuffle_partitions(self.spark), _MOST_SHARDS)

    def __repr__(self) -> str:
        return f"SparkRunner(spark, mode={self.mode!r})"


def _check_session(spark: object, *, may_be_missing: bool = False) -> None:
    """Reject what is no session, without a call to Spark: a session may have been stopped."""
    is_session = hasattr(type(spark), "conf") or "conf" in getattr(spark, "__dict__", ())
    if not (may_be_missing and spark is None) and (not is_session or isinstance(spark, type)):
        raise InvalidType(
            f"`spark` must be a SparkSession, got {spark!r}",
            hint="create one with dataflow_model.runners.spark.local_session('name') or "
            "SparkSession.builder.getOrCreate()",
        )
