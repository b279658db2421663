"""A pipeline of Beam's as a plan: each of its parts is one node or a few."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from apache_beam import DoFn as BeamsDoFn
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import util
from apache_beam.typehints import typecheck
from apache_beam.utils import proto_utils

from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.plan.logical.graph import Plan
from dataflow_model.plan.logical.nodes import (
    MAIN,
    Flatten,
    GroupByKeyAndWindow,
    Node,
    ParDo,
    Read,
    Ref,
    Reshuffle,
    SideInput,
)
from dataflow_model.runners.beam import phases
from dataflow_model.runners.beam.functions import kernels
from dataflow_model.runners.beam.functions.harness import (
    Counting,
    StageSpec,
    function_of,
    is_urn_of_functions,
    key_coder,
)
from dataflow_model.runners.beam.functions.kernels import COMBINE_EARLY, COMBINE_ELEMENTS, combiner_of, reduced
from dataflow_model.runners.beam.functions.placed import PlaceFn
from dataflow_model.runners.beam.functions.registered import Registered
from dataflow_model.runners.beam.functions.splittable import KeyOfElement, SplittableStageFn
from dataflow_model.runners.beam.functions.stages import SIDE, BundledStageFn, StageFn, StageRun
from dataflow_model.runners.beam.functions.stateful import StatefulStageFn
from dataflow_model.runners.beam.own.parts import part_of
from dataflow_model.runners.beam.phases import Fused, Step, parts_of
from dataflow_model.runners.beam.scripts import adds_placed, scripts_of
from dataflow_model.runners.beam.strategies import strategy_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy


def lower(pipeline: Any, run: StageRun, *, is_drain: bool = False) -> Plan:
    """Return the plan of a pipeline.

    The labels are Beam's names of the transforms, since state is kept under them: a stage has that of its first one.

    Args:
        pipeline: Beam's description of it, which has been checked.
        run: the run.
        is_drain: whether restrictions of splittable functions are truncated.

    Raises:
        UnsupportedOnRunner: for a part that cannot be run, with its label and a way out.
    """
    lowering = lower_part(pipeline, run, is_drain=is_drain)
    return Plan(lowering.nodes, lowering.strategies)


@attrs.frozen
class LoweredPart:
    """A pipeline of Beam's that may read collections of a plan.

    Attributes:
        nodes: its nodes.
        strategies: the strategies of their outputs.
    """

    nodes: tuple[Node, ...]
    strategies: Mapping[Ref, WindowingStrategy]


def lower_part(pipeline: Any, run: StageRun, *, is_drain: bool = False) -> LoweredPart:
    """Return the nodes of a pipeline that may read other collections of a plan, through parts of ours; see `lower`."""
    return _Lowering(pipeline, run, is_drain=is_drain).lowered()


class _Keys:
    """A function on keys, with Beam's coder: two keys are equal if their encodings are.

    Args:
        coder: the coder.
        run: the id of the run.
    """

    def __init__(self, coder: Any, run: str) -> None:
        self._registered = Registered(run)
        self._coder = coder
        self._fn: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_registered": self._registered, "_coder": self._coder, "_fn": None}


class EncodeKey(_Keys):
    """Encodes the key of a pair."""

    def __call__(self, pair: Any) -> tuple[bytes, Any]:
        """Return the pair with an encoded key."""
        if self._fn is None:
            self._fn = self._coder.get_impl().encode
        key, value = pair
        return self._fn(key), value


class DecodeKey(_Keys):
    """Decodes the key of a pair."""

    def __call__(self, pair: tuple[bytes, Any]) -> tuple[Any, Any]:
        """Return the pair with its key."""
        if self._fn is None:
            self._fn = self._coder.get_impl().decode
        return self._fn(pair[0]), pair[1]


class BeamCombineFn(CombineFn[Any, Any, Any]):
    """A combiner of Beam's or of one of its users.

    Args:
        fn: the combiner.
        label: the label of the grouping, under which what the combiner counts is found; `None` if that is not counted.
    """

    def __init__(self, fn: Any, label: str | None) -> None:
        self.fn, self.label = fn, label
        self._counting: Counting | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_counting": None}

    def title(self) -> str:
        """Return what explanations call it."""
        return type(self.fn).__name__

    def setup(self) -> None:
        """Set it up."""
        self._counted(self.fn.setup)

    def create_accumulator(self) -> Any:
        """Return an accumulator without inputs."""
        return self._counted(self.fn.create_accumulator)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Return the accumulator with an input."""
        return self._counted(self.fn.add_input, accumulator, element)

    def merge_accumulators(self, accumulators: Any) -> Any:
        """Return one accumulator in place of several."""
        return self._counted(self.fn.merge_accumulators, accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        """Return the output."""
        return self._counted(self.fn.extract_output, accumulator)

    def teardown(self) -> None:
        """Tear it down."""
        self.fn.teardown()

    def _counted(self, method: Any, *arguments: Any) -> Any:
        """Call a method, and count what it counts."""
        if self.label is None:
            return method(*arguments)
        if self._counting is None:
            self._counting = Counting(self.label)
        self._counting.begin()
        result = method(*arguments)
        self._counting.end()
        return result


class _Lowering:
    def __init__(self, pipeline: Any, run: StageRun, *, is_drain: bool) -> None:
        self._parts = parts_of(pipeline, is_drain=is_drain)
        self._components = self._parts.components
        self._context = pipeline_context.PipelineContext(self._components)
        self._run = run
        self._nodes: list[Node] = []
        self._refs: dict[str, Ref] = {}
        """The output that is each of Beam's collections."""
        self._strategies: dict[Ref, WindowingStrategy] = {}
        self._known_strategies: dict[str, WindowingStrategy] = {}

    def lowered(self) -> LoweredPart:
        for part in self._parts.parts:
            if isinstance(part, Fused):
                self._stage(part)
            else:
                self._step(part)
        return LoweredPart(tuple(self._nodes), self._strategies)

    def _step(self, step: Step) -> None:
        transform = step.transform
        label = transform.unique_name
        [output] = list(transform.outputs.values())[:1] or [""]
        match transform.spec.urn:
            case phases.OWN_PART:
                self._own(label, transform)
            case phases.IMPULSE:
                self._add(Read(label=label, source=ElementsSource((b"",))), {MAIN: output})
            case phases.NOTHING:
                self._add(Read(label=label, source=ElementsSource(())), {MAIN: output})
            case phases.TEST_STREAM:
                self._scripts(label, transform)
            case phases.FLATTEN:
                self._flatten(label, transform, output)
            case phases.RESHUFFLE:
                [pcoll] = transform.inputs.values()
                self._add(Reshuffle(label=label, input=self._refs[pcoll]), {MAIN: output})
            case phases.GROUP_BY_KEY | phases.COMBINE | kernels.COMBINE_ELEMENTS | kernels.COMBINE_RESULTS:
                self._group(label, transform, output)
            case urn:
                raise AssertionError(f"{label!r} is a {urn}, which is no node of a plan")

    def _own(self, label: str, transform: Any) -> None:
        """Add what a part of ours adds."""
        refs = {tag: self._refs[pcoll] for tag, pcoll in transform.inputs.items()}
        added = part_of(transform).added(label, {tag: (ref, self._strategies[ref]) for tag, ref in refs.items()})
        self._nodes += added.nodes
        self._strategies.update(added.strategies)
        self._refs.update({transform.outputs[tag]: ref for tag, ref in added.outputs.items()})

    def _scripts(self, label: str, transform: Any) -> None:
        """Add a source for each output of a `TestStream`, since each has a watermark of its own."""
        scripts = scripts_of(transform, self._context)
        for tag, script in sorted(scripts.items()):
            own_label = label if len(scripts) == 1 else f"{label}/{tag}"
            outputs = {MAIN: transform.outputs[tag]}
            self._add(Read(label=own_label, source=script), outputs)
            if adds_placed(script):
                placing = ParDo(label=f"{own_label}/in windows", input=Ref(own_label), fn=PlaceFn())
                self._add(placing, outputs)

    def _flatten(self, label: str, transform: Any, output: str) -> None:
        refs: list[Ref] = []
        for number, (_, pcoll) in enumerate(sorted(transform.inputs.items())):
            ref = self._refs[pcoll]
            if ref in refs:  # a node reads a collection only once
                again = ParDo(label=f"{label}/again {number}", input=ref, fn=MapFn(_same))
                self._nodes.append(again)
                self._strategies[Ref(again.label)] = self._strategies[ref]
                ref = Ref(again.label)
            refs.append(ref)
        self._add(Flatten(label=label, inputs=tuple(refs)), {MAIN: output})

    def _group(self, label: str, transform: Any, output: str) -> None:
        [pcoll] = transform.inputs.values()
        strategy = self._strategy(pcoll, label)
        node = GroupByKeyAndWindow(label=label, input=self._encoded(label, pcoll), strategy=strategy)
        if transform.spec.urn != phases.GROUP_BY_KEY:
            node = attrs.evolve(node, combine=self._combiner(transform))
        self._nodes.append(node)
        self._strategies[Ref(label)] = self._strategy(output, label)
        fn = MapFn(DecodeKey(self._key_coder(pcoll), self._run.id))  # not of the output, whose coder may be another
        decoded = ParDo(label=f"{label}/key decoded", input=Ref(label), fn=fn)
        self._add(decoded, {MAIN: output})

    def _combiner(self, transform: Any) -> CombineFn[Any, Any, Any]:
        fn = combiner_of(transform, self._context)
        if transform.spec.urn == phases.COMBINE:
            return BeamCombineFn(fn, transform.unique_name)
        ours = reduced(fn)
        assert ours is not None  # noqa: S101 - others keep Beam's combiner
        return ours.elements if transform.spec.urn == COMBINE_ELEMENTS else ours.results

    def _encoded(self, label: str, pcoll: str) -> Ref:
        """Return a collection of pairs with encoded keys, for a grouping or a stateful function."""
        return self._mapped(f"{label}/key encoded", pcoll, EncodeKey(self._key_coder(pcoll), self._run.id))

    def _keyed(self, label: str, pcoll: str) -> Ref:
        """Return a collection of elements with restrictions as pairs, for a splittable function."""
        coder = self._context.coders.get_by_id(self._components.pcollections[pcoll].coder_id)
        return self._mapped(f"{label}/keyed", pcoll, KeyOfElement(coder, self._run.id))

    def _mapped(self, label: str, pcoll: str, function: Any) -> Ref:
        """Return a collection after a function of each element."""
        node = ParDo(label=label, input=self._refs[pcoll], fn=MapFn(function))
        self._nodes.append(node)
        self._strategies[Ref(label)] = self._strategies[self._refs[pcoll]]
        return Ref(label)

    def _stage(self, fused: Fused) -> None:
        label = fused.label
        spec = StageSpec(label, self._parts.descriptor(fused), fused.input, fused.outputs, fused.sides, fused.stateful)
        sides = [SideInput(self._refs[self._side(fused, *side)], "iter") for side in fused.sides]
        by_argument = {f"{SIDE}{number}": side for number, side in enumerate(sides)}
        if fused.stateful is not None:
            lateness = int(self._strategy(fused.input, label).allowed_lateness)
            node = ParDo(
                label=label,
                input=self._encoded(label, fused.input),
                fn=StatefulStageFn(
                    spec, self._run, lateness, needs_clock=_needs_clock(fused.transforms[fused.stateful])
                ),
                kwargs=by_argument,
                tags=fused.outputs,
            )
        elif fused.is_resuming:
            node = ParDo(
                label=label,
                input=self._keyed(label, fused.input),
                fn=SplittableStageFn(spec, self._run),
                kwargs=by_argument,
                tags=fused.outputs,
            )
        else:
            kind = BundledStageFn if _works_on_bundles(list(fused.transforms.values())) else StageFn
            node = ParDo(
                label=label,
                input=self._refs[fused.input],
                fn=kind(spec, self._run),
                args=tuple(sides),
                tags=fused.outputs,
            )
        self._add(node, {pcoll: pcoll for pcoll in fused.outputs})

    @staticmethod
    def _side(fused: Fused, name: str, tag: str) -> str:
        return str(fused.transforms[name].inputs[tag])

    def _add(self, node: Node, outputs: dict[str, str]) -> None:
        """Add a node whose outputs are collections of Beam's, which are given by tag."""
        self._nodes.append(node)
        for tag, pcoll in outputs.items():
            ref = self._refs[pcoll] = Ref(node.label, tag)
            self._strategies[ref] = self._strategy(pcoll, node.label)

    def _strategy(self, pcoll: str, label: str) -> WindowingStrategy:
        name = self._components.pcollections[pcoll].windowing_strategy_id
        if name not in self._known_strategies:
            given = self._components.windowing_strategies[name]
            self._known_strategies[name] = strategy_of(given, self._context, label)
        return self._known_strategies[name]

    def _key_coder(self, pcoll: str) -> Any:
        return key_coder(self._context.coders.get_by_id(self._components.pcollections[pcoll].coder_id))


def _same(value: Any) -> Any:
    return value


def _needs_clock(transform: Any) -> bool:
    """Return whether a function has a timer in processing time without which it would emit something else.

    `GroupIntoBatches` and `BatchElements` emit all batches at the ends of windows; theirs only lets them do so before.
    """
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    domains = {timer.time_domain for timer in payload.timer_family_specs.values()}
    fn = function_of(payload)
    while isinstance(fn, typecheck.AbstractDoFnWrapper):  # which checks types while the pipeline runs
        fn = fn.dofn
    is_batching = type(fn).__module__ == util.__name__
    return beam_runner_api_pb2.TimeDomain.PROCESSING_TIME in domains and not is_batching


def _works_on_bundles(transforms: Sequence[Any]) -> bool:
    """Return whether a transform does something at the ends of bundles, or on batches."""
    return any(
        transform.spec.urn in {phases.PRECOMBINE, COMBINE_EARLY}
        or (is_urn_of_functions(transform.spec.urn) and _function_works_on_bundles(transform))
        for transform in transforms
    )


def _function_works_on_bundles(transform: Any) -> bool:
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    fn = function_of(payload)
    kind = type(fn)
    return bool(
        payload.requests_finalization
        or kind.start_bundle is not BeamsDoFn.start_bundle
        or kind.finish_bundle is not BeamsDoFn.finish_bundle
        or getattr(fn, "_process_batch_defined", False)
    )
