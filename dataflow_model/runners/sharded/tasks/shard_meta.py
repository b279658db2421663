"""The state of a shard apart from its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.runners.engine.sources.timeline import ReplayProgress

if TYPE_CHECKING:
    from collections import Counter

    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.machines.side_join import JoinState
    from dataflow_model.runners.sharded.state.key_classes import KeyClasses
    from dataflow_model.runners.sharded.tasks.rows import PackedBundle


@attrs.define
class ShardMeta:
    """The state of a shard apart from its keys; it is small, and stored as a whole with every delta.

    Attributes:
        positions: the clocks of each machine.
        watermarks, percentiles: the known output watermarks of each producer.
        reports: the output watermark that this shard last reported for each of its keyed nodes; an upgrade that adds
            the first node after one of them starts with these.
        counters: the counters of each keyed node, and at the first shard also those of the sources.
        replay: the progress of the sources; only stage 1 uses it.
        waiting: elements whose instant is not complete.
        joins: the state of each ParDo with changing side inputs.
        latest: the last instant so far; elements of an earlier one are behind the clock.
        key_classes: the classes of records of which there are keys, or ids of `Deduplicate`, with their fields.
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
    key_classes: KeyClasses = attrs.field(factory=dict)
