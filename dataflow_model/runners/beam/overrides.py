"""Transforms of Beam's in whose place this package's own run, with the same results."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import core

from dataflow_model.errors import InvalidArgument
from dataflow_model.runners.beam import phases
from dataflow_model.runners.beam.functions.assigning import WINDOW_INTO, assigner_of
from dataflow_model.runners.beam.functions.kernels import COMBINE_ELEMENTS, combiner_of, reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Override(enum.StrEnum):
    """An override, named as the transform that it replaces."""

    WINDOW_INTO = "WindowInto"
    COMBINE_PER_KEY = "CombinePerKey"
    READ_FROM_TEXT = "ReadFromText"
    READ_FROM_KAFKA = "ReadFromKafka"
    WRITE_TO_KAFKA = "WriteToKafka"
    MANAGED_KAFKA = "managed.kafka"


@attrs.frozen
class Replacement:
    """What replaces the transforms of a class while a pipeline is built.

    Attributes:
        override: its name.
        make: returns what runs in place of a transform with a label, given both; `None` if Beam's own is to run. It
            raises `UnsupportedOnRunner` for an argument that it does not support, where Beam's own cannot run either.
    """

    override: Override
    make: Callable[[Any, str], Any]


REPLACEMENTS: Final[dict[str, Replacement]] = {}
"""The replacements by the full names of classes; `dataflow_model.beam` adds those that need more than runners know."""


def replacement_of(transform: Any) -> Replacement | None:
    """Return what may replace a transform; `None` for one of a class without replacement, or of a subclass."""
    kind = type(transform)
    return REPLACEMENTS.get(f"{kind.__module__}.{kind.__qualname__}")


def all_but(names: Iterable[str]) -> frozenset[Override]:
    """Return the overrides that are not switched off.

    Args:
        names: the names of those that are.

    Raises:
        InvalidArgument: for a name that is not one of an override.

    Example:
        >>> Override.WINDOW_INTO in all_but(["WindowInto"])
        False
    """
    known = {override.value: override for override in Override}
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"`dm_without_override` must be the name of an override, got {name!r}",
                hint=f"pass one of {', '.join(map(repr, known))}",
            )
    return frozenset(Override) - {known[name] for name in names}


def apply_to(pipeline: Any, overrides: frozenset[Override]) -> None:
    """Change the kinds of those transforms in Beam's description of a pipeline that others run in place of Beam's."""
    context = pipeline_context.PipelineContext(pipeline.components)
    for transform in pipeline.components.transforms.values():
        match transform.spec.urn:
            case phases.ASSIGN_WINDOWS if Override.WINDOW_INTO in overrides:
                strategy = beam_runner_api_pb2.WindowingStrategy.FromString(transform.spec.payload)
                if assigner_of(core.Windowing.from_runner_api(strategy, context).windowfn) is not None:
                    transform.spec.urn = WINDOW_INTO
            case phases.COMBINE if Override.COMBINE_PER_KEY in overrides:
                if _is_reduced(transform, context, pipeline.components):
                    transform.spec.urn = COMBINE_ELEMENTS


def _is_reduced(transform: Any, context: Any, components: Any) -> bool:
    """Return whether kernels compute a combiner."""
    [pcoll] = [components.pcollections[pcoll] for pcoll in transform.inputs.values()]
    pairs = context.coders.get_by_id(pcoll.coder_id)
    trigger = components.windowing_strategies[pcoll.windowing_strategy_id].trigger.WhichOneof("trigger")
    return pairs.is_kv_coder() and None is not reduced(
        combiner_of(transform, context), pairs.value_coder(), emits_nothing_empty=trigger in {None, "default"}
    )
