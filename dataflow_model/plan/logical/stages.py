"""A plan cut into one linear chain of keyed stages, with element-wise fragments between them.

Stage 0 consists of the sources. Keyed nodes that depend only on sources are stage 1, keyed nodes after them stage 2,
and so on. Everything between two stages is fused: it runs where its input was produced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.logical.ahead import KeptSource, cut_ahead
from dataflow_model.plan.logical.graph import Plan, main_inputs, outputs_of
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    Deduplicate,
    GroupByKeyAndWindow,
    Node,
    ParDo,
    Read,
    Ref,
    Reshuffle,
    SideInput,
    Write,
)
from dataflow_model.plan.logical.retracted import memoised
from dataflow_model.plan.logical.triggering import asks_for_percentile, awaited_percentiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dataflow_model.plan.endpoints.sources import Source

KeyedNode: TypeAlias = GroupByKeyAndWindow | Reshuffle | Deduplicate | ParDo
"""The nodes that run on shards: groupings, reshuffles, and ParDos that are stateful, are memoised, or have side inputs
that change."""


@attrs.frozen(eq=False)
class StagedPlan:
    """A plan and its chain of stages.

    Attributes:
        plan: what the stages run: all of the plan but what runs ahead.
        whole: the whole plan.
        stages: the keyed nodes of stages 1, 2, …
        depths: the stage of each producer (0 for a source) and of each side input's cut.
        cuts: the ends of fused fragments: keyed nodes, sinks, and side inputs that change (`side_cut`).
        feeds: the producers of each cut's main input, each with how far the fragment in between holds the watermark
            back, in microseconds.
        side_feeds: the producers of each side input of the keyed ParDos, in the same form.
        owners: the node of each side input's cut.
        passes: what static side inputs need, which runs before the stages do.
        ahead: the labels of the nodes that run in passes, and not in the stages.
        percentiles: the percentiles of the watermark below 100 that the whole plan uses, lowest first.
        records_percentiles: whether a function of the whole plan requests the percentile of an element.
    """

    plan: Plan
    whole: Plan
    stages: tuple[tuple[KeyedNode, ...], ...]
    depths: Mapping[str, int]
    cuts: frozenset[str]
    feeds: Mapping[str, Mapping[str, int]]
    side_feeds: Mapping[str, Mapping[SideInput, Mapping[str, int]]]
    owners: Mapping[str, str]
    passes: tuple[Plan, ...] = ()
    ahead: frozenset[str] = frozenset()
    percentiles: tuple[float, ...] = ()
    records_percentiles: bool = False

    @property
    def sources(self) -> tuple[Read, ...]:
        """The sources, in the plan's order; what was computed ahead is one if transforms read it."""
        reads = (node for node in self.plan.nodes if isinstance(node, Read))
        return tuple(read for read in reads if not isinstance(read.source, KeptSource) or read.source.is_read)

    def source(self, label: str) -> Source:
        """Return the source of the read with this label."""
        return self.read(label).source

    def read(self, label: str) -> Read:
        """Return the read with this label."""
        node = self.plan[label]
        assert isinstance(node, Read), f"{label!r} reads nothing"  # noqa: S101 - callers have the label from a read
        return node

    @property
    def changing_sides(self) -> frozenset[SideInput]:
        """The side inputs that change while the plan runs."""
        return frozenset(side for sides in self.side_feeds.values() for side in sides)

    @property
    def sinks(self) -> tuple[Write, ...]:
        """The sinks, in the plan's order."""
        return tuple(node for node in self.plan.nodes if isinstance(node, Write))

    @property
    def keyed(self) -> tuple[KeyedNode, ...]:
        """All keyed nodes, stage by stage."""
        return tuple(node for stage in self.stages for node in stage)

    def taker(self, cut: str) -> KeyedNode | Write:
        """Return the node that receives the elements of a cut."""
        node = self.plan[self.owners.get(cut, cut)]
        assert isinstance(node, KeyedNode | Write), f"{cut!r} is not a cut"  # noqa: S101 - the plan was cut at these
        return node

    def depth_of(self, cut: str) -> int:
        """Return the stage in which a cut receives its elements; sinks come after the last stage."""
        return self.depths.get(cut, len(self.stages) + 1)

    def targets(self, producer: str) -> frozenset[str]:
        """Return the cuts that a producer feeds."""
        return frozenset(cut for cut, feed in self.feeds.items() if producer in feed) | frozenset(
            cut for cut, sides in self.side_feeds.items() if any(producer in feed for feed in sides.values())
        )


def cut_into_stages(plan: Plan, changing: Collection[SideInput] = ()) -> StagedPlan:
    """Cut a plan into its chain of stages, apart from what runs ahead.

    Args:
        plan: a checked plan.
        changing: the side inputs that change while the plan runs; the others are computed ahead.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.Map(lambda kv: (kv[1], kv[0])) | dm.GroupByKey()
        >>> [[node.label for node in stage] for stage in cut_into_stages(p.plan()).stages]
        [['Sum.PerKey'], ['GroupByKey']]
    """
    cut = cut_ahead(plan, changing)
    return attrs.evolve(_stages_of(cut.rest, plan, changing), passes=cut.passes, ahead=cut.labels)


def stages_of_pass(staged: StagedPlan, part: Plan) -> StagedPlan:
    """Return the chain of stages of one of the passes ahead of a plan."""
    return attrs.evolve(_stages_of(part, staged.whole), ahead=staged.ahead)


def _stages_of(plan: Plan, whole: Plan, changing: Collection[SideInput] = ()) -> StagedPlan:
    """Return the chain of stages of a part of a plan, whose static side inputs are known."""
    reached: dict[Ref, dict[str, int]] = {}
    depths: dict[str, int] = {}
    feeds: dict[str, Mapping[str, int]] = {}
    side_feeds: dict[str, Mapping[SideInput, Mapping[str, int]]] = {}
    stages: list[list[KeyedNode]] = []
    owners: dict[str, str] = {}
    keeping = memoised(plan)
    for node in plan.nodes:
        flow = _union([reached[ref] for ref in main_inputs(node)])
        if isinstance(node, Write):
            feeds[node.label] = flow
            continue
        waits = isinstance(node, ParDo) and node.has_side_among(changing)
        if isinstance(node, Read):
            flow, depths[node.label] = {node.label: 0}, 0
        elif isinstance(node, GroupByKeyAndWindow | Reshuffle | Deduplicate) or (
            isinstance(node, ParDo) and (waits or node.is_stateful or node.label in keeping)
        ):
            feeds[node.label] = flow
            before = set(flow)
            if isinstance(node, ParDo) and waits:
                side_feeds[node.label] = {side: reached[side.ref] for side in node.side_inputs if side in changing}
                before.update(*side_feeds[node.label].values())
            depth = 1 + max((depths[producer] for producer in before), default=0)
            depths[node.label] = depth
            if isinstance(node, ParDo) and waits:
                for number, side in enumerate(node.side_inputs):
                    if side in changing:
                        owners[side_cut(node.label, number)] = node.label
                        depths[side_cut(node.label, number)] = depth
            stages.extend([] for _ in range(depth - len(stages)))
            stages[depth - 1].append(node)
            flow = {node.label: 0}
        horizon = _horizon(node)
        for ref in outputs_of(node):
            reached[ref] = {producer: back + horizon for producer, back in flow.items()}
    cuts = frozenset(feeds) | frozenset(owners)
    return StagedPlan(
        plan,
        whole,
        tuple(map(tuple, stages)),
        depths,
        cuts,
        feeds,
        side_feeds,
        owners,
        percentiles=awaited_percentiles(whole),
        records_percentiles=asks_for_percentile(whole),
    )


def owner_of_cut(cut: str) -> str:
    """Return the label of the node to which a cut belongs; for a side input's cut, that of the ParDo.

    Example:
        >>> owner_of_cut("join"), owner_of_cut(side_cut("join", 0))
        ('join', 'join')
    """
    return cut.partition("\0")[0]


def side_cut(label: str, number: int) -> str:
    """Return the name of the cut of a ParDo's side input; it contains a character that no label has.

    Args:
        label: the ParDo's full label.
        number: the index of the side input.
    """
    return f"{label}\0side {number}"


def changing_sides(plan: Plan) -> tuple[SideInput, ...]:
    """Return the side inputs that change while a plan runs.

    They depend on an unbounded source, on a script, or on a function whose work may outlast its input.

    The others are known before the pipeline runs, and are sent with the functions.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> factor = p | "factor" >> dm.Create([10])
        >>> _ = p | "numbers" >> dm.Create([1, 2]) | dm.Map(lambda x, by: x * by, dm.AsSingleton(factor))
        >>> changing_sides(p.plan())
        ()
    """
    changing: set[Ref] = set()
    sides: list[SideInput] = []
    for node in plan.nodes:
        changes = node.source.changes if isinstance(node, Read) else any(ref in changing for ref in node.inputs)
        if isinstance(node, ParDo):
            sides += [side for side in node.side_inputs if side.ref in changing]
        if changes or (isinstance(node, ParDo) and isinstance(node.fn, ResumingFn)):
            changing.update(outputs_of(node))
    return tuple(sides)


def _union(flows: list[dict[str, int]]) -> dict[str, int]:
    union: dict[str, int] = {}
    for flow in flows:
        for producer, back in flow.items():
            union[producer] = max(back, union.get(producer, 0))
    return union


def _horizon(node: Node) -> int:
    """Return how far behind its input's watermark a node's output watermark is held."""
    match node:
        case ParDo() | AssignTimestamps():
            return int(node.late_data_horizon or 0)
        case _:
            return 0
