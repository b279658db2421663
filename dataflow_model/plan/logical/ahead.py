"""What runs ahead of a pipeline: everything that its static side inputs need, in passes that run each transform once.

A static side input is known before the transforms that read it run. So what it is made of runs in a pass of its own,
ahead of the pipeline. If that itself has static side inputs, the passes follow one another. A collection that a pass
has computed is kept, and whatever else reads it, in a later pass or in the pipeline, reads what was kept: functions may
draw random numbers, and a collection has one value. Only sources are read again, since that returns the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.plan.logical.graph import main_inputs, outputs_of
from dataflow_model.plan.logical.nodes import MAIN, ParDo, Read, Ref, Write
from dataflow_model.plan.logical.retracted import retracted_collections

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node, SideInput


@attrs.frozen(eq=False, kw_only=True)
class KeptSource(ElementsSource):
    """Collections that an earlier pass has computed, in place of the transform that they come from.

    Attributes:
        kept: the collections by tag, in the form of the runner; none before the pass has run, and none for tags that
            only static side inputs read.
        processing_time: the replay clock of the sources from which the collections come, if they have one.
        is_read: whether transforms read the collections, and not only static side inputs.
    """

    elements: tuple[Any, ...] = ()
    kept: Mapping[str, Any] = attrs.field(factory=dict)
    processing_time: str | None = None
    is_read: bool = True

    def describe(self) -> str:
        """Return that it was computed ahead."""
        return "computed ahead"

    def row_count(self) -> int:
        """Return the number of elements of the collections."""
        return sum(map(len, self.kept.values()))


@attrs.frozen(kw_only=True)
class KeptSink(CollectSink):
    """The end of a collection that a pass computes, and from where it is read later.

    Attributes:
        number: its index among those of the pass.
        is_side: whether it is a static side input.
        is_read: whether transforms read it, in a later pass or in the pipeline.
    """

    number: int
    is_side: bool
    is_read: bool


@attrs.frozen(eq=False)
class CutAhead:
    """A plan, divided into what runs ahead and the rest.

    Attributes:
        passes: what runs ahead, in order: the transforms of each pass, with the sources that they read. What an earlier
            pass has computed is a `KeptSource`, and each collection that is needed later ends in a `KeptSink`.
        rest: what runs after it; what the passes have computed is a `KeptSource`.
        labels: the labels of the nodes that run ahead and not in the rest.
    """

    passes: tuple[Plan, ...]
    rest: Plan
    labels: frozenset[str]


def static_side_inputs(plan: Plan, changing: Collection[SideInput]) -> list[SideInput]:
    """Return the static side inputs of a plan, in the order of the plan.

    Args:
        plan: the plan.
        changing: the side inputs that change while the plan runs; the others are static.
    """
    sides = [side for node in plan.nodes if isinstance(node, ParDo) for side in node.side_inputs]
    return [side for side in sides if side not in changing]


def cut_ahead(plan: Plan, changing: Collection[SideInput]) -> CutAhead:
    """Divide a plan into what its static side inputs need and the rest.

    Args:
        plan: the plan.
        changing: the side inputs that change while the plan runs; the others are static.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> known = p | "known" >> dm.Create(["ua"]) | "upper" >> dm.Map(str.upper)
        >>> _ = p | "codes" >> dm.Create(["UA"]) | dm.Filter(lambda code, known: code in known, dm.AsIter(known))
        >>> cut = cut_ahead(p.plan(), ())
        >>> [[node.label for node in part.nodes[:-1]] for part in cut.passes]
        [['known', 'upper']]
        >>> sorted(cut.labels), [node.label for node in cut.rest.nodes]
        (['known', 'upper'], ['upper', 'codes', 'Filter'])
    """
    static = {side.ref for side in static_side_inputs(plan, changing)}
    if not static:
        return CutAhead((), plan, frozenset())
    levels = _levels(plan, changing)
    needed = _upstream(plan, {ref.label for ref in static})
    transforms = {label for label in needed if not isinstance(plan[label], Read)}
    in_passes = [
        {label for label in transforms.union(ref.label for ref in static) if levels[label] == level}
        for level in range(1 + max(levels[ref.label] for ref in static))
    ]
    in_rest = {node.label for node in plan.nodes if node.label not in needed}
    read_later = {
        ref
        for labels in (*in_passes, in_rest)
        for ref in _read_by(plan, labels, changing)
        if ref.label in transforms - labels
    }
    passes = []
    for labels in in_passes:
        part = _part(plan, labels, changing)
        made = [ref for node in part.nodes if node.label in labels for ref in outputs_of(node)]
        needed_later = [ref for ref in made if ref in static or ref in read_later]
        sinks = [
            Write(
                label=f"{ref.label}\0{ref.tag}",  # no label has this character
                input=ref,
                sink=KeptSink(number=number, is_side=ref in static, is_read=ref in read_later),
            )
            for number, ref in enumerate(needed_later)
        ]
        passes.append(attrs.evolve(part, nodes=(*part.nodes, *sinks)))
    rest = _part(plan, in_rest, changing)
    read_again = {node.label for node in rest.nodes if isinstance(node, Read) and not is_kept(node)}
    return CutAhead(tuple(passes), rest, needed - read_again)


def with_kept(plan: Plan, kept: Mapping[Ref, Any], *, replays: bool = True) -> Plan:
    """Return a plan whose kept sources hold their collections.

    Args:
        plan: the plan.
        kept: the collections that the passes have computed so far.
        replays: whether those with a replay clock follow it.
    """

    def filled(node: Node) -> Node:
        if not isinstance(node, Read) or not isinstance(node.source, KeptSource):
            return node
        of_tags = {ref.tag: kept[ref] for ref in outputs_of(node) if ref in kept}
        clock = node.source.processing_time if replays else None
        return attrs.evolve(node, source=attrs.evolve(node.source, kept=of_tags, processing_time=clock))

    return plan.changed(filled)


def _levels(plan: Plan, changing: Collection[SideInput]) -> dict[str, int]:
    """Return for each node how many passes run before it: one more than for each of its static side inputs."""
    levels: dict[str, int] = {}
    for node in plan.nodes:
        before = [levels[ref.label] for ref in node.inputs]
        if isinstance(node, ParDo):
            before += [1 + levels[side.ref.label] for side in node.side_inputs if side not in changing]
        levels[node.label] = max(before, default=0)
    return levels


def _upstream(plan: Plan, labels: set[str]) -> frozenset[str]:
    """Return the labels of these nodes and of all on which they depend."""
    needed = set(labels)
    for node in reversed(plan.nodes):
        if node.label in needed:
            needed.update(ref.label for ref in node.inputs)
    return frozenset(needed)


def _read_by(plan: Plan, labels: Collection[str], changing: Collection[SideInput]) -> set[Ref]:
    """Return the collections that nodes read while they run: all inputs but static side inputs."""
    refs: set[Ref] = set()
    for node in plan.nodes:
        if node.label in labels:
            refs.update(main_inputs(node))
            if isinstance(node, ParDo):
                refs.update(side.ref for side in node.side_inputs if side in changing)
    return refs


def _part(plan: Plan, labels: Collection[str], changing: Collection[SideInput]) -> Plan:
    """Return the part of a plan with these nodes and their sources; other inputs become kept sources."""
    reading = {ref.label for ref in _read_by(plan, labels, changing)}
    used = {ref for node in plan.nodes if node.label in labels for ref in node.inputs}
    retracting = retracted_collections(plan)
    nodes: list[Node] = []
    for node in plan.nodes:
        refs = [ref for ref in outputs_of(node) if ref in used]
        if node.label in labels or (refs and node.label in reading and isinstance(node, Read)):
            nodes.append(node)
        elif refs:
            is_read = node.label in reading
            clock = _replay_clock(plan, node.label) if is_read else None
            kept = Read(
                label=node.label,
                source=KeptSource(processing_time=clock, is_read=is_read),
                tags=tuple(ref.tag for ref in refs if ref.tag != MAIN),
                retracting={ref.tag: retracting[ref] for ref in refs if ref in retracting},
            )
            nodes.append(kept)
    return attrs.evolve(plan, nodes=tuple(nodes))


def _replay_clock(plan: Plan, label: str) -> str | None:
    """Return the replay clock of the sources of a node; a checked plan has no others beside it."""
    needed: Iterable[Node] = map(plan.__getitem__, _upstream(plan, {label}))
    clocks = {node.source.processing_time for node in needed if isinstance(node, Read)} - {None}
    return min(clocks, default=None)  # type: ignore[type-var] # without `None`


def is_kept(node: Node) -> bool:
    """Return whether a node stands for a transform that an earlier pass has run."""
    return isinstance(node, Read) and isinstance(node.source, KeptSource)
