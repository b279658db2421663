"""The progress of a stream: what its last commit knows of counters, watermarks, state and sources, in one file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.metrics.tally import Tally
from dataflow_model.runners.reporting import Measured
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document
from dataflow_model.runners.sharded.stages.stageless import FOLLOWED
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics

_PROGRESS: Final = "progress.json"
WRITTEN: Final = "parts"
"""The entry of the progress with the names of the parts of the checkpoint that are written once."""
_OF_SOURCES: Final = ("reach", "enough", "ended", FOLLOWED)
"""The entries of the progress that describe the sources as a whole."""
_BY_ORIGIN: Final = ("clocks", "versions")
"""The entries of the progress that describe the origins of a source that have unread rows."""


def read_progress(directory: str) -> dict[str, Any]:
    """Return the progress that the last commit wrote; empty before the first."""
    return read_document(directory, _PROGRESS) or {}


def write_progress(directory: str, progress: Mapping[str, Any], *, sync: bool = False) -> None:
    """Replace the progress; `sync` says whether it is on disk when this returns."""
    write_document(directory, _PROGRESS, progress, sync=sync, indent=None)


def read_counters(directory: str, plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the counters of each transform after the last commit."""
    return _counters_in(read_progress(directory), plan)


def _counters_in(progress: Mapping[str, Any], plan: Plan) -> dict[str, dict[str, Any]]:
    counters: dict[str, dict[str, Any]] = {node.label: {} for node in plan.nodes}
    for part in ("counters", "sinks"):
        for label, counts in progress.get(part, {}).items():
            counters.setdefault(label, {}).update(counts)
    return counters


def read_watermarks(directory: str) -> dict[str, EventTime]:
    """Return the output watermark of each source and keyed node after the last commit."""
    return {label: EventTime(watermark) for label, watermark in read_progress(directory).get("watermarks", {}).items()}


def read_measured(directory: str, plan: Plan, pending_since: int | None = None) -> Measured:
    """Return what is known about a run after the last commit."""
    progress = read_progress(directory)
    return Measured(
        counters=_counters_in(progress, plan),
        watermarks=progress.get("watermarks", {}),
        tally=Tally.from_json(progress.get("tally", {})),
        state={label: (entries, stored) for label, (entries, stored) in progress.get("state", {}).items()},
        clock=progress.get("clock", 0),
        commits=progress.get("commits", 0),
        pending_since=pending_since,
        jumps=progress.get("jumps", {}),
    )


def progress_after(
    before: Mapping[str, Any],
    batch: int,
    metrics: Sequence[TaskMetrics],
    sink_counts: dict[str, Counter[str]],
    tally: Tally,
) -> dict[str, Any]:
    """Return the progress after a new commit: counters of shards are totals, those of sinks and tasks are added."""
    total = Tally.from_json(before.get("tally", {}))
    total.merge(tally)
    state: dict[str, list[int]] = {}
    counters: dict[str, Counter[str]] = {}
    known = before.get("watermarks", {})
    watermarks: dict[str, int] = {}
    cache: Counter[str] = Counter(before.get("cache", {}))
    jumps: dict[str, Sequence[int]] = dict(before.get("jumps", {}))
    sources: dict[str, Any] = {name: before[name] for name in _OF_SOURCES if name in before}
    by_origin: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _BY_ORIGIN}
    for part in metrics:
        for label, counts in part["counters"].items():
            counters.setdefault(label, Counter()).update(counts)
        for label, counts in part["sources"].items():
            if part["depth"] == 0:
                counters.setdefault(label, Counter()).update(counts)
            elif part["depth"] == 1:
                counters[label] = Counter(counts)  # every shard counts the same
        for label, watermark in part["watermarks"].items():
            watermarks[label] = min(watermark, watermarks.get(label, watermark))
        cache.update([part["cache"]] if "cache" in part else [])
        jumps = {**part.get("jumps", {}), **jumps}
        for label, size in part.get("state", {}).items():
            state[label] = [had + increase for had, increase in zip(state.get(label, (0, 0)), size, strict=True)]
        entries: dict[str, Any] = {**part}
        sources.update({name: entries[name] for name in _OF_SOURCES if name in part})  # every shard reports the same
        for name in _BY_ORIGIN:
            by_origin[name].update(entries.get(name, {}))
    sinks = {label: Counter(before.get("sinks", {}).get(label, {})) for label in sink_counts}
    for label, counts in sink_counts.items():
        sinks[label].update(counts)
    moments = [moment for part in metrics if (moment := part.get("moment")) is not None]
    ticks = [clock for part in metrics if (clock := part.get("clock")) is not None]
    return {
        "batch": batch,
        "counters": counters or before.get("counters", {}),
        "sinks": sinks,
        "watermarks": known | {label: max(at, known.get(label, at)) for label, at in watermarks.items()},
        "cache": cache,
        "tally": total.to_json(),
        "state": state or before.get("state", {}),
        "clock": max(ticks, default=before.get("clock", 0)),
        "jumps": jumps,
        "moment": min(moments, default=None),
        "commits": before.get("commits", 0) + 1,
        **{name: _open_after(before.get(name, {}), after) for name, after in by_origin.items()},
        **sources,
    }


def _open_after(before: Mapping[str, dict[str, Any]], after: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what is known about each origin, without those that have been read to their ends."""
    together = {label: before.get(label, {}) | after.get(label, {}) for label in {**before, **after}}
    return {
        label: {origin: entry for origin, entry in entries.items() if entry is not None}
        for label, entries in together.items()
    }
