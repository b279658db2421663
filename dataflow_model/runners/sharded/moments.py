"""When the wall clock alone next makes something happen on a shard, so that a host need not try in vain.

Three things happen without any data: a timer on the processing clock is due; an origin of a source falls idle, and the
others' watermarks count without it; a watermark that follows the wall clock passes what waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.watermarks import ARRIVAL, WallTime
from dataflow_model.runners.engine.estimation import NOTHING_YET
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.runners.sharded.program import Program
    from dataflow_model.runners.sharded.state.shard import ShardState

__all__ = ["next_moment"]


def next_moment(program: Program, state: ShardState) -> int | None:
    """Return the earliest time of the wall clock at which something happens on a shard by itself.

    Args:
        program: the program.
        state: the shard, after a micro-batch.

    Returns:
        that time, later than the last tick; `None` where nothing happens, or the run has another clock.
    """
    if not program.is_on_wall or state.meta.latest is None:
        return None
    now = state.meta.latest[0]
    moments = [*_of_engines(program.staged, state), *_of_idle_origins(program.staged, state)]
    return min((moment for moment in moments if now < moment < int(MAX_TIMESTAMP)), default=None)


def _of_engines(staged: StagedPlan, state: ShardState) -> Iterator[int]:
    for label, engine in state.shard.engines.items():
        event, clock = engine.next_moments()
        if clock is not None:
            yield clock
        if event is None:
            continue
        feeds = [staged.feeds[label], *staged.side_feeds.get(label, {}).values()]
        yield from (event + behind for feed in feeds if (behind := _behind_wall(staged, feed)) is not None)


def _behind_wall(staged: StagedPlan, feed: Mapping[str, int]) -> int | None:
    """Return how far a watermark is behind the wall clock that follows it; `None` where none of its sources does."""
    behind: list[int] = []
    for producer, back in feed.items():
        is_keyed = producer in staged.feeds
        before = _behind_wall(staged, staged.feeds[producer]) if is_keyed else _delay(staged, producer)
        if before is not None:
            behind.append(before + back)
    return max(behind, default=None)  # the watermark is the least of the producers'


def _delay(staged: StagedPlan, label: str) -> int | None:
    """Return how far a source's watermark is behind the wall clock; `None` where it follows the data."""
    source = staged.source(label)
    if not isinstance(source.watermark, WallTime):
        return None
    return 0 if source.event_time == ARRIVAL else int(source.watermark.delay)


def _of_idle_origins(staged: StagedPlan, state: ShardState) -> Iterator[int]:
    sources = {read.label: read.source for read in staged.sources}
    for label, progress in state.meta.replay.sources.items():
        source = sources.get(label)
        idle_after = None if source is None else source.watermark_origins.idle_after
        if idle_after is None or len(progress.origins) == 1:  # where none counts, the watermark stays
            continue
        for origin in progress.origins.values():
            if origin.ended is None and origin.last != NOTHING_YET:
                yield origin.last + int(idle_after) + 1
