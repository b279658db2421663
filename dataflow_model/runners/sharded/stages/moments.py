"""When something next happens on a shard without new data, so that a host need not run empty micro-batches.

Three things depend only on the wall clock: a processing-time timer becomes due; an origin becomes idle, so that the
source's watermark no longer waits for it; and a watermark that follows the wall clock passes something that waits for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.watermarks.estimators import ARRIVAL, WallTime
from dataflow_model.runners.engine.sources.estimation import NOTHING_YET
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta


def next_moment(program: Program, meta: ShardMeta, machines: Mapping[str, KeyedMachine]) -> int | None:
    """Return the earliest wall-clock time at which something happens on a shard without new data.

    Args:
        program: the program.
        meta: the state of the shard after a micro-batch, apart from its keys.
        machines: its machines.

    Returns:
        that time, later than the last tick; `None` if nothing happens, or the run has another clock.
    """
    if not program.is_on_wall or meta.latest is None:
        return None
    now = meta.latest[0]
    moments = [*_of_machines(program.staged, machines), *_of_idle_origins(program.staged, meta)]
    return min((moment for moment in moments if now < moment < int(MAX_TIMESTAMP)), default=None)


def _of_machines(staged: StagedPlan, machines: Mapping[str, KeyedMachine]) -> Iterator[int]:
    for label, machine in machines.items():
        event, clock = machine.next_moments()
        if clock is not None:
            yield clock
        if event is None:
            continue
        feeds = [staged.feeds[label], *staged.side_feeds.get(label, {}).values()]
        yield from (event + behind for feed in feeds if (behind := _behind_wall(staged, feed)) is not None)


def _behind_wall(staged: StagedPlan, feed: Mapping[str, int]) -> int | None:
    """Return how far a watermark trails the wall clock; `None` if none of its sources follows the wall clock."""
    behind: list[int] = []
    for producer, back in feed.items():
        is_keyed = producer in staged.feeds
        before = _behind_wall(staged, staged.feeds[producer]) if is_keyed else _delay(staged, producer)
        if before is not None:
            behind.append(before + back)
    return max(behind, default=None)  # the watermark is the minimum over the producers


def _delay(staged: StagedPlan, label: str) -> int | None:
    """Return how far a source's watermark trails the wall clock; `None` if it follows the data."""
    source = staged.source(label)
    if not isinstance(source.watermark, WallTime):
        return None
    return 0 if source.event_time == ARRIVAL else int(source.watermark.delay)


def _of_idle_origins(staged: StagedPlan, meta: ShardMeta) -> Iterator[int]:
    sources = {read.label: read.source for read in staged.sources}
    for label, progress in meta.replay.sources.items():
        source = sources.get(label)
        idle_after = None if source is None else source.watermark_origins.idle_after
        if idle_after is None or len(progress.origins) == 1:  # if the only origin is idle, the watermark stays
            continue
        for origin in progress.origins.values():
            if origin.ended is None and origin.last != NOTHING_YET:
                yield origin.last + int(idle_after) + 1
