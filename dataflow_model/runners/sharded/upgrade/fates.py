"""What becomes of the state of each transform when a changed pipeline goes on from it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.logical.fingerprint import changed
from dataflow_model.runners.sharded.checkpoint.groupings import GroupingRecord
from dataflow_model.runners.sharded.checkpoint.record import WITH_DIGEST
from dataflow_model.runners.sharded.upgrade.holdings import Holding

if TYPE_CHECKING:
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.upgrade.seed import Manifest


class Outcome(enum.Enum):
    """What becomes of the state of a transform.

    `KEPT`: it continues. `CHANGED`: it continues under another trigger, mode or lateness. `DROPPED`: it is discarded at
    the user's request. `EMPTY`: there is none, so nothing is lost. `LOST`: it would be lost, which needs the user's
    consent. `NEW`: a transform that starts without state.
    """

    KEPT = "kept"
    CHANGED = "kept, changed"
    DROPPED = "dropped"
    EMPTY = "starts empty"
    LOST = "needs --drop"
    NEW = "new"


@attrs.frozen
class Fate:
    """What becomes of the state of one transform.

    Attributes:
        label: its label in the new pipeline; in the old one, if it is gone.
        outcome: what becomes of its state.
        change: what has changed; empty if nothing has.
        keys: the number of its keys; 0 for a source.
        windows: the number of its open windows, if it is a grouping.
        elements: the number of the elements in them.
        pending: how many of these are in no pane yet.
        buffered: the number of elements that wait for it.
        rows: the number of rows read, if it is a source.
        former: the label that it had before, if it was renamed; otherwise empty.
    """

    label: str
    outcome: Outcome
    change: str = ""
    keys: int = 0
    windows: int = 0
    elements: int = 0
    pending: int = 0
    buffered: int = 0
    rows: int | None = None
    former: str = ""

    @property
    def holds(self) -> str:
        """What its state holds, in the words of users."""
        if self.rows is not None:
            return f"its position in the source ({self.rows:,} rows read)"
        state = f"{self.keys:,} keys and {self.buffered:,} buffered elements"
        if not self.windows:
            return state
        return (
            f"{state}, {self.windows:,} open windows with {self.elements:,} elements, {self.pending:,} of them in no "
            "pane yet"
        )


def fates_of(manifest: Manifest, record: RunRecord) -> list[Fate]:
    """Return what becomes of the state of each transform that has some in the old run, or will have in the new one.

    Args:
        manifest: what was carried over.
        record: the record of the new run.
    """
    of_parts = record.changed_parts(manifest.parts) | record.changed_functions(manifest.functions)
    former = {new: old for old, new in manifest.labels.items()}
    fates = []
    for label in [*manifest.offset.begun, *manifest.keys]:
        outcome, change = _outcome(label, manifest, record, of_parts.get(label))
        holding = Holding(**manifest.holdings.get(label, {}))
        fates.append(
            Fate(
                label,
                outcome,
                change,
                manifest.keys.get(label, 0),
                holding.windows,
                holding.elements,
                holding.pending,
                manifest.waiting.get(label, 0),
                None if label in manifest.keys else manifest.offset.of_source(label).rows_read,
                former.get(label, ""),
            )
        )
    known = {fate.label for fate in fates}
    keyed = [label for stage in record.stages for label in stage]
    sources = [label for label, line in record.fingerprint.items() if line.startswith("source ")]
    return fates + [Fate(label, Outcome.NEW) for label in (*sources, *keyed) if label not in known]


def _outcome(label: str, manifest: Manifest, record: RunRecord, of_parts: str | None) -> tuple[Outcome, str]:
    was, now = manifest.definitions[label], record.definitions.get(label)
    if label in manifest.drop:
        return Outcome.DROPPED, ""
    if was == now and of_parts is None:
        if _has_other_elements(label, manifest, record):
            return Outcome.LOST, f"has other elements, which would not be read: {_difference(label, manifest, record)}"
        return Outcome.KEPT, ""
    lost = Outcome.LOST
    if label in manifest.keys and not (manifest.keys[label] or manifest.waiting[label]):
        lost = Outcome.EMPTY
    if now is None:
        return lost, f"is gone; it was: {manifest.fingerprint[label]}"
    before, after = manifest.groupings.get(label), record.groupings.get(label)
    if before is not None and after is not None and of_parts is None:
        earlier, grouping = GroupingRecord(**before), GroupingRecord(**after)
        if grouping.goes_on_from(earlier):
            return _of_grouping(label, manifest, record, earlier, grouping, lost)
    return lost, of_parts or _difference(label, manifest, record)


def _has_other_elements(label: str, manifest: Manifest, record: RunRecord) -> bool:
    """Return whether a transform is a source of elements of the program, and these are others now."""
    was, now = (line.partition(WITH_DIGEST)[2] for line in (manifest.fingerprint[label], record.fingerprint[label]))
    return bool(was) and bool(now) and was != now


def _of_grouping(
    label: str, manifest: Manifest, record: RunRecord, before: GroupingRecord, after: GroupingRecord, lost: Outcome
) -> tuple[Outcome, str]:
    """Return what becomes of the state of a grouping whose definition has changed."""
    changes = ", ".join(after.changes_from(before))
    emitted = Holding(**manifest.holdings.get(label, {})).emitted
    reason = after.conflict_with_emitted(before)
    if reason is not None and emitted:
        return lost, f"has: {changes}; {emitted:,} of its open windows {reason}"
    return Outcome.CHANGED, changes or _difference(label, manifest, record)


def _difference(label: str, manifest: Manifest, record: RunRecord) -> str:
    was, now = manifest.fingerprint[label], record.fingerprint[label]
    if was == now:  # what it gets has changed
        was, now = manifest.definitions[label], record.definitions[label]
    return changed(was, now)
