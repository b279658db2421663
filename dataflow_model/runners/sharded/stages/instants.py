"""The timeline of a micro-batch at a shard of stage 1, from the driver's decisions and the observations of the reads.

Every shard computes the same timeline; the first shard of each stage sends it to the next stage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import SourceError
from dataflow_model.runners.engine.sources.observing import at_tick
from dataflow_model.runners.engine.sources.script_instants import script_timeline
from dataflow_model.runners.sharded.feed.slices import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.engine.sources.timeline import Timeline
    from dataflow_model.runners.sharded.feed.planning import Control
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics


def make_timeline(
    program: Program, meta: ShardMeta, control: Control, reads: Sequence[tuple[Observations, Mapping[str, int]]]
) -> Timeline:
    """Return the instants of a micro-batch, and record the progress of the sources.

    Args:
        program: the program.
        meta: where the progress is recorded.
        control: the driver's decisions for the micro-batch.
        reads: the observations and the counts of each read.
    """
    sources = {read.label: read.source for read in program.staged.sources}
    placed = [_at_tick(program, observations, control.wall) for observations, _ in reads]
    for observations, (_, counts) in zip(placed, reads, strict=True):
        meta.counters.setdefault(observations.label, Counter()).update({**counts, **observations.counts()})
    replay = meta.replay
    replay.signals += control.signals
    if control.steps is not None:
        return script_timeline(replay, sources, control.steps, program.awaited)
    for label, names in control.declared:
        replay.declare(label, names)
    skewed = [label for label, source in sources.items() if source.watermark_origins.max_skew is not None]
    replay.observe(placed, skewed)
    for label, names in control.finished:
        replay.finish(label, names, by_origin=sources[label].watermark_origins.by == "file")
    for label, changes in control.changes:
        counters = meta.counters.setdefault(label, Counter())
        counters.update(changes)
    open_origins = [*control.open_origins, *_open_in_dataframes(program, meta, control)]
    timeline = replay.timeline(sources, open_origins, control.ended, control.wall, program.awaited)
    timeline.drains = control.drains
    return timeline


def note_sources(
    metrics: TaskMetrics,
    program: Program,
    meta: ShardMeta,
    control: Control | None,
    reads: Sequence[tuple[Observations, Mapping[str, int]]],
) -> None:
    """Add what the driver needs for its next decision: how far origins have come, and whether the run may end."""
    replay = meta.replay
    reach: dict[str, dict[str, int]] = {}
    for (label, origin), names in replay.names.items():
        origins = replay.sources[label].origins
        reach.setdefault(label, {})[origin] = min(origins[name].watermark for name in names)
    seen = [observations for observations, _ in reads]
    clocks, versions = _clocks_read(program, seen), _versions_read(program, seen)
    for label, names_read in control.finished if control is not None else ():
        for entries in (clocks, versions):
            entries.setdefault(label, {}).update(dict.fromkeys(names_read))
    metrics["reach"] = reach
    metrics["clocks"] = clocks
    metrics["versions"] = versions
    metrics["enough"] = replay.enough
    skipped = skipped_in(seen)
    if skipped:
        metrics["skipped"] = skipped
    if control is not None:
        metrics["ended"] = list(control.ended)


def skipped_in(seen: Iterable[Observations]) -> list[tuple[str, str, int]]:
    """Return the row ranges that were skipped: label, origin and first row."""
    return [(read.label, read.origin, read.skipped[0]) for read in seen if read.skipped is not None]


def _clocks_read(program: Program, seen: Sequence[Observations]) -> dict[str, dict[str, tuple[int, float] | None]]:
    """Return the last value of the clock of each origin that was read, and how far a row advances it on average.

    Only sources with a replay clock are in it. The caller puts `None` in the place of both for an origin that has been
    read to its end.
    """
    reads: defaultdict[tuple[str, str], list[Observations]] = defaultdict(list)
    for observations in seen:
        if program.staged.source(observations.label).processing_time is not None and len(observations.ticks):
            reads[observations.label, observations.origin].append(observations)
    clocks: dict[str, dict[str, tuple[int, float] | None]] = {}
    for (label, origin), of_origin in reads.items():
        last = max(int(observations.ticks[-1]) for observations in of_origin)
        span = last - min(int(observations.ticks[0]) for observations in of_origin)
        rows = sum(int(part.counts.sum()) for observations in of_origin for part in observations.parts)
        clocks.setdefault(label, {})[origin] = (last, max(span, 1) / max(rows, 1))
    return clocks


def _versions_read(program: Program, seen: Sequence[Observations]) -> dict[str, dict[str, Any]]:
    """Return the version of each origin of a bounded source that was read.

    The caller replaces the version of an origin that has been read to its end with `None`.
    """
    versions: dict[str, dict[str, Any]] = {}
    for observations in seen:
        label, origin, version = observations.label, observations.origin, observations.version
        if version is None or not program.staged.source(label).is_bounded:
            continue
        if versions.setdefault(label, {}).setdefault(origin, version) != version:
            raise SourceError(
                f"{origin}, which {label!r} reads, was replaced while it was read",
                hint="leave files alone until all their rows are committed, and start the run again",
            )
    return versions


def _open_in_dataframes(program: Program, meta: ShardMeta, control: Control) -> list[tuple[str, str]]:
    """Return the origins of streaming DataFrames under a replay clock: those seen so far, until the run is drained."""
    if control.last:
        return []
    origins: list[tuple[str, str]] = []
    for read in program.staged.sources:
        source = read.source
        if source.as_dataframe is not None and not source.is_bounded and source.processing_time is not None:
            seen = [entry for entry in meta.replay.reached if entry[0] == read.label]
            origins += seen or [(read.label, "")]  # nothing is complete before the first row
    return origins


def _at_tick(program: Program, seen: Observations, wall: int | None) -> Observations:
    """Replace `NOW` in the observations by the tick of the micro-batch."""
    if wall is None or not len(seen.ticks) or seen.ticks[0] != NOW[0]:
        return seen
    return at_tick(seen, wall, program.staged.source(seen.label), program.awaited.percentiles)
