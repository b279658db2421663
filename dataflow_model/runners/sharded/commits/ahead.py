"""What has run ahead of a stream, in its checkpoint: computed when the run begins, and the same after each restart."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import LOG, DataflowError, PlanWarning, explain
from dataflow_model.plan.logical.ahead import is_kept
from dataflow_model.plan.logical.fingerprint import fingerprint
from dataflow_model.plan.logical.nodes import Read, Ref
from dataflow_model.runners.engine.collections.ahead import Ahead
from dataflow_model.runners.sharded.checkpoint.parts import read_part, write_part
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_ahead
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.collections.kept import Kept
    from dataflow_model.runners.reporting import CountedAhead
    from dataflow_model.runners.sharded.checkpoint.renaming import Renames

AHEAD: Final = "ahead"
"""The folder of the common part of a checkpoint."""
_NAME: Final = f"{AHEAD}/values.pickle"


@attrs.frozen
class _Stored:
    """What the file contains.

    Attributes:
        outputs: the collections.
        counted: what was counted while they were computed.
        lines: the fingerprint of the transforms that ran.
        sources: what is known about the contents of their sources at that time, by label.
    """

    outputs: Mapping[Ref, Kept]
    counted: CountedAhead
    lines: Mapping[str, str]
    sources: Mapping[str, Any]


def ahead_of_stream(common_part: str, staged: StagedPlan, compute: Callable[[], Ahead], *, anew: bool = False) -> Ahead:
    """Return what runs ahead of a stream: what its checkpoint holds, or else what is computed and stored there now.

    Sources that have changed since are reported in the log.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
        staged: the plan.
        compute: runs what runs ahead.
        anew: whether to compute it again although the checkpoint holds it.

    Raises:
        PlanError: for collections that cannot be stored.
        StateCorruption: if the file is damaged.
    """
    _warn_about_clocks(staged)
    if not staged.passes:
        return Ahead()
    labels = {node.label for part in staged.passes for node in part.nodes}
    lines = {label: line for label, line in fingerprint(staged.whole).items() if label in labels}
    stored: _Stored | None = None if anew else read_part(common_part, _NAME)
    if stored is None or stored.lines != lines:  # after an upgrade, another pipeline may need something else
        ahead = compute()
        ahead.replays = False
        try:
            write_part(common_part, _NAME, _Stored(ahead.outputs, ahead.counted, lines, _contents(staged)), sync=True)
        except DataflowError:
            raise
        except BaseException as error:
            raise unpicklable_ahead(ahead.outputs, error) from error
        return ahead
    _report_changes(stored.sources, staged)
    ahead = Ahead(counted=stored.counted, replays=False)
    ahead.add(staged, stored.outputs)
    return ahead


def rename_ahead(common_part: pathlib.Path, renames: Renames) -> None:
    """Give transforms in what a checkpoint holds other labels.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
        renames: the transforms that get another label.
    """
    stored: _Stored | None = read_part(common_part, _NAME) if renames.labels else None
    if stored is not None:
        counted = attrs.evolve(
            stored.counted,
            counters=renames.by_label(stored.counted.counters),
            tally=stored.counted.tally.renamed(renames.by_label),
            watermarks=renames.by_label(stored.counted.watermarks),
        )
        outputs = {Ref(renames.new(ref.label), ref.tag): kept for ref, kept in stored.outputs.items()}
        renamed = _Stored(outputs, counted, renames.lines(stored.lines), renames.by_label(stored.sources))
        write_part(common_part, _NAME, renamed, sync=True)


def _warn_about_clocks(staged: StagedPlan) -> None:
    for read in staged.sources:
        if is_kept(read) and read.source.has_own_clock:
            problem = (
                f"{read.label!r} feeds a static side input and other transforms, so a stream computes it before the "
                f"clock in {read.source.processing_time!r} starts: for these transforms, all of its elements arrive at "
                "the first tick"
            )
            way_out = f"to let them arrive by the clock, apply {read.label!r} a second time for the side input"
            warnings.warn(explain(problem, hint=way_out), PlanWarning, stacklevel=5)


def _contents(staged: StagedPlan) -> dict[str, Any]:
    """Return what is known about the contents of the sources that are read ahead, by label."""
    return {label: _content(read) for label, read in _sources(staged).items()}


def _sources(staged: StagedPlan) -> dict[str, Read]:
    """Return the sources that are read ahead, by label."""
    reads = (node for part in staged.passes for node in part.nodes if isinstance(node, Read) and not is_kept(node))
    return {read.label: read for read in reads}


def _content(read: Read) -> Any:
    """Return something that is equal as long as a source has the same contents; `None` if it is not known."""
    elements, columns = read.source.as_elements, read.source.as_columns
    if elements is not None:
        return dump((elements.elements, elements.event_times))
    if columns is None:
        return None
    return [(origin.name, columns.version_of(origin.name)) for origin in columns.origins()]


def _report_changes(before: Mapping[str, Any], staged: StagedPlan) -> None:
    """Log which sources have other contents than when they were read."""
    reads = _sources(staged)
    changed = [label for label, content in before.items() if not _is_same(content, reads[label])]
    if changed:
        LOG.warning(
            "%s: read for static side inputs when the run began, and changed since. The run goes on with what it read "
            "then; start it with refresh_side_inputs=True to read them again",
            ", ".join(map(repr, changed)),
        )


def _is_same(content: Any, read: Read) -> bool:
    try:
        now = _content(read)
        return bool(content == now or (isinstance(content, bytes) and load(content) == load(now)))
    except Exception:  # noqa: BLE001 - a source that is gone, or elements that cannot be compared
        return False
