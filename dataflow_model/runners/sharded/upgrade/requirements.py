"""What must hold before the state of a run is carried over: of the stopped run, and of what the user asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import CheckpointInUse, CheckpointMismatch, InvalidArgument
from dataflow_model.runners.sharded.checkpoint.parts import check_present, common_part
from dataflow_model.runners.sharded.checkpoint.requests import (
    check_signals,
    check_written,
    drain_requests,
    is_drained,
)
from dataflow_model.runners.sharded.commits.progress import WRITTEN, read_progress
from dataflow_model.runners.sharded.commits.restoring import check_progress
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, event_time, format_instant

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Collection, Mapping

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.reading import StoppedRun
    from dataflow_model.time import InstantLike


def last_commit(old: str, before: pathlib.Path, stopped: StoppedRun) -> tuple[int, Offset]:
    """Return the last committed micro-batch and its offset; raise if the run cannot be upgraded from there.

    Args:
        old: the checkpoint, as the user has named it.
        before: its path.
        stopped: the part of it that belongs to the host of the run.
    """
    folder = str(common_part(before))
    who = stopped.who_runs()
    if who is not None:
        raise CheckpointInUse(f"the run in {old!r} is running, in {who}", hint="stop it first: result.stop()")
    requests = common_part(before) / "requests"
    check_written(requests)
    is_draining, _ = drain_requests(requests)
    if is_draining or is_drained(requests):
        raise CheckpointMismatch(
            f"the run in {old!r} was drained: its windows have emitted their last panes",
            hint="start the new pipeline with a new checkpoint",
        )
    batch, published = stopped.last_committed(), stopped.half_published()
    progress = read_progress(folder)
    check_present(folder, progress.get(WRITTEN, ()))
    if published is None:
        check_progress(old, progress, batch, batch)
    if batch is None:
        raise CheckpointMismatch(
            f"the run in {old!r} has not committed anything that could be carried over",
            hint="start the new pipeline with a new checkpoint, or upgrade the original checkpoint again",
        )
    # A micro-batch that has started but published nothing is ignored; its rows are read again. If it has started to
    # publish, only its own pipeline can finish it.
    if published is not None:
        raise CheckpointMismatch(
            f"the run in {old!r} was stopped while it published micro-batch {published}",
            hint="start the old pipeline again, which finishes publishing first; then stop it and upgrade",
        )
    offset, others = stopped.offset(batch)
    check_signals(requests, offset.signalled)
    if others:
        raise CheckpointMismatch(
            f"the run in {old!r} reads streaming DataFrames, and only Spark knows how far it has read them",
            hint="start the new pipeline with a new checkpoint, and its DataFrames where the old run stopped",
        )
    if offset.last and progress.get("moment") is not None:
        raise CheckpointMismatch(
            f"the run in {old!r} has read its input, but work on it that may never end goes on, and what is left of it "
            "cannot be carried over yet",
            hint="go on with the same pipeline and checkpoint; or end the work with result.drain(), and start the new "
            "pipeline with a new checkpoint",
        )
    if offset.last:
        raise CheckpointMismatch(
            f"the input of the run in {old!r} is complete: its windows have emitted their last panes",
            hint="start the new pipeline with a new checkpoint",
        )
    return batch, offset


def check_drop(record: RunRecord, offset: Offset, drop: Collection[str]) -> None:
    """Raise `InvalidArgument` for a label that is none of a transform with state.

    Args:
        record: the record of the old run.
        offset: the offset of its sources.
        drop: the labels that the user has passed.
    """
    known = [label for stage in record.stages for label in stage] + list(offset.begun)
    for label in drop:
        if label not in known:
            raise InvalidArgument(
                f"`drop` must name transforms of the old pipeline that have state, got {label!r}",
                hint=f"these have state: {', '.join(map(repr, known))}",
            )


def moved_back(known: Mapping[str, int], offset: Offset, watermarks: Mapping[str, InstantLike]) -> dict[str, EventTime]:
    """Return the watermarks to which sources are moved back, after checking that none of them moves forward.

    Args:
        known: the watermarks of the old run, by transform.
        offset: the offset of its sources.
        watermarks: what the user has passed.
    """
    moved = {label: event_time(to) for label, to in watermarks.items()}
    for label, to in moved.items():
        if label not in offset.begun:
            raise InvalidArgument(
                f"`watermarks` must name sources of the old pipeline that read rows, got {label!r}",
                hint=f"these are {', '.join(map(repr, offset.begun)) or 'none: a script sets its watermark itself'}",
            )
        if not MIN_TIMESTAMP < to < MAX_TIMESTAMP:
            raise InvalidArgument(
                f"the watermark of {label!r} must be an instant, got {to!r}",
                hint="pass '2013-01-01T12:00Z', for example",
            )
        last = EventTime(known.get(label, MIN_TIMESTAMP))
        if to > last:
            raise InvalidArgument(
                f"a watermark can only be moved back, got {format_instant(int(to))} for {label!r}, which is at "
                f"{format_instant(int(last))}",
                hint="pass that instant or an earlier one, or leave the source out",
            )
    return moved
