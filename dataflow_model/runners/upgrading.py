"""`upgrade`: carry what a stopped run has kept into a new checkpoint, from which a changed pipeline goes on."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from dataflow_model.runners.local.run_file import HOST
from dataflow_model.runners.local.stopped import StoppedLocalRun
from dataflow_model.runners.sharded.upgrade.carrying import carry_over

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from dataflow_model.runners.sharded.upgrade.carrying import Upgraded
    from dataflow_model.runners.sharded.upgrade.reading import StoppedRun

__all__ = ["needs_spark", "upgrade"]


def upgrade(old: str, new: str, *, drop: Collection[str] = (), spark: SparkSession | None = None) -> Upgraded:
    """Carry the state of a stopped streaming run over, so that a changed pipeline goes on from it.

    Either runner may have made the old checkpoint, and either may go on from the new one: `SparkRunner`, or
    `LocalRunner(checkpoint=new)`. The next run with `checkpoint=new` may have other groupings, other sources, another
    number of shards: what has kept its name and its definition goes on where it was, without loss or repeat; what is
    new begins with the rows that are read from then on. What was kept and would be lost stops that run before anything
    happens, unless `drop` names it.

    The old checkpoint is only read. The new one appears when it is complete. What was pickled by reference, such as
    elements of a class of yours that wait for their instant, is read here: your modules have to be importable.

    Args:
        old: the checkpoint of a run that was stopped or killed.
        new: a directory that is not there yet, on a file system that driver and workers share.
        drop: labels of transforms whose state is to be lost: groupings that are gone or have another definition;
            sources that are to begin again, or are gone.
        spark: the session to read the state of a run on Spark with; one on this machine by default.

    Raises:
        CheckpointMismatch: if `old` holds no such run; if it is running, drained, over, or in the midst of a commit.
        InvalidArgument: if `new` is there, or `drop` names what the old pipeline did not have.
        StateCorruption: if the old state is damaged.
        SinkError: if the new directory cannot be written.

    Example:
        >>> upgrade("no/such/checkpoint", "checkpoints/delays-2")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.CheckpointMismatch: 'no/such/checkpoint' contains no checkpoint of a dataflow_model run
        Hint: pass the directory that an earlier run used as checkpoint=
    """
    return carry_over(old, new, _stopped(old, spark), drop=drop)


def needs_spark(old: str) -> bool:
    """Tell whether only Spark can read what a stopped run has kept."""
    return not (pathlib.Path(old).absolute() / HOST).exists()


def _stopped(old: str, spark: SparkSession | None) -> StoppedRun:
    """Return the part of a checkpoint that belongs to what hosted its run."""
    if not needs_spark(old):
        return StoppedLocalRun(pathlib.Path(old).absolute())
    from dataflow_model.runners.spark.stopped import StoppedSparkRun

    return StoppedSparkRun(str(pathlib.Path(old).absolute() / "spark"), spark)
