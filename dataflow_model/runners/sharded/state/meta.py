"""What a shard keeps beside its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.runners.engine.timeline import ReplayProgress

if TYPE_CHECKING:
    from collections import Counter

    from dataflow_model.runners.engine.order import At
    from dataflow_model.runners.engine.side_join import JoinState
    from dataflow_model.runners.sharded.rows import PackedBundle

__all__ = ["ShardMeta"]


@attrs.define
class ShardMeta:
    """What a shard keeps beside its keys; small, and stored whole with every delta.

    Attributes:
        positions: the clocks of each engine.
        watermarks, percentiles: what each producer's output watermarks are known to be.
        reports: what this shard last let the output watermark of each of its keyed nodes be; an upgrade that adds the
            first node behind one begins with these.
        counters: of each keyed node, and at the first shard of the sources.
        replay: how far the sources have come; only stage 1 uses it.
        waiting: elements whose instant is not complete.
        joins: what each ParDo with changing side inputs keeps.
        latest: the last instant so far; what comes for an earlier one is behind the clock.
    """

    positions: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    percentiles: dict[str, tuple[int, ...]] = attrs.field(factory=dict)
    reports: dict[str, int] = attrs.field(factory=dict)
    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    replay: ReplayProgress = attrs.field(factory=ReplayProgress)
    waiting: list[PackedBundle] = attrs.field(factory=list)
    joins: dict[str, JoinState] = attrs.field(factory=dict)
    latest: At | None = None
