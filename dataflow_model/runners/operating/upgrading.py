"""`upgrade`: carry the state of a stopped run into a new checkpoint, from which a changed pipeline continues."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.logical.runner import as_run
from dataflow_model.runners.local.run_file import HOST
from dataflow_model.runners.local.stopped import StoppedLocalRun
from dataflow_model.runners.runs.options import checkpoint_path, trusts
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.trust import check_trust
from dataflow_model.runners.sharded.upgrade.carrying import carry_over

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.runners.sharded.upgrade.carrying import Upgraded
    from dataflow_model.runners.sharded.upgrade.reading import StoppedRun
    from dataflow_model.time import InstantLike


def upgrade(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str] | None = None,
    *,
    pipeline: Program | None = None,
    drop: Collection[str] = (),
    rename: Mapping[str, str] | None = None,
    watermarks: Mapping[str, InstantLike] | None = None,
    spark: SparkSession | None = None,
    trust_checkpoint: bool = False,
) -> Upgraded:
    """Carry the state of a stopped streaming run into a new checkpoint, from which a changed pipeline continues.

    Each of `SparkRunner` and `LocalRunner` can continue from the other's state. The next run with `checkpoint=new` may
    have other groupings, other sources and another number of shards. Transforms that keep their label and definition
    continue where they were, without loss or repetition; new transforms start with the rows that are read from then on.
    Groupings may have another allowed lateness, trigger or accumulation mode where their state means the same. If state
    would be lost, that run is rejected when it starts, unless `drop` names the transform. With `pipeline`, it is
    rejected here, before anything is written; without `new`, what would be lost is only returned.

    The old checkpoint is not changed. The new one appears only when it is complete. State that was pickled by
    reference, such as buffered elements of your own classes, is unpickled here, so your modules must be importable.

    Args:
        old: the checkpoint of a run that was stopped or killed.
        new: a directory that does not exist yet, on a file system that the driver and the workers share; `None` to find
            out what would happen, for which nothing is written.
        pipeline: the pipeline that will continue.
        drop: the labels of transforms whose state may be lost: groupings that no longer exist or have another
            definition, and sources that no longer exist or should start again.
        rename: new labels of transforms by their old ones, so that they keep their state under another label: of
            groupings and functions, of sources, which keep their position, and of sinks, which add to their output.
            The label of a composite transform renames all transforms in it. `drop` and `watermarks` name the old
            labels.
        watermarks: by label, the watermarks to which sources are moved back, if event times in the far future have
            moved them too far. The transforms that a source feeds follow. Windows that end before that instant stay
            closed. Later ones that were emitted and have expired are opened again by their next element, as new
            windows with nothing of what they had. See `docs/watermarks.md`.
        spark: the session with which to read the state of a run on Spark; by default one on this machine.
        trust_checkpoint: whether to read the old checkpoint even if other users may write to it, since a checkpoint
            contains code; see `LocalRunner`.

    Raises:
        CheckpointInUse: if the run in `old` is alive.
        CheckpointMismatch: if `old` does not contain a stopped run: none has started, or it was drained, has finished,
            or is in the middle of a commit; if `pipeline` would lose state that `drop` does not name, or cannot
            continue from there.
        InvalidArgument: if neither `new` nor `pipeline` is given, if `new` exists, if `drop`, `rename` or `watermarks`
            names a transform that the old pipeline did not have, if two transforms would have one label, for a
            watermark that is not behind those of the run, or for a URL.
        InvalidType: if `drop` is a single label, or no collection, or `rename` or `watermarks` no mapping.
        StateCorruption: if the old state is damaged.
        UntrustedCheckpoint: if everybody may write to `old`.
        SinkError: if the new directory cannot be written.

    Example:
        >>> upgrade("no/such/checkpoint", "checkpoints/delays-2")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.CheckpointMismatch: 'no/such/checkpoint' contains no checkpoint of a dataflow_model run
        Hint: pass the directory that an earlier run used as checkpoint=
    """
    if new is None and pipeline is None:
        raise InvalidArgument(
            "an upgrade needs the directory of the new checkpoint, or the pipeline that will continue, got neither",
            hint="pass new='checkpoints/delays-2', or pipeline=p to see what would become of the state",
        )
    given: object = drop
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        labels = [given] if isinstance(given, str) else ["delays", "rows"]
        raise InvalidType(f"`drop` must be a collection of labels, got {given!r}", hint=f"write drop={labels!r}")
    moved: object = {} if watermarks is None else watermarks
    if not isinstance(moved, Mapping):
        raise InvalidType(
            f"`watermarks` must map labels of sources to instants, got {moved!r}",
            hint="write watermarks={'rows': '2013-01-01T12:00Z'}",
        )
    before = checkpoint_path(old)
    check_trust(before, is_trusted=trusts(trust_checkpoint))
    return carry_over(
        before,
        None if new is None else checkpoint_path(new),
        _stopped(before, spark),
        plan=None if pipeline is None else _plan_of(pipeline),
        drop=drop,
        rename={} if rename is None else rename,
        watermarks=moved,
    )


class Program(Protocol):
    """A pipeline, of which an upgrade needs the plan."""

    runner: Runner | None

    def plan(self) -> Plan:
        """Return the plan of the transforms that have been applied so far."""
        ...


def _plan_of(pipeline: Program) -> Plan:
    """Return the plan of a pipeline as its runner runs it."""
    given: object = pipeline
    if not callable(getattr(given, "plan", None)):
        raise InvalidType(
            f"`pipeline` must be a pipeline, got {given!r}", hint="pass p = dm.Pipeline() with transforms"
        )
    plan = pipeline.plan()
    return plan if pipeline.runner is None else as_run(pipeline.runner, plan)


def needs_spark(old: str) -> bool:
    """Return whether only Spark can read the state of a stopped run; if there is no run, nothing needs Spark."""
    checkpoint = pathlib.Path(checkpoint_path(old)).absolute()
    return common_part(checkpoint).exists() and not (checkpoint / HOST).exists()


def _stopped(old: str, spark: SparkSession | None) -> StoppedRun:
    """Return the part of a checkpoint that belongs to the host of its run."""
    if not needs_spark(old):
        return StoppedLocalRun(pathlib.Path(old).absolute())
    from dataflow_model.runners.spark.stopped import StoppedSparkRun

    return StoppedSparkRun(str(pathlib.Path(old).absolute() / "spark"), spark)
