"""A new run that starts from the state of an old one: state that fits continues, and none is lost unless named."""

from __future__ import annotations

import itertools
import pathlib
import shlex
from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.plan.endpoints.scripts import ScriptSource
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Read, Reshuffle
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.rewrites.lifting import may_stay_in_columns
from dataflow_model.runners.sharded.checkpoint.requests import check_signals, check_written
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.upgrade.fates import Outcome, fates_of
from dataflow_model.runners.sharded.upgrade.seed import Manifest, damaged_seed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.fates import Fate


def seed_in(common_part: str) -> pathlib.Path:
    """Return the path of a checkpoint's seed, whether or not it has one.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
    """
    return pathlib.Path(common_part, "seed")


def upgrade_command(
    old: str, drop: Iterable[str] = (), rename: Mapping[str, str] | None = None, new: str | None = None
) -> str:
    """Return the command that upgrades a checkpoint.

    Args:
        old: the checkpoint.
        drop: the transforms whose state may be lost, by their old labels.
        rename: new labels by the old ones.
        new: the new checkpoint; `None` for one beside the old one that does not exist yet.

    Example:
        >>> upgrade_command("checkpoints/delays", ["the sums"], {"rows": "flights"})
        "dataflow-model upgrade checkpoints/delays checkpoints/delays-2 --rename rows=flights --drop 'the sums'"
    """
    if new is None:
        new = next(f"{old}-{number}" for number in itertools.count(2) if not pathlib.Path(f"{old}-{number}").exists())
    words = ["dataflow-model", "upgrade", old, new]
    for label, renamed in (rename or {}).items():
        words += ["--rename", f"{label}={renamed}"]
    for label in drop:
        words += ["--drop", label]
    return shlex.join(words)


def _again(manifest: Manifest, drop: Iterable[str], target: str | None) -> str:
    """Return the command that upgrades the old checkpoint again, with other state to drop, by its new labels."""
    old = {new: label for label, new in manifest.labels.items()}
    return upgrade_command(manifest.old, [old.get(label, label) for label in drop], manifest.renamed, target)


def adopt(common_part: str, staged: StagedPlan, record: RunRecord) -> RunRecord | None:
    """Return the record of a run that starts from a seed; `None` if there is no seed.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
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
    fates = judged(manifest, staged, record)
    lost = [fate for fate in fates if fate.outcome is Outcome.LOST]
    if lost:
        raise losing(manifest, lost)
    renewed = {fate.label for fate in fates if fate.outcome is Outcome.CHANGED}
    fits = renewed | _unchanged(manifest, record)
    sources = {node.label for node in staged.sources}
    # A source whose watermark is estimated differently keeps its position.
    anew = {label for label in sources & fits if record.fingerprint[label] != manifest.fingerprint[label]}
    adopted = attrs.evolve(
        record,
        run_id=manifest.run_id,
        edition=manifest.edition,
        columns=_columns(manifest, staged, fits, renewed),
        upgraded={
            "from": manifest.old,
            "known": sorted(fits),
            "anew": sorted(anew),
            "renewed": sorted(renewed),
            "offset": _offset(manifest.offset, fits & sources).to_json(),
        },
    )
    return adopted.with_marks(manifest.marks)


def judged(manifest: Manifest, staged: StagedPlan, record: RunRecord, target: str | None = None) -> list[Fate]:
    """Return what becomes of the state of each transform.

    Args:
        manifest: what was carried over, or would be.
        staged: the new run's plan.
        record: the record of a run that starts without state.
        target: the new checkpoint that the user has named, if nothing has been copied to it yet.

    Raises:
        CheckpointMismatch: for a pipeline that cannot go on from there, whatever is dropped.
    """
    _check_renamed(manifest, record)
    _check_scripts(manifest, staged)
    _check_watermarks(manifest, staged)
    fates = fates_of(manifest, record)
    if not any(fate.outcome is Outcome.LOST for fate in fates):
        changed = {fate.label for fate in fates if fate.outcome is Outcome.CHANGED}
        _check_retractions(manifest, staged, changed | _unchanged(manifest, record), target)
    return fates


def losing(manifest: Manifest, lost: Collection[Fate], target: str | None = None) -> CheckpointMismatch:
    """Return the error for state that would be lost without the user's consent.

    Args:
        manifest: what was carried over, or would be.
        lost: what becomes of that state.
        target: the new checkpoint that the user has named, if nothing has been copied to it yet.
    """
    return CheckpointMismatch(
        f"this pipeline would lose state of the run in {manifest.old!r}:\n  "
        + "\n  ".join(f"{fate.label!r} {fate.change}; lost: {fate.holds}" for fate in lost),
        hint="keep their labels and definitions; or upgrade again, and name new labels with --rename OLD=NEW, and the "
        "state to discard with --drop:\n  " + command_again(manifest, lost, target),
    )


def command_again(manifest: Manifest, lost: Iterable[Fate], target: str | None = None) -> str:
    """Return the command that upgrades the old checkpoint again and drops more state."""
    return _again(manifest, [*manifest.drop, *(fate.label for fate in lost)], target)


def _unchanged(manifest: Manifest, record: RunRecord) -> set[str]:
    """Return the transforms whose definition is the same, and whose state may not be lost."""
    of_parts = record.changed_parts(manifest.parts) | record.changed_functions(manifest.functions)
    same = {label for label, definition in manifest.definitions.items() if record.definitions.get(label) == definition}
    return same - set(manifest.drop) - of_parts.keys()


def _columns(
    manifest: Manifest, staged: StagedPlan, fits: Collection[str], renewed: Collection[str]
) -> dict[str, bool]:
    """Return which groupings that go on keep their state in columns; some of those with changes cannot."""
    nodes = {node.label: node for node in staged.keyed if node.label in fits and node.label in manifest.keys}
    return {
        label: label in manifest.columns
        and not (
            label in renewed and isinstance(node, GroupByKeyAndWindow) and not may_stay_in_columns(staged.plan, node)
        )
        for label, node in nodes.items()
    }


def _check_retractions(manifest: Manifest, staged: StagedPlan, fits: Collection[str], target: str | None) -> None:
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
                    f"{node.label!r} would start empty, behind {goes_on[0]!r}, which goes on and retracts "
                    f"what it has emitted before: {node.label!r} would subtract values that it has never had",
                    hint="keep its label and definition; or put it behind a retracting grouping of its own, with a new "
                    "label; or upgrade again, so that both start empty:\n  " + _again(manifest, drop, target),
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


def _check_renamed(manifest: Manifest, record: RunRecord) -> None:
    """Reject new labels that the pipeline does not have."""
    unknown = {old: new for old, new in manifest.labels.items() if new not in record.fingerprint}
    if unknown:
        pairs = ", ".join(f"{old!r} to {new!r}" for old, new in unknown.items())
        raise CheckpointMismatch(
            f"the upgrade of {manifest.old!r} has new labels that this pipeline does not have: {pairs}",
            hint="give the transforms these labels, or upgrade again with the labels that they have",
        )


def _check_scripts(manifest: Manifest, staged: StagedPlan) -> None:
    """Reject scripts that differ from before, since the steps of all scripts form one sequence."""
    before = {
        label for label, line in manifest.fingerprint.items() if line.startswith(f"source {ScriptSource.__name__},")
    }
    scripts = {node.label for node in staged.plan.nodes if isinstance(node, Read) and node.source.as_script is not None}
    others = {node.label for node in staged.sources} - set(manifest.offset.begun)
    if before != scripts or (scripts and others):
        raise CheckpointMismatch(
            f"the run in {manifest.old!r} had the scripts {sorted(before)}; a script's steps are numbered "
            "together with those of all sources, so no source may be added or removed, got "
            f"{sorted(scripts | others)}",
            hint="start the new pipeline with a new checkpoint",
        )


def _check_watermarks(manifest: Manifest, staged: StagedPlan) -> None:
    """Reject a watermark for a source that the pipeline does not read."""
    gone = sorted(manifest.watermarks.keys() - {node.label for node in staged.sources})
    if gone:
        raise CheckpointMismatch(
            f"the upgrade of {manifest.old!r} moves the watermark of {', '.join(map(repr, gone))}, which this pipeline "
            "does not read",
            hint="give the source its old label, or upgrade again without a watermark for it",
        )


def _offset(offset: Offset, labels: set[str]) -> Offset:
    """Return the offset without sources that no longer exist or start again."""
    sources = {label: source for label, source in offset.sources.items() if label in labels}
    begun = tuple(label for label in offset.begun if label in labels)
    return attrs.evolve(offset, sources=sources, begun=begun, listed=None)
