"""Apply: a transform of Beam's in a pipeline of this package."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam import pvalue

from dataflow_model.beam.structures import mapped
from dataflow_model.beam.windowings import windowing_of
from dataflow_model.errors import InvalidType, UnsupportedOnRunner
from dataflow_model.plan.checks.all_checks import unbounded_collections
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.beam.functions.stages import StageRun
from dataflow_model.runners.beam.lowering import lower_part
from dataflow_model.runners.beam.options import DataflowModelOptions
from dataflow_model.runners.beam.overrides import all_but
from dataflow_model.runners.beam.overrides import apply_to as apply_overrides
from dataflow_model.runners.beam.own.parts import Added, OwnOutput, OwnPart
from dataflow_model.runners.beam.requirements import check
from dataflow_model.runners.beam.runner import LocalRunner, described
from dataflow_model.transforms.elementwise.side_inputs import AsDict, AsSingleton, AsView
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.transforms.pipelines.pipeline import Pipeline


class Apply(PTransform):
    """Apply a transform of Beam's to collections of this package, or to the beginning of a pipeline.

    It takes what the transform takes: a collection, or a tuple, list or dict of several; and returns what it returns,
    with collections of this package: one, several by tag or position, or `None`. Event times, windows, triggers and
    panes are carried both ways. Beam's own code runs the functions, on any runner of this package.

    Args:
        transform: the transform. Its side inputs may be made inside of it, from its input.
        options: Beam's `PipelineOptions` for it.

    Raises:
        InvalidType: for something that is no transform of Beam's.
        UnsupportedOnRunner: when it is applied, for what cannot be run: see the page on Beam; for a collection under
            retracting accumulation, which functions of Beam's cannot tell from other elements; for a function that asks
            to be called when a bundle is committed.

    Example:
        >>> import apache_beam as beam
        >>> import dataflow_model as dm
        >>> from dataflow_model.beam import Apply
        >>> with dm.Pipeline() as p:
        ...     delays = p | dm.Create([("UA", 4), ("AA", 2), ("UA", 5)])
        ...     _ = delays | Apply(beam.CombinePerKey(sum)) | dm.Map(print)
        ('AA', 2)
        ('UA', 9)
    """

    def __init__(self, transform: Any, options: Any = None) -> None:
        if not isinstance(transform, beam.PTransform):
            raise InvalidType(
                f"Apply takes a transform of Beam's, got {transform!r}",
                hint="pass beam.ParDo(…), for example; apply a transform of this package without it",
            )
        self.transform, self.options = transform, options

    def default_label(self) -> str:
        """Return Beam's name of the transform."""
        return str(self.transform.label)

    def expand(self, pcoll: Any, /) -> Any:
        """Add the nodes of the transform."""
        return apply_to(pcoll, lambda _: self.transform, self.options)


def apply_to(given: Any, transform: Callable[[Callable[[Any], Any]], Any], options: Any = None) -> Any:
    """Apply a transform of Beam's under the label of the transform of ours that is being expanded.

    Args:
        given: its input, which is ours.
        transform: returns the transform; it is called with a function that returns an argument of ours as Beam's.
        options: Beam's options.
    """
    members: list[Any] = []
    mapped(given, members.append)
    return _Application(members[0].pipeline, options).result(given, transform)


class _From(OwnPart):
    """A collection of ours, as Beam reads it."""

    def __init__(self, pcoll: PCollection) -> None:
        unbounded = unbounded_collections(pcoll.pipeline.plan())
        super().__init__((OwnOutput(windowing_of(pcoll.strategy), is_bounded=pcoll.ref not in unbounded),))
        self.pcoll = pcoll

    def added(self, label: str, inputs: Mapping[str, tuple[Ref, WindowingStrategy]]) -> Added:
        """Return the collection."""
        del label, inputs
        return Added(strategies={self.pcoll.ref: self.pcoll.strategy}, outputs={"0": self.pcoll.ref})


class _To(OwnPart):
    """Collections of Beam's that are read outside.

    Attributes:
        collections: these with their strategies, when the nodes have been made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.collections: list[tuple[Ref, WindowingStrategy]] = []

    def added(self, label: str, inputs: Mapping[str, tuple[Ref, WindowingStrategy]]) -> Added:
        """Note the collections."""
        del label
        self.collections = [inputs[str(number)] for number in range(len(inputs))]
        return Added()


class _Application:
    """One application of a transform of Beam's, in a pipeline of Beam's of its own."""

    def __init__(self, ours: Pipeline, options: Any) -> None:
        self._ours = ours
        self._beams = beam.Pipeline(runner=LocalRunner(), options=options)
        self._inputs: dict[Ref, Any] = {}

    def result(self, given: Any, transform: Callable[[Callable[[Any], Any]], Any]) -> Any:
        scope = self._ours.scope
        applied = self._beams.apply(transform(self._to_beam), mapped(given, self._to_beam), label=scope)
        outputs: list[Any] = []
        mapped(applied, lambda value: _from_beam(value, outputs.append, scope))
        end = _To()
        if outputs:
            _ = tuple(outputs) | f"{scope}/outputs" >> end
        description = described(self._beams)
        check(description, has_commits=False)
        apply_overrides(description, all_but(self._beams.options.view_as(DataflowModelOptions).dm_without_override))
        part = lower_part(description, StageRun(uuid.uuid4().hex))
        self._ours.add_all(part.nodes, part.strategies)
        read = iter([PCollection(self._ours, ref, Any, strategy) for ref, strategy in end.collections])
        return mapped(applied, lambda value: _from_beam(value, lambda _: next(read), scope))

    def _to_beam(self, value: Any) -> Any:
        """Return what is ours as Beam's: a collection, the beginning of the pipeline, or a side input."""
        match value:
            case PBegin():
                return self._beams
            case PCollection():
                return self._collection_to_beam(value)
            case OutputTuple():
                return tuple(map(self._collection_to_beam, value))
            case AsSingleton():
                default = {} if value.default is ... else {"default_value": value.default}
                return pvalue.AsSingleton(self._collection_to_beam(value.pcoll), **default)
            case AsView():
                view = pvalue.AsDict if isinstance(value, AsDict) else pvalue.AsList
                return view(self._collection_to_beam(value.pcoll))
            case _:
                return value

    def _collection_to_beam(self, pcoll: PCollection) -> Any:
        if pcoll.strategy.retracting:
            raise UnsupportedOnRunner(
                f"{self._ours.scope!r} applies a transform of Beam's to {pcoll.ref.label!r}, which is under retracting "
                "accumulation: functions of Beam's cannot tell a retraction from another element",
                hint="use .accumulating() before it",
            )
        self._ours.check_mine(pcoll, self._ours.scope)
        if pcoll.ref not in self._inputs:
            label = f"{self._ours.scope}/input {len(self._inputs)}"
            (self._inputs[pcoll.ref],) = self._beams | label >> _From(pcoll)
        return self._inputs[pcoll.ref]


def _from_beam(value: Any, convert: Callable[[Any], Any], label: str) -> Any:
    """Return what a transform of Beam's has returned as ours, given what converts its collections."""
    match value:
        case beam.PCollection():
            return convert(value)
        case pvalue.DoOutputsTuple() if value._tags:  # noqa: SLF001 - the tags have no other name
            tags, main = value._tags, value._main_tag  # noqa: SLF001 - the same
            outputs = {MAIN if main is None else main: value[main], **{tag: value[tag] for tag in tags}}
            return OutputTuple({tag: convert(output) for tag, output in outputs.items()})
        case pvalue.PDone():
            return None
        case _:
            raise InvalidType(
                f"{label!r} applies a transform of Beam's that returns {value!r}, whose collections are not known",
                hint="name the outputs, as in .with_outputs('a', main='b'), or apply a beam.PTransform whose expand "
                "returns the collections",
            )
