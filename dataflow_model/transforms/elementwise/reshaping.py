"""Merging, splitting and redistributing collections."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.plan.functions.dofn import CallableDoFn, TaggedOutput
from dataflow_model.plan.functions.parameters import misfit_of
from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.side_inputs import resolve
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import code_name, shown_arguments
from dataflow_model.transforms.pipelines.inputs import common_strategy
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.transforms.elementwise.functions import LongerFunction
    from dataflow_model.transforms.pipelines.pcollection import PCollection


@calls_explained({"pipeline": "leave it out; of no collection, write p | dm.Create([])"})
class Flatten(PTransform):
    """Merge collections; elements keep their windows.

    All inputs must have the same windowing strategy: windows, trigger, modes and lateness. There is one exception: if
    the trigger of an input is the continuation of the others' trigger (see `Trigger.continuation`), the result has the
    continuation.

    Raises:
        InvalidArgument: if the inputs have different strategies.

    Source: Beam's `Flatten`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> both = (p | "a" >> dm.Create([1]), p | "b" >> dm.Create(["x"])) | dm.Flatten()
        >>> both.element_type == int | str
        True
    """

    input_kind = "collections"

    if TYPE_CHECKING:

        def __ror__(
            self, several: Sequence[PCollection[ElementT]] | Mapping[Any, PCollection[ElementT]], /
        ) -> PCollection[ElementT]: ...

    def expand(
        self, pcoll: Sequence[PCollection[ElementT]] | Mapping[Any, PCollection[ElementT]], /
    ) -> PCollection[ElementT]:
        """Add the node."""
        inputs = _once_each(list(pcoll.values() if isinstance(pcoll, dict) else pcoll))
        pipeline = inputs[0].pipeline
        strategy = common_strategy(inputs, pipeline.scope)
        node = nodes.Flatten(label=pipeline.scope, inputs=tuple(member.ref for member in inputs))
        together = typehints.either([member.element_type for member in inputs])
        return pipeline.add_main(node, strategy=strategy, element_type=together)


class Partition(PTransform):
    """Split a collection into n collections, by a function that returns the number of the partition.

    Applying it returns a tuple of n collections.

    Args:
        fn: called with the element, n and the further arguments. It must return an int in `[0, n)`; otherwise the run
            fails.
        n: the number of partitions.

    Raises:
        InvalidType: if `fn` cannot be called.
        InvalidArgument: if `n` is not an int of at least 1, or if `fn` does not take both.

    Source: Beam's `Partition`.

    Example:
        >>> import dataflow_model as dm
        >>> even, odd = dm.Pipeline() | dm.Create([1, 2]) | dm.Partition(lambda x, n: x % n, 2)
    """

    input_kind = "collection"

    def __init__(self, fn: LongerFunction[Any, int], n: int, *args: Any, **kwargs: Any) -> None:
        if not callable(fn):
            raise InvalidType(f"Partition takes a function, got {fn!r}", hint="use Partition(lambda element, n: …, n)")
        if type(n) is not int or n < 1:
            raise InvalidArgument(
                f"`n` must be an int of at least 1, got {n!r}", hint="use Partition(fn, 2) for two partitions"
            )
        refuse_async(fn, "Partition")
        self.fn = fn
        self.n = n
        self.args = args
        self.kwargs = kwargs

    def label_by_code(self) -> str:
        """Return the name with the function."""
        return f"{self.default_label()}({code_name(self.fn)})"

    def expand(self, pcoll: PCollection[ElementT], /) -> tuple[PCollection[ElementT], ...]:
        """Add the node."""
        pipeline = pcoll.pipeline
        label = pipeline.scope
        typehints.check_first_parameter(self.fn, pcoll.element_type, label)
        tags = tuple(str(index) for index in range(self.n))
        node = nodes.ParDo(
            label=label,
            input=pcoll.ref,
            fn=_PartitionFn(self.fn),
            args=(self.n, *(resolve(value, pcoll, label) for value in self.args)),
            kwargs={name: resolve(value, pcoll, label) for name, value in self.kwargs.items()},
            tags=tags,
        )
        self._check_call(node.parameters)  # which refuses parameters that nothing fills
        outputs = pipeline.add(node, strategy=pcoll.strategy, element_types=dict.fromkeys(tags, pcoll.element_type))
        return tuple(outputs[tag] for tag in tags)

    def _check_call(self, filled: Mapping[str, str]) -> None:
        misfit = misfit_of(self.fn, (None, self.n, *self.args), {**self.kwargs, **filled})
        if misfit is not None:
            signature, error = misfit
            name = getattr(self.fn, "__name__", repr(self.fn))
            given = shown_arguments("an element", (self.n, *self.args), self.kwargs)
            raise InvalidArgument(
                f"{name}{signature} cannot be called with {given}: {error}",
                hint="its first parameter receives the element, the second the number of partitions: lambda x, n: …",
            ) from error


class _PartitionFn(CallableDoFn):
    """Sends each element to the output that the function names."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        n = args[0]
        partition = self.fn(element, *args, **kwargs)
        try:
            number = operator.index(partition)
        except TypeError:  # no whole number
            number = -1
        if not 0 <= number < n:
            raise InvalidArgument(
                f"a partition must be a whole number in [0, {n}), got {partition!r}",
                hint="return the number of a partition, such as number % n; for text, zlib.crc32(text.encode()) % n is "
                "the same in every process, which hash(text) % n is not",
            )
        yield TaggedOutput(str(number), element)


@calls_explained({"num_buckets": "leave it out: the runner decides by its workers or shards"})
class Reshuffle(PTransform):
    """Redistribute the elements over the workers, so that later transforms are not fused with earlier ones.

    Elements, event times and windows do not change.

    Source: Beam's `Reshuffle`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([1]) | dm.Reshuffle()
        PCollection('Reshuffle', element_type=int)
    """

    input_kind = "collection"

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Add the node."""
        pipeline = pcoll.pipeline
        node = nodes.Reshuffle(label=pipeline.scope, input=pcoll.ref)
        return pipeline.add_main(node, strategy=pcoll.strategy, element_type=pcoll.element_type)


def _once_each(inputs: list[PCollection]) -> list[PCollection]:
    """Return the inputs with a copy in place of each repetition, since a node reads each collection only once."""
    seen: set[nodes.Ref] = set()
    for index, member in enumerate(inputs):
        if member.ref in seen:
            inputs[index] = member | f"input {index + 1}" >> Map(_same).with_output_types(member.element_type)
        seen.add(member.ref)
    return inputs


def _same(element: Any) -> Any:
    return element
