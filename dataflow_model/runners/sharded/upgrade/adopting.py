"""A new run that starts from the state of an old one: state that fits continues, and none is lost unless named."""

from __future__ import annotations

import pathlib
import shlex
from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.plan.endpoints.scripts import ScriptSource
from dataflow_model.plan.logical.fingerprint import changed
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Read, Reshuffle
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.runners.sharded.checkpoint.requests import check_signals, check_written
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.upgrade.seed import Manifest, damaged_seed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset


def seed_in(common_part: str) -> pathlib.Path:
    """Return the path of a checkpoint's seed, whether or not it has one.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
    """
    return pathlib.Path(common_part, "seed")


def upgrade_command(old: str, drop: Iterable[str] = ()) -> str:
    """Return the command that upgrades a checkpoint.

    Example:
        >>> upgrade_command("checkpoints/delays", ["the sums"])
        "dataflow-model upgrade checkpoints/delays checkpoints/delays-2 --drop 'the sums'"
    """
    number = 2
    while pathlib.Path(f"{old}-{number}").exists():
        number += 1
    words = ["dataflow-model", "upgrade", old, f"{old}-{number}"]
    for label in drop:
        words += ["--drop", label]
    return shlex.join(words)


def adopt(path: str, common_part: str, staged: StagedPlan, record: RunRecord) -> RunRecord | None:
    """Return the record of a run that starts from a seed; `None` if there is no seed.

    Args:
        path: the checkpoint, as the user has named it.
        common_part: the part of it that is the same for all hosts.
        staged: the new run's plan.
        record: the record of a run that starts without state.

    Raises:
        CheckpointMismatch: if some of the state fits no transform of the plan and may not be dropped.
        StateCorruption: if the seed is damaged.
    """
    manifest = Manifest.read(seed_in(common_part))
    has_progress = bool(read_progress(common_part))
    if has_progress is not (manifest is not None):  # an upgrade writes both
        raise damaged_seed(pathlib.Path(common_part), "the manifest.json of the seed or progress.json is missing")
    if manifest is None:
        return None
    requests = pathlib.Path(common_part, "requests")
    check_written(requests)
    check_signals(requests, manifest.offset.signalled)
    of_parts = record.changed_parts(manifest.parts)
    fits = {
        label
        for label, definition in manifest.definitions.items()
        if record.definitions.get(label) == definition and label not in manifest.drop and label not in of_parts
    }
    _check_scripts(path, manifest, staged)
    _check_watermarks(path, manifest, staged)
    lost = [label for label in _kept(manifest) if label not in fits and label not in manifest.drop]
    if lost:
        lines = [_loss(label, manifest, record, of_parts.get(label)) for label in lost]
        raise CheckpointMismatch(
            f"{path!r} was upgraded from {manifest.old!r}, but this pipeline would lose state from there:\n  "
            + "\n  ".join(lines),
            hint="keep their labels and definitions; or upgrade again and name the state to discard with --drop:\n  "
            + upgrade_command(manifest.old, [*manifest.drop, *lost]),
        )
    _check_retractions(path, manifest, staged, fits)
    sources = {node.label for node in staged.sources}
    # A source whose watermark is estimated differently keeps its position.
    anew = {label for label in sources & fits if record.fingerprint[label] != manifest.fingerprint[label]}
    return attrs.evolve(
        record,
        run_id=manifest.run_id,
        edition=manifest.edition,
        columns={label: label in manifest.columns for label in fits if label in manifest.keys and label not in sources},
        upgraded={
            "from": manifest.old,
            "known": sorted(fits),
            "anew": sorted(anew),
            "offset": _offset(manifest.offset, fits & sources).to_json(),
        },
    )


def _kept(manifest: Manifest) -> list[str]:
    """Return the transforms of the old pipeline that have state."""
    keyed = [label for label in manifest.keys if manifest.keys[label] or manifest.waiting[label]]
    return [*keyed, *manifest.offset.begun]


def _loss(label: str, manifest: Manifest, record: RunRecord, of_parts: str | None) -> str:
    if label in manifest.keys:
        state = f"{manifest.keys[label]:,} keys and {manifest.waiting[label]:,} buffered elements"
    else:
        rows = manifest.offset.of_source(label).rows_read
        state = f"its position in the source ({rows:,} rows read)"
    was, now = manifest.fingerprint[label], record.fingerprint.get(label)
    if was == now:  # what it gets has changed
        was, now = manifest.definitions[label], record.definitions[label]
    change = f"is gone; it was: {was}" if now is None else of_parts or changed(was, now)
    return f"{label!r} {change}; lost: {state}"


def _check_retractions(path: str, manifest: Manifest, staged: StagedPlan, fits: Collection[str]) -> None:
    """Reject a grouping that starts empty, and would subtract values that it has never had.

    A combiner that cannot subtract keeps its inputs, so that such a grouping knows which of them it has had.
    """
    retracted = retracted_collections(staged.plan)
    for node in staged.keyed:
        if (
            isinstance(node, GroupByKeyAndWindow)
            and node.label not in fits
            and node.input in retracted
            and node.combine.can_subtract
        ):
            origins = sorted(_retracting(node.label, staged))
            goes_on = [label for label in origins if label in fits and manifest.keys.get(label)]
            if goes_on:
                drop = [*manifest.drop, *(label for label in origins if label in fits)]
                raise CheckpointMismatch(
                    f"{node.label!r} would start empty in {path!r}, behind {goes_on[0]!r}, which goes on and retracts "
                    f"what it has emitted before: {node.label!r} would subtract values that it has never had",
                    hint="keep its label and definition; or put it behind a retracting grouping of its own, with a new "
                    "label; or upgrade again, so that both start empty:\n  " + upgrade_command(manifest.old, drop),
                )


def _retracting(label: str, staged: StagedPlan) -> set[str]:
    """Return the nearest transforms before a keyed node that may take back what they have emitted."""
    retracting: set[str] = set()
    for producer in staged.feeds[label]:
        node = staged.plan[producer]
        if isinstance(node, Reshuffle):
            retracting |= _retracting(producer, staged)
        elif not isinstance(node, Read):
            retracting.add(producer)
    return retracting


def _check_scripts(path: str, manifest: Manifest, staged: StagedPlan) -> None:
    """Reject scripts that differ from before, since the steps of all scripts form one sequence."""
    before = {
        label for label, line in manifest.fingerprint.items() if line.startswith(f"source {ScriptSource.__name__},")
    }
    scripts = {node.label for node in staged.plan.nodes if isinstance(node, Read) and node.source.as_script is not None}
    others = {node.label for node in staged.sources} - set(manifest.offset.begun)
    if before != scripts or (scripts and others):
        raise CheckpointMismatch(
            f"{path!r} was upgraded from a run with the scripts {sorted(before)}; a script's steps are numbered "
            "together with those of all sources, so no source may be added or removed, got "
            f"{sorted(scripts | others)}",
            hint="start the new pipeline with a new checkpoint",
        )


def _check_watermarks(path: str, manifest: Manifest, staged: StagedPlan) -> None:
    """Reject a watermark for a source that the pipeline does not read."""
    gone = sorted(manifest.watermarks.keys() - {node.label for node in staged.sources})
    if gone:
        raise CheckpointMismatch(
            f"{path!r} was upgraded from {manifest.old!r} with a watermark for {', '.join(map(repr, gone))}, which "
            "this pipeline does not read",
            hint="give the source its old label, or upgrade again without a watermark for it",
        )


def _offset(offset: Offset, labels: set[str]) -> Offset:
    """Return the offset without sources that no longer exist or start again."""
    sources = {label: source for label, source in offset.sources.items() if label in labels}
    begun = tuple(label for label in offset.begun if label in labels)
    return attrs.evolve(offset, sources=sources, begun=begun, listed=None)
