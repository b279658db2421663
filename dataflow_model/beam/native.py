"""Transforms of this package in a pipeline of Beam's, which one of its runners in this package runs."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Final

import apache_beam as beam
import attrs
from apache_beam import pvalue

from dataflow_model.beam.structures import mapped
from dataflow_model.beam.windowings import strategy_of_windowing, windowing_of
from dataflow_model.errors import InvalidType, UnsupportedOnRunner
from dataflow_model.plan.checks.all_checks import unbounded_collections
from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.plan.logical import nodes
from dataflow_model.plan.logical.nodes import MAIN, Ref
from dataflow_model.runners.beam.own.parts import Added, OwnOutput, OwnPart
from dataflow_model.runners.beam.runner import BeamRunner
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipelines.pipeline import Pipeline
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy


class Native(beam.PTransform):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Apply a transform of this package in a pipeline of Beam's that a runner in `dataflow_model.beam` runs.

    It takes what the transform takes, a collection, a tuple or dict of several or the pipeline, and returns what the
    transform returns: one collection, several by tag or position, or nothing. The engine runs it as in a pipeline of
    this package, with no code of Beam's: a hot part of a pipeline can be rewritten by itself.

    Args:
        transform: the transform.

    Raises:
        InvalidType: for something that is no transform of this package.
        UnsupportedOnRunner: when it is applied, for a pipeline with another runner.

    Example:
        >>> import apache_beam as beam
        >>> import dataflow_model as dm
        >>> from dataflow_model.beam import LocalRunner, Native
        >>> with beam.Pipeline(runner=LocalRunner()) as p:
        ...     delays = p | beam.Create([("UA", 4), ("AA", 2), ("UA", 5)])
        ...     _ = delays | Native(dm.Sum.per_key()) | beam.Map(print)
        ('AA', 2)
        ('UA', 9)
    """

    input_kinds: ClassVar[tuple[str, ...]] = ("pipeline", "collection", "collections", "any")
    """The kinds of inputs of transforms that it takes."""

    def __init__(self, transform: PTransform[Any, Any]) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(transform, PTransform):
            raise InvalidType(
                f"{name} takes a transform of this package, got {transform!r}",
                hint=f"pass one, as in {name}({_EXAMPLES[name]}); apply a transform of Beam's without it",
            )
        if transform.input_kind not in self.input_kinds:
            raise InvalidType(
                f"{name} takes a transform that is applied to {_KINDS[self.input_kinds[0]]}, got {transform!r}",
                hint="use dataflow_model.beam.Native for other transforms",
            )
        self.transform = transform

    def default_label(self) -> str:
        """Return the label of the transform."""
        return self.transform.label

    def expand(self, pvalueish: Any) -> Any:
        """Add the transform."""
        is_begin = isinstance(pvalueish, pvalue.PBegin)
        members: list[Any] = []
        mapped(pvalueish, members.append)
        pipeline = members[0].pipeline
        if not isinstance(pipeline.runner, BeamRunner):
            raise UnsupportedOnRunner(
                f"{self.label!r} is a transform of dataflow_model, which {type(pipeline.runner).__name__} cannot run",
                hint="run the pipeline with dataflow_model.beam.LocalRunner or SparkRunner, or use a transform of "
                "Beam's here",
            )
        numbers = itertools.count()
        shape = None if is_begin else mapped(pvalueish, lambda _: next(numbers))
        given = [] if is_begin else [self._given(number, pcoll) for number, pcoll in enumerate(members)]
        applied = _Applied(self.transform, self.label, shape, given)
        outputs = iter(tuple(members) | "native" >> _NativePart(self.transform, shape, applied.outputs))
        result = mapped(applied.result, lambda _: next(outputs))
        return pvalue.PDone(pipeline) if result is None else result

    def _given(self, number: int, pcoll: Any) -> _Given:
        strategy = strategy_of_windowing(pcoll.windowing, self.label)
        return _Given(Ref(f"input {number}"), strategy, bool(pcoll.is_bounded))


class Read(Native):
    """Read a source of this package in a pipeline of Beam's, as one of the runners in `dataflow_model.beam` does.

    Args:
        transform: a transform that reads, such as `dm.io.ReadParquet(…)`, with its event times and watermark.

    Raises:
        InvalidType: for something else.
        UnsupportedOnRunner: when it is applied, for a pipeline with another runner.

    Example:
        >>> import apache_beam as beam
        >>> import dataflow_model as dm
        >>> from dataflow_model.beam import LocalRunner, Read
        >>> with beam.Pipeline(runner=LocalRunner()) as p:
        ...     _ = p | Read(dm.io.GenerateSequence(0, 2)) | beam.Map(lambda row: print(row.value))
        0
        1
    """

    input_kinds = ("pipeline",)


class Write(Native):
    """Write a collection of Beam's into a sink of this package, exactly once where the sink is.

    Args:
        transform: a transform that writes, such as `dm.io.WriteParquet(…)`.

    Raises:
        InvalidType: for something else.
        UnsupportedOnRunner: when it is applied, for a pipeline with another runner.

    Example:
        >>> import apache_beam as beam
        >>> import dataflow_model as dm
        >>> from dataflow_model.beam import LocalRunner, Write
        >>> p = beam.Pipeline(runner=LocalRunner())
        >>> _ = p | beam.Create([1, 2]) | Write("sink" >> dm.io.Collect())
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.ours.collected("sink")]
        [1, 2]
    """

    input_kinds = ("collection",)


_KINDS: Final = {"pipeline": "a pipeline", "collection": "a collection"}
_EXAMPLES: Final = {"Native": "dm.Sum.per_key()", "Read": "dm.io.ReadParquet(…)", "Write": "dm.io.WriteParquet(…)"}


@attrs.frozen
class _Given:
    """A collection of Beam's to which a transform of ours is applied.

    Attributes:
        ref: its address in the plan.
        strategy: its windowing strategy.
        is_bounded: whether it ends.
    """

    ref: Ref
    strategy: WindowingStrategy
    is_bounded: bool = True


class _NativePart(OwnPart):
    """What a `Native` adds to a plan.

    Args:
        transform: the transform of ours.
        shape: the input of the `Native`, with the number of each collection in its place.
        outputs: its outputs.
    """

    def __init__(self, transform: PTransform[Any, Any], shape: Any, outputs: tuple[OwnOutput, ...]) -> None:
        super().__init__(outputs)
        self.transform, self.shape = transform, shape

    def added(self, label: str, inputs: Mapping[str, tuple[Ref, WindowingStrategy]]) -> Added:
        """Return the nodes of the transform, whose label is that of the `Native` around this part."""
        given = [_Given(*inputs[str(number)]) for number in range(len(inputs))]
        applied = _Applied(self.transform, label.rpartition("/")[0], self.shape, given)
        refs = {str(number): pcoll.ref for number, pcoll in enumerate(applied.collections)}
        return Added(applied.nodes, applied.plan.strategies, refs)


class _Applied:
    """A transform of ours, applied in a pipeline of its own.

    Args:
        transform: the transform.
        label: its label.
        shape: its input, with the number of each collection in its place; `None` at the beginning of a pipeline.
        given: the collections.

    Attributes:
        plan: the plan of that pipeline.
        nodes: its nodes, without those that stand for the collections.
        collections: the outputs.
        result: what the transform returns, as Beam's transforms do: a dict for tagged outputs.

    Raises:
        InvalidType: for a transform that returns something besides collections.
    """

    def __init__(self, transform: PTransform[Any, Any], label: str, shape: Any, given: Sequence[_Given]) -> None:
        pipeline = Pipeline()
        for one in {one.ref: one for one in given}.values():
            tags = () if one.ref.tag == MAIN else (one.ref.tag,)
            source = _GivenSource((), None, one.is_bounded)
            pipeline.add(nodes.Read(label=one.ref.label, source=source, tags=tags), strategy=one.strategy)
        inputs = [PCollection(pipeline, one.ref, Any, one.strategy) for one in given]
        value = PBegin(pipeline) if shape is None else mapped(shape, lambda number: inputs[number])
        result = pipeline.apply(transform, value, label)
        self.plan = pipeline.plan()
        self.nodes = tuple(node for node in self.plan.nodes if not _stands_for(node))
        self.collections: list[PCollection] = []
        self.result = dict(result.items()) if isinstance(result, OutputTuple) else result
        mapped(self.result, lambda part: self._note(part, label))

    @property
    def outputs(self) -> tuple[OwnOutput, ...]:
        """What Beam has to know of the outputs."""
        unbounded = unbounded_collections(self.plan)
        return tuple(OwnOutput(windowing_of(each.strategy), each.ref not in unbounded) for each in self.collections)

    def _note(self, part: object, label: str) -> None:
        if not isinstance(part, PCollection):
            raise InvalidType(
                f"{label!r} returns {part!r}, which is no collection", hint="use a transform that returns collections"
            )
        self.collections.append(part)


@attrs.frozen
class _GivenSource(ElementsSource):
    """Stands for a collection of Beam's while a transform is applied to it."""

    is_bounded: bool = True


def _stands_for(node: nodes.Node) -> bool:
    """Return whether a node stands for a collection of Beam's."""
    return isinstance(node, nodes.Read) and isinstance(node.source, _GivenSource)
