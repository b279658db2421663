"""What a pipeline of Beam's may need that cannot be run: rejected before anything runs."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import core, sideinputs
from apache_beam.utils import proto_utils

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.logical.graph import main_inputs
from dataflow_model.plan.logical.nodes import ParDo, Read
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.runners.beam.functions.harness import known_urns
from dataflow_model.runners.beam.functions.stages import OfStage
from dataflow_model.runners.beam.phases import OURS, OWN_PART

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan

_REQUIREMENTS: Final = common_urns.requirements
_SUPPORTED: Final = frozenset(
    {
        _REQUIREMENTS.REQUIRES_STATEFUL_PROCESSING.urn,
        _REQUIREMENTS.REQUIRES_BUNDLE_FINALIZATION.urn,
        _REQUIREMENTS.REQUIRES_SPLITTABLE_DOFN.urn,
    }
)
_FUNCTIONS: Final = frozenset({python_urns.PICKLED_DOFN_INFO, *core.StatelessDoFnInfo.REGISTERED_DOFNS})
"""The forms of functions in Python."""
_READ: Final[str] = common_urns.deprecated_primitives.READ.urn


def check(pipeline: Any, *, has_commits: bool) -> None:
    """Check that everything in a pipeline can be run.

    Args:
        pipeline: Beam's description of it.
        has_commits: whether functions learn when a bundle cannot be processed again.

    Raises:
        UnsupportedOnRunner: with the label of the transform, the reason and a way out.
    """
    transforms = pipeline.components.transforms
    for requirement in pipeline.requirements:
        if requirement not in _SUPPORTED:
            raise UnsupportedOnRunner(
                f"the pipeline needs {requirement}, which this runner does not support",
                hint="remove the transform that asks for it; no DoFn of Beam's Python SDK does",
            )
    for transform in transforms.values():
        _check_kind(transform)
        if transform.spec.urn == _READ:
            _check_read(transform)
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
            _check_sides(transform.unique_name, payload)
            _check_function(transform.unique_name, payload, has_commits=has_commits)


def has_unbounded_source(pipeline: Any) -> bool:
    """Return whether a pipeline, given Beam's description of it, reads a source of this package that has no end."""
    components = pipeline.components
    return any(
        components.pcollections[pcoll].is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED
        for transform in components.transforms.values()
        if transform.spec.urn == OWN_PART and not transform.inputs
        for pcoll in transform.outputs.values()
    )


def check_bounded(pipeline: Any, *, is_streaming: bool) -> None:
    """Check that a pipeline can be run as a batch job, which has no checkpoint.

    Args:
        pipeline: Beam's description of it.
        is_streaming: whether the option `--streaming` asks for a stream.

    Raises:
        UnsupportedOnRunner: with the label of a transform with an unbounded output.
    """
    components = pipeline.components
    unbounded = [
        transform.unique_name
        for transform in components.transforms.values()
        if not transform.subtransforms
        and any(
            components.pcollections[pcoll].is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED
            for pcoll in transform.outputs.values()
        )
    ]
    if unbounded or is_streaming:
        reason = f"{min(unbounded)!r} has an unbounded output" if unbounded else "--streaming asks for a stream"
        raise UnsupportedOnRunner(
            f"{reason}, and a stream on Spark needs a checkpoint, got none",
            hint="pass --dm_checkpoint=DIRECTORY, or SparkRunner(checkpoint=…): a directory of its own that the driver "
            "and the executors can reach",
        )


def check_sides_of_unending(plan: Plan) -> None:
    """Check that no function that may never end has a side input that changes.

    Args:
        plan: the plan of the run.

    Raises:
        UnsupportedOnRunner: with the label of such a function.
    """
    changing = changing_sides(plan)
    for node in plan.nodes:
        if isinstance(node, ParDo) and isinstance(node.fn, ResumingFn) and node.has_side_among(changing):
            raise UnsupportedOnRunner(
                f"{node.label!r} may never end, and has a side input that changes while the pipeline runs, "
                "which no runner supports together yet",
                hint="read the side input in a function of its own behind it, or make the side input bounded",
            )


def check_finalization(plan: Plan) -> None:
    """Check that functions that ask to be called when a bundle is committed run on shards, whose state says so.

    Args:
        plan: the plan of a stream on Spark.

    Raises:
        UnsupportedOnRunner: with the label of a function that runs in front of the first shuffle.
    """
    staged = cut_into_stages(plan, changing_sides(plan))
    keyed = {node.label for node in staged.keyed}
    in_front: set[str] = set(staged.ahead)
    for node in plan.nodes:
        inputs = {ref.label for ref in main_inputs(node)}
        if isinstance(node, Read) or (node.label not in keyed and not inputs.isdisjoint(in_front)):
            in_front.add(node.label)
        if isinstance(node, ParDo) and node.label in in_front and isinstance(node.fn, OfStage):
            for label in node.fn.finalized():
                raise UnsupportedOnRunner(
                    f"{label!r} asks to be called when a bundle is committed, but it runs where a stream on Spark "
                    "reads its input, and may run again elsewhere",
                    hint="put beam.Reshuffle() in front of it, or leave out the BundleFinalizerParam",
                )


def _check_kind(transform: Any) -> None:
    """Check that a transform without parts is one that Beam's Python workers or the engine can run."""
    passes_on = not set(transform.outputs.values()) - set(transform.inputs.values())
    if transform.subtransforms or passes_on or transform.spec.urn in OURS | known_urns() | {_READ}:
        return
    raise UnsupportedOnRunner(
        f"{transform.unique_name!r} is a {transform.spec.urn or 'transform of unknown kind'}, which needs another SDK "
        "or a service",
        hint="use a transform that is written in Python",
    )


def _check_read(transform: Any) -> None:
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ReadPayload)
    if payload.is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED:
        raise UnsupportedOnRunner(
            f"{transform.unique_name!r} reads an unbounded source that is no UnboundedSource of Beam's Python SDK",
            hint="write it as an apache_beam.io.unbounded_source.UnboundedSource or a splittable DoFn",
        )


def _check_sides(label: str, payload: Any) -> None:
    """Check that each side input is looked up in the window that contains the end of a main element's window."""
    for tag, side in sorted(payload.side_inputs.items()):
        mapping = pickler.loads(side.window_mapping_fn.payload)
        if getattr(mapping, "__module__", None) != sideinputs.__name__:  # where Beam's own mappings are
            raise UnsupportedOnRunner(
                f"{label!r} looks its side input {tag!r} up in windows by {mapping!r}, a function of the program's "
                "own, which this runner does not support",
                hint="put the side input into the windows in which it is to be seen, by WindowInto, and keep Beam's "
                "mapping of windows",
            )


def _check_function(label: str, payload: Any, *, has_commits: bool) -> None:
    if payload.do_fn.urn not in _FUNCTIONS:
        raise UnsupportedOnRunner(
            f"{label!r} runs a function of another SDK, {payload.do_fn.urn}",
            hint="use a transform that is written in Python",
        )
    if payload.requests_finalization and not has_commits:
        raise UnsupportedOnRunner(
            f"{label!r} asks to be called when a bundle is committed, but a bundle that has ended may be "
            "processed again here",
            hint="run it in a pipeline of Beam's by dataflow_model.beam.LocalRunner, or as a stream on Spark, with "
            "--dm_checkpoint=DIRECTORY; or leave out the BundleFinalizerParam",
        )
