"""The state of a whole run, independent of its shards and stages, by the labels of transforms.

`gather` collects it from the shards of an old run; `share` returns the part with which a shard of a new run begins. No
watermark of the new run is ahead of that of any shard of the old run, so no element becomes late by an upgrade. Only at
the user's request is one behind all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.logical.nodes import Write
from dataflow_model.plan.logical.stages import owner_of_cut
from dataflow_model.runners.engine.lanes.lanes import taken
from dataflow_model.runners.engine.lanes.order import (
    before_stages,
    pass_stages,
    shard_by_order,
    with_renamed_sources,
)
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane, Watermarks
from dataflow_model.runners.engine.machines.shard import least_by_instant
from dataflow_model.runners.engine.machines.side_join import JoinState
from dataflow_model.runners.engine.protocol.sharding import shards_of
from dataflow_model.runners.engine.sources.estimation import SourceProgress
from dataflow_model.runners.engine.sources.timeline import ReplayProgress
from dataflow_model.runners.sharded.state.key_classes import KeyClasses, check_key_classes
from dataflow_model.runners.sharded.state.log import Delta
from dataflow_model.runners.sharded.tasks.rows import PackedBundle
from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.machines.shard import StageShard
    from dataflow_model.runners.engine.state.resharding import Share
    from dataflow_model.runners.sharded.checkpoint.renaming import Renames
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.upgrade.renewal import Renewal


@attrs.define
class Carried:
    """The state of all shards of a run, apart from their keys.

    Attributes:
        positions: the least clocks of the shards of each keyed node.
        watermarks, percentiles: the known output watermarks of each producer.
        counters: the counters of each transform.
        replay: the progress of the sources; `None` if no shard has it.
        waiting: the elements whose instant is not complete, each bundle with the stage that it has reached.
        joins: the state of each ParDo with changing side inputs.
        latest: the last instant.
        key_classes: the classes of records of which there are keys.
    """

    positions: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    percentiles: dict[str, tuple[int, ...]] = attrs.field(factory=dict)
    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    replay: ReplayProgress | None = None
    waiting: list[tuple[int, PackedBundle]] = attrs.field(factory=list)
    joins: dict[str, JoinState] = attrs.field(factory=dict)
    latest: At | None = None
    key_classes: KeyClasses = attrs.field(factory=dict)

    def of_sources(self, labels: Collection[str]) -> ShardMeta:
        """Return the state of the sources alone.

        Args:
            labels: the labels of the sources.
        """
        return ShardMeta(
            watermarks={label: watermark for label, watermark in self.watermarks.items() if label in labels},
            counters={label: counts for label, counts in self.counters.items() if label in labels},
            replay=self.replay or ReplayProgress(),
            latest=self.latest,
        )

    def rename(self, renames: Renames) -> None:
        """Give transforms other labels."""
        if not renames.labels:
            return
        self.positions = renames.by_label(self.positions)
        self.watermarks = renames.by_label(self.watermarks)
        self.percentiles = renames.by_label(self.percentiles)
        self.counters = renames.by_label(self.counters)
        self.joins = renames.by_label(self.joins)
        if self.replay is not None:
            self.replay.rename(renames.new)
        for number, (depth, waiting) in enumerate(self.waiting):
            orders = [with_renamed_sources(order, renames.labels) for order in waiting.bundle.orders]
            bundle = attrs.evolve(waiting.bundle, orders=orders)
            self.waiting[number] = depth, PackedBundle(renames.cut(waiting.cut), waiting.at, bundle)
        for join in self.joins.values():
            for elements in join.waiting.values():
                for element in elements:
                    element.order = with_renamed_sources(element.order, renames.labels)

    def restrict(
        self, carried: Collection[str], anew: Collection[str], awaited: Sequence[float], before: Sequence[float]
    ) -> None:
        """Remove the state that the new pipeline does not use.

        Args:
            carried: the labels of the transforms that keep their state.
            anew: those of them that are sources whose watermark begins anew.
            awaited: the percentiles of the watermark that the new pipeline uses. If they are not those of the old
                pipeline, they are computed anew, and equal the low watermark until then.
            before: the percentiles that the old pipeline used.
        """
        for by_label in (self.positions, self.watermarks, self.percentiles, self.counters, self.joins):
            for label in by_label.keys() - set(carried):
                del by_label[label]
        for label in anew:
            self.watermarks.pop(label, None)
            self.percentiles.pop(label, None)
        self.waiting = [(stage, bundle) for stage, bundle in self.waiting if owner_of_cut(bundle.cut) in carried]
        if self.replay is not None:
            self.replay.forget_all_but(set(carried) - set(anew))
        if tuple(awaited) != tuple(before):
            self.percentiles.clear()
            for position in self.positions.values():
                position.pop("percentiles", None)
            if self.replay is not None:
                self.replay.forget_percentiles()

    def move_back(self, watermarks: Mapping[str, int], staged: StagedPlan) -> None:
        """Move the watermarks of some sources back, and those of all transforms that they feed.

        Args:
            watermarks: the new watermarks, by source.
            staged: the new pipeline.
        """
        moved = dict(watermarks)
        for label, to in watermarks.items():
            if self.replay is not None:
                partitions = staged.source(label).watermark_origins.partitions
                self.replay.sources.setdefault(label, SourceProgress()).move_back(to, partitions)
        for node in staged.keyed:
            feeds = [staged.feeds[node.label], *staged.side_feeds.get(node.label, {}).values()]
            behind = [moved[producer] - back for feed in feeds for producer, back in feed.items() if producer in moved]
            if behind:
                moved[node.label] = min(behind)
        for label, to in moved.items():
            self.watermarks[label] = min(to, self.watermarks.get(label, to))
            if label in self.percentiles:
                self.percentiles[label] = tuple(min(to, value) for value in self.percentiles[label])
            position = self.positions.get(label, {})
            for name in position.keys() & {"watermark", "percentiles", "closed"}:
                value = position[name]
                position[name] = tuple(min(to, each) for each in value) if name == "percentiles" else min(to, value)
            join = self.joins.get(label)
            if join is not None:
                join.main = join.main.held(to)
                join.watermarks = [min(to, watermark) for watermark in join.watermarks]


def gather(stages: Mapping[int, Sequence[ShardMeta]], nodes: Mapping[int, Collection[str]]) -> Carried:
    """Merge the state of the shards of each stage.

    Args:
        stages: the state of the shards, by stage.
        nodes: the labels of the keyed nodes, by stage.
    """
    carried = Carried()
    reports: dict[str, int] = {}
    for depth, metas in sorted(stages.items()):
        for meta in metas:
            _least(carried.watermarks, meta.watermarks)
            _least(reports, meta.reports)
            check_key_classes(meta.key_classes)
            carried.key_classes |= meta.key_classes
            for producer, values in meta.percentiles.items():
                least = carried.percentiles.get(producer, values)
                carried.percentiles[producer] = tuple(map(min, least, values))
            if meta.latest is not None:
                carried.latest = max(meta.latest, carried.latest or meta.latest)
        for label in nodes.get(depth, ()):
            positions = [meta.positions[label] for meta in metas if label in meta.positions]
            if positions:
                carried.positions[label] = _least_position(positions)
            carried.counters[label] = Counter()
            for meta in metas:
                carried.counters[label].update(meta.counters.get(label, {}))
            joins = [meta.joins[label] for meta in metas if label in meta.joins]
            if joins:
                carried.joins[label] = _merged_join(joins)
        if depth == 1 and metas:  # the progress of the sources is the same at every shard
            carried.replay = metas[0].replay
            for label, counts in metas[0].counters.items():
                carried.counters.setdefault(label, Counter(counts))
        for number, meta in enumerate(metas):
            # Elements of a side input are sent to every shard, all others to one shard.
            bundles = [bundle for bundle in meta.waiting if number == 0 or owner_of_cut(bundle.cut) == bundle.cut]
            carried.waiting += [(depth, bundle) for bundle in bundles]
    carried.watermarks = {**reports, **carried.watermarks}  # the receivers of an output know its watermark better
    return carried


def share(
    carried: Carried,
    program: Program,
    stage: StageShard,
    part: Share,
    entries: Callable[[str], Iterable[Mapping[bytes, Any]]],
    renewal: Renewal,
) -> Delta:
    """Return the state with which a shard of a new run begins, in its durable form.

    Args:
        carried: the state of the old run; a copy that may be modified.
        program: the program of the new run.
        stage: the new machines of the shard.
        part: which shard.
        entries: returns the stored entries of a keyed node, from each old shard that may have entries of this shard.
        renewal: what has changed in groupings.
    """
    positions = dict(carried.positions)
    latest = carried.latest
    lanes = {producer: WatermarkLane.of([Watermarks(low)]) for producer, low in carried.watermarks.items()}
    for label in stage.machines:
        if label not in positions:
            (watermarks,) = least_by_instant(program.staged.feeds[label], lanes, 1)
            positions[label] = {"watermark": watermarks.low, "clock": 0 if latest is None else latest[0]}
    plan = program.staged.plan
    own = {label: renewal.position(plan, label, positions[label]) for label in stage.machines}
    meta = ShardMeta(
        positions={label: dict(position) for label, position in own.items()},
        watermarks=carried.watermarks,
        percentiles=carried.percentiles,
        replay=ReplayProgress() if carried.replay is None or stage.depth > 1 else carried.replay,
        joins={label: _join_of_share(join, part) for label, join in carried.joins.items() if label in stage.machines},
        latest=latest,
        key_classes=carried.key_classes,
    )
    keyed = {node.label for node in program.staged.keyed}
    for label, counts in carried.counters.items():
        if (part.index == 0 and label in stage.machines) or (stage.depth == 1 and label not in keyed):
            meta.counters[label] = counts
    for depth, bundle in carried.waiting:
        if owner_of_cut(bundle.cut) in stage.machines:
            waiting = _waiting_of_share(program, bundle, part)
            if waiting is not None:
                orders = [before_stages(order, depth - 1) for order in waiting.bundle.orders]
                waiting.bundle.orders = pass_stages(orders, stage.depth - 1)
                meta.waiting.append(waiting)
    shared = {
        label: renewal.share(plan, machine, entries(label), part, own[label])
        for label, machine in stage.machines.items()
    }
    return Delta(meta, shared)


def _least(least: dict[str, int], values: Mapping[str, int]) -> None:
    for label, value in values.items():
        least[label] = min(value, least.get(label, value))


def _least_position(positions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: tuple(map(min, *reached)) if isinstance(value, tuple) and len(reached) > 1 else min(reached)
        for name, value in positions[0].items()
        if (reached := [position[name] for position in positions])
    }


def _merged_join(joins: Sequence[JoinState]) -> JoinState:
    """Merge the shards of a join: each has received all of the side inputs, and a part of the elements."""
    by_side = zip(*(join.windows for join in joins), strict=True)
    windows = [{window: values for side in sides for window, values in side.items()} for sides in by_side]
    joined = JoinState(windows, [min(marks) for marks in zip(*(join.watermarks for join in joins), strict=True)])
    for join in joins:
        for asking, waiting in join.waiting.items():
            joined.waiting.setdefault(asking, []).extend(waiting)
    joined.instants = max(join.instants for join in joins)
    joined.main = Watermarks.least(join.main for join in joins)
    return joined


def _join_of_share(join: JoinState, share: Share) -> JoinState:
    waiting = {
        asking: of_share
        for asking, elements in join.waiting.items()
        if (of_share := [element for element in elements if shard_by_order(element.order, share.shards) == share.index])
    }
    hold = min((element.time for elements in waiting.values() for element in elements), default=int(MAX_TIMESTAMP))
    return attrs.evolve(join, waiting=waiting, hold=hold)


def _waiting_of_share(program: Program, packed: PackedBundle, share: Share) -> PackedBundle | None:
    """Return the elements of a waiting bundle that belong to a shard; those of a side input belong to every shard."""
    if packed.cut in program.staged.owners:
        return packed
    node = program.staged.taker(packed.cut)
    assert not isinstance(node, Write)  # noqa: S101 - elements for sinks never wait
    rows = [row for row, index in enumerate(shards_of(node, packed.bundle, share.shards)) if index == share.index]
    if not rows:
        return None
    at = packed.at if isinstance(packed.at, tuple) else taken(packed.at, rows)
    return PackedBundle(packed.cut, at, packed.bundle.take(rows))
