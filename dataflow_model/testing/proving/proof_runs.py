"""Run a user's pipeline for a proof, and record the input and output of each of its groupings."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from dataflow_model.errors import InvalidType
from dataflow_model.io import Collect
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.functions.combine import CombineFn, WrappingFn
from dataflow_model.plan.functions.dofn import SplitFn
from dataflow_model.plan.logical.graph import main_inputs
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Ref, Write
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.strategy import AccumulationMode, LateData
from dataflow_model.transforms import PCollection, Pipeline
from dataflow_model.transforms.grouping.associative import AssociativeFn
from dataflow_model.triggers import Never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.testing.streams import TestStream

_RESULT = "what is compared"
_PROBE = "discarding, for the proof"
_DROPPED = "dropped"
_SPLITS = "possible_session_splits"


class _Finished(Protocol):
    """The part of a run's result that a proof uses."""

    def wait_until_finish(self, timeout: float | None = None) -> Any: ...
    def collected(self, label: str) -> list[Record]: ...
    def metrics(self) -> Mapping[str, Mapping[str, Any]]: ...


class Runs(Protocol):
    """The part of a runner that a proof uses."""

    def run(self, plan: Plan, *, until: str | None = None) -> _Finished:
        """Start the plan."""
        ...


@attrs.frozen(eq=False)
class Trace:
    """The value of one discarding pane of a probe: the accumulator and its elements."""

    accumulator: Any
    elements: list[Any]


class _Tracing(WrappingFn[Any, Any, Any]):
    """A combiner whose output is its accumulator and its elements."""

    def __init__(self, combine: CombineFn[Any, Any, Any]) -> None:
        self._combine = combine

    def wrapped(self) -> tuple[CombineFn[Any, Any, Any], ...]:
        return (self._combine,)

    def create_accumulator(self) -> Any:
        return self._combine.create_accumulator(), []

    def add_input(self, accumulator: Any, element: Any) -> Any:
        inner, elements = accumulator
        copied = copy.deepcopy(element)
        return self._combine.add_input(inner, element), [*elements, copied]

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        pairs = list(accumulators)
        merged = self._combine.merge_accumulators([inner for inner, _ in pairs])
        return merged, [element for _, elements in pairs for element in elements]

    def extract_output(self, accumulator: Any) -> Trace:
        inner, elements = accumulator
        return Trace(copy.deepcopy(inner), list(elements))


class _ReducingEarly(AssociativeFn):
    """A function over values as a combiner that calls it for two values already."""

    buffered: ClassVar[int] = 2


@attrs.frozen(eq=False)
class Observed:
    """The recorded output of a run.

    Attributes:
        result: the collection to compare.
        panes: the output of each grouping.
        inputs: the input of each probed grouping, one record for each element and window.
        traces: what each probed grouping would have emitted in discarding mode, as `Trace`s.
        lost: what each probed grouping would have dropped in discarding mode, as `Dropped` records.
        counters: the counters of each transform.
    """

    result: list[Record]
    panes: dict[str, list[Record]]
    inputs: dict[str, list[Record]]
    traces: dict[str, list[Record]]
    lost: dict[str, list[Record]]
    counters: Mapping[str, Mapping[str, Any]]

    def dropped(self, label: str) -> int:
        """Return the number of elements that a grouping or its probe has dropped."""
        counts = self.counters.get(label, {})
        return _dropped(counts)

    def dropped_anything(self) -> bool:
        """Return whether any transform has dropped an element, such as a stateful one behind its watermark."""
        return any(map(_dropped, self.counters.values()))

    def may_have_split_sessions(self) -> bool:
        """Return whether a late element may have belonged to a window that had expired, although its own had not."""
        return any(counts.get(_SPLITS, 0) for counts in self.counters.values())


def _dropped(counts: Mapping[str, Any]) -> int:
    dropped: int = sum(counts.get(f"dropped_because_{why}", 0) for why in ("late", "closed"))
    return dropped


@attrs.frozen(eq=False)
class Subject:
    """The pipeline to check: a function from the elements to the collection to compare."""

    pipeline: Callable[[Any], Any]

    def plan(self, script: TestStream) -> tuple[Plan, Ref]:
        """Return the plan over a script, and the collection to compare.

        Raises:
            InvalidType: if the function does not return a collection.
            PlanError: for a plan that cannot run.
        """
        pipeline = Pipeline()
        result = self.pipeline(pipeline | "elements" >> script)
        if not isinstance(result, PCollection):
            raise InvalidType(
                f"the pipeline must return the collection to compare, got {result!r}",
                hint="use prove(lambda elements: elements | …, data)",
            )
        _ = result | _RESULT >> Collect()
        plan = pipeline.plan()
        check(plan)
        return plan, result.ref

    def run(self, script: TestStream, runner: Runs, *, probed: bool = False) -> Observed:
        """Run the pipeline; `probed` also records the input of its groupings.

        Functions over values reduce them early here, but not in `run_to_the_end`, which has the expected results.
        """
        plan = reducing_early(self.plan(script)[0])
        return _run(_with_probes(plan) if probed else with_panes(plan), runner)

    def reopens(self, script: TestStream, runner: Runs) -> bool:
        """Return whether an expired window is reopened for late elements: where `"drop"` would drop elements."""
        plan = reducing_early(self.plan(script)[0])
        dropping = [_dropping_late(node) for node in plan.nodes]
        if all(node is before for node, before in zip(dropping, plan.nodes, strict=True)):
            return False
        return _run(with_panes(attrs.evolve(plan, nodes=tuple(dropping))), runner).dropped_anything()

    def run_to_the_end(self, script: TestStream, runner: Runs) -> Observed:
        """Run the pipeline on all data at once, with each grouping emitting only when its windows expire."""
        plan, _ = self.plan(script)
        return _run(with_panes(firing_once(plan)), runner)


def groupings_of(plan: Plan) -> list[GroupByKeyAndWindow]:
    """Return a plan's groupings in order, but for those of the parts of hot keys.

    An element's part follows from its position in its source, so it may be another one in other bundles, with the same
    total.
    """
    return [node for node in plan.nodes if isinstance(node, GroupByKeyAndWindow) and not _is_of_parts(plan, node)]


def _is_of_parts(plan: Plan, node: GroupByKeyAndWindow) -> bool:
    source = plan[node.input.label]
    return isinstance(source, ParDo) and isinstance(source.fn, SplitFn)


def nearest_groupings(plan: Plan, ref: Ref) -> list[GroupByKeyAndWindow]:
    """Return the groupings from which only element-wise transforms lead to a collection."""
    node = plan[ref.label]
    if isinstance(node, GroupByKeyAndWindow):
        return [node]
    groupings = [grouping for source in main_inputs(node) for grouping in nearest_groupings(plan, source)]
    return list({grouping.label: grouping for grouping in groupings}.values())


def with_panes(plan: Plan) -> Plan:
    """Return the plan with a sink for the output of each grouping."""
    probes = [_probe(f"{node.label}/panes", Ref(node.label)) for node in groupings_of(plan)]
    return attrs.evolve(plan, nodes=(*plan.nodes, *probes))


def _with_probes(plan: Plan) -> Plan:
    """Return the plan with sinks for each grouping's input and output, and a discarding copy of each grouping."""
    retracted = retracted_collections(plan)
    added: list[Any] = []
    for node in groupings_of(plan):
        if node.input in retracted:
            continue  # retracted elements are in no pane
        strategy = attrs.evolve(node.strategy, accumulation_mode=AccumulationMode.CLEAR_ALWAYS, retracting=False)
        label = f"{node.label}/{_PROBE}"
        twin = GroupByKeyAndWindow(
            label=label, input=node.input, strategy=strategy, combine=_Tracing(node.combine), dropped=_DROPPED
        )
        lost = _probe(f"{label}/{_DROPPED}", Ref(label, _DROPPED))
        added += [twin, _probe(f"{node.label}/input", node.input), lost]
    return with_panes(attrs.evolve(plan, nodes=(*plan.nodes, *added)))


def firing_once(plan: Plan) -> Plan:
    """Return the plan in which every grouping emits one pane per window, with all elements."""
    nodes: list[Node] = []
    for node in plan.nodes:
        if isinstance(node, GroupByKeyAndWindow):
            strategy = attrs.evolve(
                node.strategy,
                trigger=Never(),
                accumulation_mode=AccumulationMode.ACCUMULATE_ALWAYS,
                retracting=False,
                may_lose_data=True,
            )
            nodes.append(attrs.evolve(node, strategy=strategy))
        else:
            nodes.append(node)
    return attrs.evolve(plan, nodes=tuple(nodes))


def reducing_early(plan: Plan) -> Plan:
    """Return the plan in which functions over values are called for two values already.

    A run calls them first for many values, so few elements would not show that a function is not associative.
    """
    nodes = [
        attrs.evolve(node, combine=_ReducingEarly(node.combine.fn))
        if isinstance(node, GroupByKeyAndWindow) and isinstance(node.combine, AssociativeFn)
        else node
        for node in plan.nodes
    ]
    return attrs.evolve(plan, nodes=tuple(nodes))


def _dropping_late(node: Node) -> Node:
    """Return a grouping that reopens windows as one that drops the elements instead; any other node as it is."""
    if not isinstance(node, GroupByKeyAndWindow) or node.strategy.late_data is not LateData.DUPLICATE_WINDOW:
        return node
    return attrs.evolve(node, strategy=attrs.evolve(node.strategy, late_data=LateData.DROP))


def _probe(label: str, ref: Ref) -> Write:
    return Write(label=label, input=ref, sink=CollectSink())


def _run(plan: Plan, runner: Runs) -> Observed:
    result = runner.run(plan, until="drained")
    result.wait_until_finish()
    labels = [node.label for node in groupings_of(plan)]
    probes = [label for label in labels if label.endswith(f"/{_PROBE}")]
    probed = [label.removesuffix(f"/{_PROBE}") for label in probes]
    return Observed(
        result.collected(_RESULT),
        {label: result.collected(f"{label}/panes") for label in labels if label not in probes},
        {label: result.collected(f"{label}/input") for label in probed},
        {label: result.collected(f"{label}/{_PROBE}/panes") for label in probed},
        {label: result.collected(f"{label}/{_PROBE}/{_DROPPED}") for label in probed},
        result.metrics(),
    )
