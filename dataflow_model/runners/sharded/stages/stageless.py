"""Follow the sources of a stream without keyed stages, whose shards would otherwise do so.

Without a keyed stage, a micro-batch is not shuffled: tasks read rows and write them to sinks. What the tasks observe
reaches the commit, which counts the rows, advances the watermarks, and keeps what it needs for the next micro-batch
with the progress of the run.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.sharded.checkpoint.durable import corrupt, seal, unseal
from dataflow_model.runners.sharded.stages.instants import make_timeline, note_sources
from dataflow_model.runners.sharded.stages.moments import next_moment
from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.runners.engine.sources.observing import Observations
    from dataflow_model.runners.sharded.feed.planning import Control
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics

FOLLOWED: Final = "followed"
"""The entry of the progress with the state of the sources."""


def follow_sources(
    program: Program,
    control: Control | None,
    reads: Sequence[tuple[Observations, Mapping[str, int]]],
    before: Mapping[str, Any],
) -> list[TaskMetrics]:
    """Return the metrics of a micro-batch of a program without keyed stages, in the form of those of a shard.

    Args:
        program: the program.
        control: the driver's decisions for the micro-batch; `None` if it has none, because the input has ended.
        reads: the observations and the counts of each read.
        before: the progress after the micro-batch before it.

    Raises:
        StateCorruption: if the progress is damaged.
    """
    if program.staged.stages or control is None:
        return []
    meta = followed_in(before, program.run_id)
    if meta is None:
        meta = ShardMeta() if program.seed is None else program.seed.of_sources(program)
    timeline = make_timeline(program, meta, control, reads)
    if len(timeline):
        meta.latest = max(timeline.at[-1], meta.latest or timeline.at[-1])
        meta.watermarks |= {label: lane[-1].low for label, lane in timeline.watermarks.items()}
    metrics: TaskMetrics = {
        "depth": 1,
        "counters": {},
        "sources": {label: dict(counts) for label, counts in meta.counters.items()},
        "watermarks": meta.watermarks,
        "clock": timeline.at[-1][0] if len(timeline) else None,
        "moment": None if control.last else next_moment(program, meta, {}),
        FOLLOWED: base64.b64encode(seal(meta)).decode(),
    }
    note_sources(metrics, program, meta, control, reads)
    metrics["jumps"] = {label: tuple(jump) for label, jump in timeline.jumps.items()}
    return [metrics]


def followed_in(progress: Mapping[str, Any], run_id: str) -> ShardMeta | None:
    """Return the state of the sources of a stream without keyed stages; `None` if its progress contains none.

    Args:
        progress: the progress of the run.
        run_id: the id of the run, for errors.

    Raises:
        StateCorruption: if it is damaged.
    """
    record = progress.get(FOLLOWED)
    if record is None:
        return None
    name = f"the state of the sources of run {run_id}"
    try:
        sealed = base64.b64decode(record, validate=True)
    except (TypeError, ValueError) as error:
        raise corrupt(name, f"it cannot be read: {error}") from error
    meta: ShardMeta = unseal(sealed, name)
    return meta
