"""A pipeline, expanded and fused by Beam's own rules: the only module that imports Beam's translations."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.utils import proto_utils

from dataflow_model.runners.beam.functions.harness import function_of, is_urn_of_functions, never_ends
from dataflow_model.runners.beam.functions.kernels import COMBINE_EARLY, COMBINE_ELEMENTS, COMBINE_RESULTS
from dataflow_model.runners.beam.own.parts import URN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

GROUP_BY_KEY: Final[str] = common_urns.primitives.GROUP_BY_KEY.urn
PRECOMBINE: Final[str] = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn
FLATTEN: Final[str] = common_urns.primitives.FLATTEN.urn
IMPULSE: Final[str] = common_urns.primitives.IMPULSE.urn
TEST_STREAM: Final[str] = common_urns.primitives.TEST_STREAM.urn
RESHUFFLE: Final[str] = common_urns.composites.RESHUFFLE.urn
ASSIGN_WINDOWS: Final[str] = common_urns.primitives.ASSIGN_WINDOWS.urn
COMBINE: Final[str] = common_urns.composites.COMBINE_PER_KEY.urn
_PROCESS: Final[str] = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
NOTHING: Final = "dataflow_model:nothing:v1"
"""A `Flatten` without inputs."""
OWN_PART: Final = URN
_COMPARABLE: Final = frozenset({common_urns.coders.INTERVAL_WINDOW.urn, common_urns.coders.GLOBAL_WINDOW.urn})
"""The kinds of coders of windows that are equal if their encodings are."""
_COMBINED: Final = frozenset({COMBINE, COMBINE_ELEMENTS, COMBINE_RESULTS})
OURS: Final = frozenset({OWN_PART, NOTHING, GROUP_BY_KEY, FLATTEN, IMPULSE, TEST_STREAM, RESHUFFLE}) | _COMBINED
"""The kinds of transforms that are nodes of a plan; Beam's operations run the others."""


def expand_reshuffles(pipeline: Any) -> None:
    """Run what Beam makes of each `Reshuffle` in place of ours, in a pipeline given by Beam's description."""
    for transform in pipeline.components.transforms.values():
        if transform.spec.urn == RESHUFFLE and transform.subtransforms:
            transform.spec.urn = ""


@attrs.frozen
class Step:
    """A transform that is a node of a plan.

    Attributes:
        transform: Beam's description of it.
    """

    transform: Any


@attrs.frozen
class Fused:
    """Transforms that run one after the other on the elements of a bundle.

    Attributes:
        transforms: Beam's descriptions of them, by their unique names.
        input: the id of the collection that the first ones read.
        outputs: the ids of the collections that others read.
        sides: the side inputs, each by the name of a transform and a tag.
        stateful: the name of the transform with state or timers, which reads the input; `None` without any.
        is_resuming: whether the transform that reads the input is a splittable function that may never end.
    """

    transforms: Mapping[str, Any]
    input: str
    outputs: tuple[str, ...]
    sides: tuple[tuple[str, str], ...]
    stateful: str | None
    is_resuming: bool

    @property
    def label(self) -> str:
        """The name of its first transform."""
        return next(iter(self.transforms))


Part: TypeAlias = Step | Fused


@attrs.frozen
class Parts:
    """The parts of a pipeline, each after those that it reads.

    Attributes:
        parts: the transforms that are nodes, and what is fused between them.
        components: Beam's collections, coders, and so on, by their ids.
    """

    parts: tuple[Part, ...]
    components: Any

    def descriptor(self, fused: Fused) -> bytes:
        """Return a description of fused transforms, as Beam's workers get it."""
        read = {
            pcoll for each in fused.transforms.values() for pcoll in (*each.inputs.values(), *each.outputs.values())
        }
        components = self.components
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(
            id=fused.label,
            transforms=fused.transforms,
            pcollections={pcoll: components.pcollections[pcoll] for pcoll in read | {fused.input}},
            coders=components.coders,
            windowing_strategies=components.windowing_strategies,
            environments=components.environments,
        )
        described: bytes = descriptor.SerializeToString(deterministic=True)
        return described


def parts_of(pipeline: Any, *, is_drain: bool = False) -> Parts:
    """Return the parts of a pipeline.

    Args:
        pipeline: Beam's description of it.
        is_drain: whether restrictions of splittable functions are truncated.
    """
    phases = [
        translations.annotate_downstream_side_inputs,
        translations.annotate_stateful_dofns_as_roots,
        _side_inputs_as_roots,
        _flattens_of_nothing,
        translations.fix_side_input_pcoll_coders,
        translations.pack_combiners,
        _lift_combiners,
        _expand_sdf,
        translations.fix_flatten_coders,
        translations.greedily_fuse,
        translations.read_to_impulse,
        translations.extract_impulse_stages,
        translations.remove_data_plane_ops,
    ]
    packable = OURS - {COMBINE}  # several combiners of one input become one, unless the runner has its own
    context, stages = translations.create_and_optimize_stages(pipeline, phases, packable, is_drain=is_drain)
    readers: dict[str, set[int]] = defaultdict(set)
    for number, stage in enumerate(stages):
        for transform in stage.transforms:
            for pcoll in transform.inputs.values():
                readers[pcoll].add(number)
    parts = [_part(stage.transforms, number, readers) for number, stage in enumerate(stages)]
    return Parts(tuple(_in_order(parts)), context.components)


def side_inputs_of(transform: Any) -> list[str]:
    """Return the tags of the side inputs of a transform, in the order in which it reads them."""
    if not is_urn_of_functions(transform.spec.urn):
        return []
    return sorted(_pardo(transform).side_inputs)


def _pardo(transform: Any) -> Any:
    return proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)


def _side_inputs_as_roots(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Begin a stage with each function that has side inputs: elements wait for the side window of their own window."""
    del context
    for stage in stages:
        if any(side_inputs_of(transform) for transform in stage.transforms):
            stage.forced_root = True
        yield stage


def _flattens_of_nothing(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Keep a `Flatten` without inputs from being fused with what reads it, which would then have no input."""
    del context
    for stage in stages:
        for transform in stage.transforms:
            if transform.spec.urn == FLATTEN and not transform.inputs:
                transform.spec.urn = NOTHING
        yield stage


def _expand_sdf(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Expand splittable functions; Beam gives the reshuffle of their restrictions their side inputs too."""
    expanded = list(translations.expand_sdf(stages, context))
    split = {
        pcoll
        for stage in expanded
        for transform in stage.transforms
        if transform.spec.urn == common_urns.sdf_components.SPLIT_AND_SIZE_RESTRICTIONS.urn
        for pcoll in transform.outputs.values()
    }
    for stage in expanded:
        [transform] = stage.transforms
        if transform.spec.urn == RESHUFFLE and not split.isdisjoint(transform.inputs.values()):
            for tag in [tag for tag, pcoll in transform.inputs.items() if pcoll not in split]:
                del transform.inputs[tag]
    return iter(expanded)


def _lift_combiners(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Combine before a grouping where its windows do not merge and its panes are at the ends of their windows.

    A combined element is at the end of its window, which is not where an element of a session would be. What combines
    before a grouping looks windows up, and those of a user's class may be equal although their encodings differ, or may
    not be comparable. In the global window, Beam's does not look at windows, in which a `TestStream` may add elements.
    """
    components = context.components
    context.runner_only_urns |= _COMBINED
    stages = list(stages)
    has_script = any(transform.spec.urn == TEST_STREAM for stage in stages for transform in stage.transforms)
    for stage in stages:
        [transform] = stage.transforms
        if transform.spec.urn in {COMBINE, COMBINE_ELEMENTS}:
            [pcoll] = transform.inputs.values()
            strategy = components.windowing_strategies[components.pcollections[pcoll].windowing_strategy_id]
            does_not_merge = strategy.merge_status == beam_runner_api_pb2.MergeStatus.NON_MERGING
            is_comparable = components.coders[strategy.window_coder_id].spec.urn in _COMPARABLE
            at_ends = strategy.output_time == beam_runner_api_pb2.OutputTime.END_OF_WINDOW
            is_global = strategy.window_fn.urn == common_urns.global_windows.urn
            if does_not_merge and is_comparable and at_ends and not (is_global and has_script):
                yield from _lifted(stage, context, keeps_beams=is_global)
                continue
        yield stage


def _lifted(stage: Any, context: Any, *, keeps_beams: bool) -> list[Any]:
    """Return the stages of a combiner that combines before the grouping, if the trigger does not see each element.

    Args:
        stage: the combiner.
        context: Beam's context.
        keeps_beams: whether Beam's operations combine it in any case: in the global window, they are the faster ones.
    """
    [transform] = stage.transforms
    kind, transform.spec.urn = transform.spec.urn, COMBINE
    stages = list(translations.lift_combiners([stage], context))
    transform.spec.urn = kind
    [early] = stages[0].transforms
    is_early = early.spec.urn == PRECOMBINE
    if kind == COMBINE or (is_early and keeps_beams):
        return stages
    if not is_early:
        return [stage]
    early.spec.urn = COMBINE_EARLY
    [grouping] = stages[1].transforms
    grouping.spec.CopyFrom(transform.spec)
    grouping.spec.urn = COMBINE_RESULTS
    grouping.outputs.clear()
    grouping.outputs.update(transform.outputs)
    return stages[:2]


def _part(transforms: list[Any], number: int, readers: Mapping[str, set[int]]) -> Part:
    if len(transforms) == 1 and transforms[0].spec.urn in OURS:
        return Step(transforms[0])
    by_name = {transform.unique_name: transform for transform in transforms}
    sides = tuple((name, tag) for name, transform in by_name.items() for tag in side_inputs_of(transform))
    made = [pcoll for transform in transforms for pcoll in transform.outputs.values()]
    [pcoll] = {
        pcoll
        for name, transform in by_name.items()
        for tag, pcoll in transform.inputs.items()
        if pcoll not in made and (name, tag) not in sides
    }
    outputs = [pcoll for pcoll in dict.fromkeys(made) if readers[pcoll] - {number}]
    stateful = [name for name, transform in by_name.items() if _has_state(transform)]
    is_resuming = any(_may_never_end(transform) for transform in transforms if pcoll in transform.inputs.values())
    return Fused(by_name, pcoll, tuple(outputs), sides, stateful[0] if stateful else None, is_resuming)


def _may_never_end(transform: Any) -> bool:
    return transform.spec.urn == _PROCESS and never_ends(function_of(_pardo(transform)))


def _has_state(transform: Any) -> bool:
    if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
        return False
    payload = _pardo(transform)
    return bool(payload.state_specs or payload.timer_family_specs)


def _inputs(part: Part) -> set[str]:
    if isinstance(part, Step):
        return set(part.transform.inputs.values())
    return {part.input, *(part.transforms[name].inputs[tag] for name, tag in part.sides)}


def _name(part: Part) -> str:
    return str(part.transform.unique_name) if isinstance(part, Step) else part.label


def _in_order(parts: list[Part]) -> Iterator[Part]:
    """Yield each part after those that it reads; the order is the same in every process."""
    left = sorted(parts, key=_name)
    made = {pcoll for part in left for pcoll in _made(part)}
    while left:
        ready = [part for part in left if made.isdisjoint(_inputs(part))]
        yield from ready
        made.difference_update(*map(_made, ready))
        left = [part for part in left if part not in ready]


def _made(part: Part) -> list[str]:
    transforms = [part.transform] if isinstance(part, Step) else list(part.transforms.values())
    return [pcoll for transform in transforms for pcoll in transform.outputs.values()]
