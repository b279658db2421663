"""The state of a whole run, freed from its shards and stages: what all of them knew, by the labels of transforms.

`gather` makes it of the shards of an old run; `share` cuts out of it what one shard of a new run begins with. A
watermark of the new run is nowhere ahead of what any shard of the old one had, so none that came later is wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.nodes import Write
from dataflow_model.plan.stages import owner_of_cut
from dataflow_model.runners.engine.order import pass_stages, shard_by_order, stood_in
from dataflow_model.runners.engine.shard import least_by_instant
from dataflow_model.runners.engine.sharding import shards_of
from dataflow_model.runners.engine.side_join import JoinState
from dataflow_model.runners.engine.timeline import ReplayProgress
from dataflow_model.runners.engine.watermarks import WatermarkLane, Watermarks
from dataflow_model.runners.sharded.rows import PackedBundle
from dataflow_model.runners.sharded.state.log import Delta
from dataflow_model.runners.sharded.state.meta import ShardMeta
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dataflow_model.runners.engine.order import At
    from dataflow_model.runners.engine.resharding import Share
    from dataflow_model.runners.engine.shard import StageShard
    from dataflow_model.runners.sharded.program import Program

__all__ = ["Carried", "gather", "share"]


@attrs.define
class Carried:
    """What the shards of a run kept beside their keys, as one.

    Attributes:
        positions: by keyed node, the least clocks of its shards.
        watermarks, percentiles: by producer, what its output watermarks are known to be.
        counters: by transform.
        replay: how far the sources have come; `None` where no shard kept it.
        waiting: elements whose instant is not complete, each bundle with the stage that it had come to.
        joins: by ParDo with changing side inputs, what its shards kept.
        latest: the last instant.
    """

    positions: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    percentiles: dict[str, tuple[int, ...]] = attrs.field(factory=dict)
    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    replay: ReplayProgress | None = None
    waiting: list[tuple[int, PackedBundle]] = attrs.field(factory=list)
    joins: dict[str, JoinState] = attrs.field(factory=dict)
    latest: At | None = None

    def restrict(
        self, known: Collection[str], anew: Collection[str], awaited: Sequence[float], before: Sequence[float]
    ) -> None:
        """Forget what another pipeline has no use for.

        Args:
            known: the labels of transforms that go on with what they kept.
            anew: of them the sources whose watermark begins anew.
            awaited: the percentiles of the watermark that the new pipeline asks for; others than the old one's have to
                be learned anew, and stand at the low watermark until then.
            before: those that the old pipeline asked for.
        """
        for held in (self.positions, self.watermarks, self.percentiles, self.counters, self.joins):
            for label in held.keys() - set(known):
                del held[label]
        for label in anew:
            self.watermarks.pop(label, None)
            self.percentiles.pop(label, None)
        self.waiting = [(stage, bundle) for stage, bundle in self.waiting if owner_of_cut(bundle.cut) in known]
        if self.replay is not None:
            self.replay.forget_all_but(set(known) - set(anew))
        if tuple(awaited) != tuple(before):
            self.percentiles.clear()
            for position in self.positions.values():
                position.pop("percentiles", None)
            if self.replay is not None:
                self.replay.forget_percentiles()


def gather(stages: Mapping[int, Sequence[ShardMeta]], nodes: Mapping[int, Collection[str]]) -> Carried:
    """Put together what the shards of each stage kept.

    Args:
        stages: by stage, the shards' own.
        nodes: by stage, the labels of its keyed nodes.
    """
    carried = Carried()
    reports: dict[str, int] = {}
    for depth, metas in sorted(stages.items()):
        for meta in metas:
            _least(carried.watermarks, meta.watermarks)
            _least(reports, meta.reports)
            for producer, values in meta.percentiles.items():
                known = carried.percentiles.get(producer, values)
                carried.percentiles[producer] = tuple(map(min, known, values))
            if meta.latest is not None:
                carried.latest = max(meta.latest, carried.latest or meta.latest)
        for label in nodes[depth]:
            positions = [meta.positions[label] for meta in metas if label in meta.positions]
            if positions:
                carried.positions[label] = _least_position(positions)
            carried.counters[label] = Counter()
            for meta in metas:
                carried.counters[label].update(meta.counters.get(label, {}))
            joins = [meta.joins[label] for meta in metas if label in meta.joins]
            if joins:
                carried.joins[label] = _one_join(joins)
        if depth == 1 and metas:  # every shard has made the same of it
            carried.replay = metas[0].replay
            for label, counts in metas[0].counters.items():
                carried.counters.setdefault(label, Counter(counts))
        for number, meta in enumerate(metas):
            # A side input's elements are sent to every shard, the others to one.
            bundles = [bundle for bundle in meta.waiting if number == 0 or owner_of_cut(bundle.cut) == bundle.cut]
            carried.waiting += [(depth, bundle) for bundle in bundles]
    carried.watermarks = {**reports, **carried.watermarks}  # who has received an output knows its watermark better
    return carried


def share(
    carried: Carried,
    program: Program,
    stage: StageShard,
    mine: Share,
    entries: Callable[[str], Iterable[Mapping[bytes, Any]]],
) -> Delta:
    """Return what one shard of a new run begins with, in the form in which it keeps it.

    Args:
        carried: what the old run kept; the caller's own copy.
        program: the new run's.
        stage: the shard's engines, new ones.
        mine: which shard.
        entries: gives the stored entries of a keyed node, from each old shard that may have some of this one's.
    """
    positions = dict(carried.positions)
    latest = carried.latest
    known = {producer: WatermarkLane.of([Watermarks(low)]) for producer, low in carried.watermarks.items()}
    for label in stage.engines:
        if label not in positions:
            (watermarks,) = least_by_instant(program.staged.feeds[label], known, 1)
            positions[label] = {"watermark": watermarks.low, "clock": 0 if latest is None else latest[0]}
    meta = ShardMeta(
        positions={label: position for label, position in positions.items() if label in stage.engines},
        watermarks=carried.watermarks,
        percentiles=carried.percentiles,
        replay=ReplayProgress() if carried.replay is None or stage.depth > 1 else carried.replay,
        joins={label: _join_of_share(join, mine) for label, join in carried.joins.items() if label in stage.engines},
        latest=latest,
    )
    keyed = {node.label for node in program.staged.keyed}
    for label, counts in carried.counters.items():
        if (mine.index == 0 and label in stage.engines) or (stage.depth == 1 and label not in keyed):
            meta.counters[label] = counts
    for depth, bundle in carried.waiting:
        if owner_of_cut(bundle.cut) in stage.engines:
            part = _waiting_of_share(program, bundle, mine)
            if part is not None:
                orders = [stood_in(order, depth - 1) for order in part.bundle.orders]
                part.bundle.orders = pass_stages(orders, stage.depth - 1)
                meta.waiting.append(part)
    kept = {
        (label, encoded): entry
        for label, engine in stage.engines.items()
        for encoded, entry in engine.share(entries(label), mine).items()
    }
    return Delta(meta, kept)


def _least(known: dict[str, int], more: Mapping[str, int]) -> None:
    for label, value in more.items():
        known[label] = min(value, known.get(label, value))


def _least_position(positions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: tuple(map(min, *places)) if isinstance(value, tuple) and len(places) > 1 else min(places)
        for name, value in positions[0].items()
        if (places := [position[name] for position in positions])
    }


def _one_join(joins: Sequence[JoinState]) -> JoinState:
    """Put the shards of a join together: each has seen the side inputs whole, and a part of the elements."""
    windows = [{window: held for side in sides for window, held in side.items()} for sides in _by_side(joins)]
    joined = JoinState(windows, [min(marks) for marks in zip(*(join.watermarks for join in joins), strict=True)])
    for join in joins:
        for window, waiting in join.waiting.items():
            joined.waiting.setdefault(window, []).extend(waiting)
    joined.instants = max(join.instants for join in joins)
    joined.watermark = min(join.watermark for join in joins)
    return joined


def _by_side(joins: Sequence[JoinState]) -> list[tuple[dict[Any, Any], ...]]:
    return list(zip(*(join.windows for join in joins), strict=True))


def _join_of_share(join: JoinState, share: Share) -> JoinState:
    waiting = {
        window: some
        for window, held in join.waiting.items()
        if (some := [one for one in held if shard_by_order(one.order, share.shards) == share.index])
    }
    hold = min((one.time for some in waiting.values() for one in some), default=int(MAX_TIMESTAMP))
    return attrs.evolve(join, waiting=waiting, hold=hold)


def _waiting_of_share(program: Program, packed: PackedBundle, share: Share) -> PackedBundle | None:
    """Return the elements of a waiting bundle that are one shard's; a side input's are every shard's."""
    if packed.cut in program.staged.owners:
        return packed
    node = program.staged.taker(packed.cut)
    assert not isinstance(node, Write)  # noqa: S101 - what goes to sinks never waits
    rows = [row for row, index in enumerate(shards_of(node, packed.bundle, share.shards)) if index == share.index]
    if not rows:
        return None
    at = [packed.at[row] for row in rows] if isinstance(packed.at, list) else packed.at
    return PackedBundle(packed.cut, at, packed.bundle.take(rows))
