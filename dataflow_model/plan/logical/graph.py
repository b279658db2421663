"""A plan: the nodes of one pipeline in topological order, with the strategy of each collection."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import PlanError
from dataflow_model.plan.functions.resuming import AwaitsCommit
from dataflow_model.plan.functions.windowed import ForeignFn
from dataflow_model.plan.logical.nodes import MAIN, Deduplicate, GroupByKeyAndWindow, Node, ParDo, Read, Ref
from dataflow_model.plan.logical.strategy import DEFAULT_STRATEGY, LateData, WindowingStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@attrs.frozen(eq=False)
class Plan:
    """The plan of a pipeline, which a runner runs.

    Attributes:
        nodes: the nodes, each after its inputs.
        strategies: the windowing strategy of each collection.
        late_data: the pipeline's default for elements whose window has expired.
    """

    nodes: tuple[Node, ...]
    strategies: Mapping[Ref, WindowingStrategy] = attrs.field(factory=dict)
    late_data: LateData = LateData.DROP

    def __attrs_post_init__(self) -> None:
        """Check that every input exists."""
        known: set[Ref] = set()
        for node in self.nodes:
            for ref in node.inputs:
                if ref not in known:
                    raise PlanError(
                        f"{node.label!r} reads {ref!r}, which no earlier node produces",
                        hint="build the plan with dm.Pipeline, which adds each transform after its inputs",
                    )
            known.update(outputs_of(node))

    def __getitem__(self, label: str) -> Node:
        """Return the node with this full label."""
        node = self._by_label.get(label)
        if node is not None:
            return node
        raise PlanError(
            f"there is no transform {label!r} among {[node.label for node in self.nodes]}",
            hint="use one of these labels; labels inside a composite begin with its own: 'outer/inner'",
        )

    def strategy(self, ref: Ref) -> WindowingStrategy:
        """Return the windowing strategy of a collection."""
        return self.strategies.get(ref, DEFAULT_STRATEGY)

    def changed(self, change: Callable[[Node], Node]) -> Plan:
        """Return the plan with other nodes of the same labels: `change` is called with each node, in order."""
        return attrs.evolve(self, nodes=tuple(map(change, self.nodes)))

    @property
    def foreign_modules(self) -> tuple[str, ...]:
        """The modules of functions of other SDKs, which a process imports before it forks those that run them."""
        functions = [node.fn for node in self.nodes if isinstance(node, ParDo)]
        return tuple(sorted({name for fn in functions if isinstance(fn, ForeignFn) for name in fn.modules}))

    def late_data_of(self, strategy: WindowingStrategy) -> LateData:
        """Return what happens to elements whose window has expired: by the strategy, else by the pipeline's default."""
        return self.late_data if strategy.late_data is None else strategy.late_data

    def consumers(self, ref: Ref) -> tuple[Node, ...]:
        """Return the nodes that read a collection, in order."""
        return tuple(self._consumers.get(ref, ()))

    @functools.cached_property
    def _by_label(self) -> dict[str, Node]:
        return {node.label: node for node in reversed(self.nodes)}

    @functools.cached_property
    def _consumers(self) -> dict[Ref, list[Node]]:
        consumers: dict[Ref, list[Node]] = {}
        for node in self.nodes:
            for ref in dict.fromkeys(node.inputs):
                consumers.setdefault(ref, []).append(node)
        return consumers


def take_uncommitted(nodes: Iterable[Node]) -> list[Callable[[], None]]:
    """Return what the functions of nodes want to be called once all that they have put out is committed; forget it."""
    fns = [node.fn for node in nodes if isinstance(node, ParDo) and isinstance(node.fn, AwaitsCommit)]
    return [call for fn in fns if (call := fn.take_uncommitted()) is not None]


def main_inputs(node: Node) -> tuple[Ref, ...]:
    """Return the inputs of a node without its side inputs."""
    return (node.input,) if isinstance(node, ParDo) else node.inputs


def outputs_of(node: Node) -> tuple[Ref, ...]:
    """Return the collections that a node produces."""
    tags = [MAIN]
    if isinstance(node, ParDo | Read):
        tags.extend(node.tags)
    if isinstance(node, ParDo | Read) and node.dead_letters is not None:
        tags.append(node.dead_letters)
    dropped = dropped_of(node)
    return tuple(Ref(node.label, tag) for tag in tags) + (() if dropped is None else (dropped,))


def dropped_of(node: Node) -> Ref | None:
    """Return the collection of the elements that a node drops; `None` if they are only counted."""
    if isinstance(node, GroupByKeyAndWindow | Deduplicate | ParDo) and node.dropped is not None:
        return Ref(node.label, node.dropped)
    return None


def without_dropped(node: Node) -> tuple[Ref, ...]:
    """Return the collections that a node makes of the elements that it takes."""
    dropped = dropped_of(node)
    return tuple(ref for ref in outputs_of(node) if ref != dropped)
