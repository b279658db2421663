"""Carry the state of a stopped run into a new checkpoint, from which a changed pipeline continues."""

from __future__ import annotations

import pathlib
import shutil
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import CheckpointMismatch, InvalidArgument, SinkError
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages, owner_of_cut
from dataflow_model.runners.engine.state.resharding import count_keys
from dataflow_model.runners.runs.run_folder import working_folder
from dataflow_model.runners.sharded.checkpoint.durable import file_name, make_folder, sync_all, sync_to_disk
from dataflow_model.runners.sharded.checkpoint.groupings import GroupingRecord
from dataflow_model.runners.sharded.checkpoint.kept_rows import KeptRows
from dataflow_model.runners.sharded.checkpoint.parts import SINK_COLUMNS, common_part, written_once
from dataflow_model.runners.sharded.checkpoint.record import RunRecord
from dataflow_model.runners.sharded.checkpoint.renaming import Renames
from dataflow_model.runners.sharded.checkpoint.requests import (
    copy_signals,
)
from dataflow_model.runners.sharded.commits.ahead import AHEAD, rename_ahead
from dataflow_model.runners.sharded.commits.columns import RecordedColumns, carry_columns
from dataflow_model.runners.sharded.commits.progress import WRITTEN, read_progress, write_progress
from dataflow_model.runners.sharded.feed.inbox import INBOX
from dataflow_model.runners.sharded.stages.stageless import FOLLOWED, followed_in
from dataflow_model.runners.sharded.upgrade.adopting import command_again, judged, losing, seed_in
from dataflow_model.runners.sharded.upgrade.carried import gather
from dataflow_model.runners.sharded.upgrade.fates import Outcome
from dataflow_model.runners.sharded.upgrade.holdings import Holding
from dataflow_model.runners.sharded.upgrade.requirements import check_drop, last_commit, moved_back
from dataflow_model.runners.sharded.upgrade.seed import SeedWriter
from dataflow_model.time import MIN_TIMESTAMP, EventTime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
    from dataflow_model.runners.sharded.upgrade.carried import Carried
    from dataflow_model.runners.sharded.upgrade.fates import Fate
    from dataflow_model.runners.sharded.upgrade.reading import ShardFound, StoppedRun
    from dataflow_model.runners.sharded.upgrade.seed import Manifest
    from dataflow_model.time import InstantLike

_ALONG: Final = ("inputs", "collected", "sequencers", AHEAD, SINK_COLUMNS, INBOX)
"""The folders of a checkpoint apart from state, which a new run continues to use unchanged."""


@attrs.frozen
class Upgraded:
    """The summary of an upgrade.

    All labels are the new ones.

    Attributes:
        keys: the number of keys (or of windows of side inputs) of each transform with state.
        waiting: the number of buffered elements of each transform with state, whose instant was not complete.
        rows: the number of rows that each source had read from its files; 0 for a source without files.
        dropped: the transforms whose state was dropped at your request.
        watermarks: the watermarks to which sources were moved back at your request.
        batch: the old run's last committed micro-batch, from 0.
        renamed: the new labels of the transforms that were renamed, by their old ones.
        fates: what becomes of the state of each transform, a `Fate` for each, if a pipeline was given.
        command: the command that drops the state which would be lost, if some would be.
    """

    keys: Mapping[str, int]
    waiting: Mapping[str, int]
    rows: Mapping[str, int]
    dropped: tuple[str, ...]
    batch: int
    watermarks: Mapping[str, EventTime] = attrs.field(factory=dict)
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    fates: tuple[Fate, ...] = ()
    command: str = ""


@attrs.frozen
class Wishes:
    """What the user wants to be changed in the state that is carried over, by the labels of the old pipeline.

    Attributes:
        drop: the transforms whose state may be lost.
        renames: the transforms that get another label.
        watermarks: the watermarks to which sources are moved back.
    """

    drop: Collection[str] = ()
    renames: Renames = attrs.field(factory=Renames)
    watermarks: Mapping[str, EventTime] = attrs.field(factory=dict)


def carry_over(
    old: str,
    new: str | None,
    stopped: StoppedRun,
    *,
    plan: Plan | None,
    drop: Collection[str],
    rename: object,
    watermarks: Mapping[str, InstantLike],
) -> Upgraded:
    """Carry the state of a stopped run into a new checkpoint; see `upgrade`.

    Args:
        old: the old checkpoint.
        new: the new checkpoint; `None` if nothing is written.
        stopped: the part of the old checkpoint that belongs to the host of the run.
        plan: that of the pipeline that will go on; `None` if it is not known yet.
        drop: the labels of transforms whose state may be lost.
        rename: new labels of transforms, by their old ones.
        watermarks: the watermarks to which sources are moved back.
    """
    before = pathlib.Path(old).absolute()
    record = RunRecord.read(str(common_part(before)))
    if record is None:
        raise CheckpointMismatch(
            f"{str(old)!r} contains no checkpoint of a dataflow_model run",
            hint="pass the directory that an earlier run used as checkpoint=",
        )
    target = None if new is None else _target(old, before, new)
    batch, offset = last_commit(str(old), before, stopped)
    check_drop(record, offset, drop)
    moved = moved_back(read_progress(str(common_part(before))).get("watermarks", {}), offset, watermarks)
    wishes = Wishes(drop, Renames.among(list(record.fingerprint), rename), moved)
    if target is None:
        manifest = write_seed(stopped.shards(batch, record), before, None, record, batch, offset, wishes)
        return _summary(None, manifest, wishes, plan)
    try:
        make_folder(target.parent)
        with working_folder(target) as fresh:
            manifest = write_seed(stopped.shards(batch, record), before, fresh, record, batch, offset, wishes)
            summary = _summary(str(new), manifest, wishes, plan)
            sync_all(fresh)
            fresh.replace(target)
        sync_to_disk(target.parent)
    except OSError as error:
        raise SinkError(
            f"{str(new)!r} cannot be written: {error}", hint="free some space, or pass another directory"
        ) from error
    return summary


def _target(old: str, before: pathlib.Path, new: str) -> pathlib.Path:
    """Return the path of the new checkpoint, which may not exist yet."""
    target = pathlib.Path(new).absolute()
    if target.exists():
        raise InvalidArgument(f"{str(new)!r} already exists", hint="pass a directory that does not exist yet")
    if target.is_relative_to(before):
        raise InvalidArgument(f"{str(new)!r} is inside {str(old)!r}", hint="pass a directory outside it")
    return target


def _summary(target: str | None, manifest: Manifest, wishes: Wishes, plan: Plan | None) -> Upgraded:
    """Return the summary; raise if a pipeline would lose state without the user's consent, if there is a target."""
    renames, command = wishes.renames, ""
    fates: tuple[Fate, ...] = ()
    if plan is not None:
        staged = cut_into_stages(plan, changing_sides(plan))
        fates = tuple(judged(manifest, staged, RunRecord.of(staged, manifest.shards), target))
        lost = [fate for fate in fates if fate.outcome is Outcome.LOST]
        if lost and target is not None:
            raise losing(manifest, lost, target)
        command = command_again(manifest, lost) if lost else ""
    rows = {label: manifest.offset.of_source(label).rows_read for label in manifest.offset.begun}
    return Upgraded(
        keys=manifest.keys,
        waiting=manifest.waiting,
        rows=rows,
        dropped=tuple(manifest.drop),
        batch=manifest.batch,
        watermarks=renames.by_label(wishes.watermarks),
        renamed=renames.labels,
        fates=fates,
        command=command,
    )


def write_seed(
    shards: Iterable[ShardFound],
    before: pathlib.Path,
    fresh: pathlib.Path | None,
    record: RunRecord,
    batch: int,
    offset: Offset,
    wishes: Wishes,
) -> Manifest:
    """Write the common part of a new checkpoint, in which no run has started, and return its manifest.

    Args:
        shards: the state of each shard of the old run.
        before: the old checkpoint.
        fresh: the directory of the new checkpoint; `None` if only the manifest is wanted.
        record: the record of the old run.
        batch: its last committed micro-batch.
        offset: the offset of its sources at that time.
        wishes: what the user wants to be changed.
    """
    old, renames = common_part(before), wishes.renames
    target = None if fresh is None else common_part(fresh)
    writer = SeedWriter(None if target is None else seed_in(str(target)))
    drop = sorted(set(map(renames.new, wishes.drop)))
    keys = {renames.new(label): 0 for stage in record.stages for label in stage}
    renamed = renames.record(record)
    groupings = {label: GroupingRecord(**fields) for label, fields in renamed.groupings.items() if label in keys}
    holdings = dict.fromkeys(groupings, Holding())
    metas: dict[int, dict[int, ShardMeta]] = {}
    for shard in shards:
        metas.setdefault(shard.depth, {})[shard.index] = shard.meta
        positions = renames.by_label(shard.meta.positions)
        for label, entries in renames.by_label(shard.entries).items():
            keys[label] += count_keys(entries)
            if label in groupings:
                watermark = positions.get(label, {}).get("watermark", int(MIN_TIMESTAMP))
                holdings[label] += Holding.of(groupings[label], entries, watermark)
            if label not in drop:
                writer.keys(label, shard.index, entries)
    progress = read_progress(str(old))
    followed = followed_in(progress, record.run_id)
    if followed is not None:  # a run without keyed stages
        metas[1] = {0: followed}
    stages = {depth: [of[index] for index in sorted(of)] for depth, of in metas.items()}
    carried = gather(stages, dict(enumerate(record.stages, 1)))
    carried.rename(renames)
    for label, join in carried.joins.items():
        keys[label] += sum(map(len, join.windows))
    manifest = writer.finish(
        carried,
        old=str(before),
        run_id=record.run_id,
        edition=f"-{uuid.uuid4().hex[:8]}",
        shards=record.shards,
        batch=batch,
        fingerprint=renamed.fingerprint,
        definitions=renamed.definitions,
        parts=renamed.parts,
        percentiles=record.percentiles,
        columns=[label for label, in_columns in renamed.columns.items() if in_columns],
        keys=keys,
        waiting=dict.fromkeys(keys, 0) | _waiting(carried),
        offset=_renamed_offset(offset, renames),
        drop=drop,
        watermarks={renames.new(label): int(to) for label, to in wishes.watermarks.items()},
        renamed=dict(renames.given),
        labels=dict(renames.labels),
        marks=renamed.marks,
        groupings=renamed.groupings,
        functions=renamed.functions,
        holdings={label: attrs.asdict(holding) for label, holding in holdings.items()},
    )
    if target is None:
        return manifest
    _copy_rest(old, target, drop, renames)
    if progress:
        start = _progress_to_start_from(renames.progress(progress), drop)
        write_progress(str(target), {**start, WRITTEN: written_once(target)})
    return manifest


def _renamed_offset(offset: Offset, renames: Renames) -> Offset:
    begun = tuple(map(renames.new, offset.begun))
    return attrs.evolve(offset, begun=begun, sources=renames.by_label(offset.sources))


def _copy_rest(old: pathlib.Path, target: pathlib.Path, drop: Collection[str], renames: Renames) -> None:
    """Copy what a checkpoint contains apart from state and progress.

    Args:
        old: the common part of the checkpoint.
        target: that of the new one.
        drop: the new labels of the transforms whose state may be lost.
        renames: the transforms that get another label.
    """
    for name in _ALONG:
        if (old / name).is_dir():
            renames.copy(old, target, name)
    rename_ahead(target, renames)
    carry_columns(old, target, renames.file)
    for label in drop:
        KeptRows(target, label).remove()
        RecordedColumns.of(str(target), label).path.unlink(missing_ok=True)
        shutil.rmtree(target / INBOX / file_name(label), ignore_errors=True)
    copy_signals(old / "requests", target / "requests")


def _progress_to_start_from(progress: Mapping[str, Any], drop: Collection[str]) -> dict[str, Any]:
    """Return the progress of a new run: it counts micro-batches from 0, and its seed has the state of its sources.

    Its watermarks are known after its first micro-batch: which of them go on depends on the new pipeline.
    """
    carried = {name: entry for name, entry in progress.items() if name not in {FOLLOWED, "watermarks", "jumps"}}
    versions = carried.get("versions", {})  # of files and tables, which may differ where a source starts again
    return {
        **carried,
        "versions": {label: known for label, known in versions.items() if label not in drop},
        "batch": -1,
    }


def _waiting(carried: Carried) -> dict[str, int]:
    """Return the number of buffered elements of each transform."""
    counts: dict[str, int] = {}
    for _, packed in carried.waiting:
        label = owner_of_cut(packed.cut)
        counts[label] = counts.get(label, 0) + len(packed.bundle)
    for label, join in carried.joins.items():
        counts[label] = counts.get(label, 0) + sum(map(len, join.waiting.values()))
    return counts
