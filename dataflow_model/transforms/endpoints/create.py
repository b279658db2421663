"""Both ends of a pipeline: Create, and the transforms on which those of `io` are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidType
from dataflow_model.plan.endpoints.batches import check_columns
from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.plan.endpoints.sinks import Sink
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.functions.dofn import DeadLetter, TimestampedValue
from dataflow_model.plan.functions.typevars import ElementT, KeyT, ResultT, ValueT
from dataflow_model.plan.logical import nodes
from dataflow_model.plan.watermarks.estimators import check_ahead
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
from dataflow_model.transforms.endpoints.tables import rows_of_table
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.pcollection import PBegin, PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    class _DataFrame(Protocol):
        """A table of pandas or Polars, which is an iterable too, but not of its rows."""

        @property
        def columns(self) -> Any: ...

        @property
        def shape(self) -> Any: ...

    class _Columns(Protocol):
        """Any object that exports its columns to Arrow."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class Read(PTransform[PBegin, ResultT]):
    """Read the elements of a source.

    For type checkers it is a `Read[PCollection[T]]`, with the type of the elements if it is known.

    Args:
        source: the source.
        element_type: the type of its elements, as far as it is known.
        dead_letters: the tag of an output for rows that cannot be read; applying the transform then returns a pair: the
            rows and the dead letters. Without a tag, such a row stops the run.

    Raises:
        InvalidType: if `source` is not a source.
        InvalidArgument: when it is applied, for a source with `max_skew` whose watermark has only one origin, or with
            `max_ahead` but without event times.

    Source: the papers' injector; Beam's `Read`.
    """

    input_kind = "pipeline"

    if TYPE_CHECKING:

        @overload
        def with_output_types(self, element_type: type[ElementT]) -> Read[PCollection[ElementT]]: ...

        @overload
        def with_output_types(self, element_type: Any) -> Read[PCollection]: ...

        def with_output_types(self, element_type: Any) -> Any: ...  # noqa: D102 - see `PTransform`

    def __init__(self, source: Source, *, element_type: Any = Any, dead_letters: str | None = None) -> None:
        if not isinstance(source, Source):
            raise InvalidType(f"Read takes a source, got {source!r}", hint="use dm.Create([…]) for values")
        self.source = source
        self.element_type = element_type
        self.dead_letters = dead_letters

    def expand(self, pcoll: PBegin, /) -> ResultT:
        """Add the node."""
        self.source.watermark_origins.check_max_skew()
        check_ahead(self.source.event_time, self.source.watermark)
        pipeline = pcoll.pipeline
        if self.source.as_columns is not None:
            check_columns(self.source.as_columns, pipeline.scope)
        node = nodes.Read(label=pipeline.scope, source=self.source, dead_letters=self.dead_letters)
        types = {nodes.MAIN: self.element_type if self._output_type is None else self._output_type}
        applied: Any
        if self.dead_letters is None:
            applied = pipeline.add(node, element_types=types)[nodes.MAIN]
        else:
            outputs = pipeline.add(node, element_types={**types, self.dead_letters: DeadLetter})
            applied = WithDeadLetters(outputs[nodes.MAIN], outputs[self.dead_letters], tag=self.dead_letters)
        result: ResultT = applied
        return result


@calls_explained({"reshuffle": "leave it out, or write … | dm.Reshuffle() after it"})
class Create(Read[PCollection[ElementT]], Generic[ElementT]):
    """Create a bounded collection from values of the program; their event time is −∞ unless they have their own.

    Args:
        values: the elements. A `TimestampedValue` has its own event time. A dict stands for its items, and a pandas or
            Polars DataFrame or an Arrow table for its rows, which are named tuples as in the sources of `dm.io`.

    Raises:
        InvalidType: for a value that is not iterable, a `PCollection`, text (its elements would be its letters), a
            table with a column that Arrow cannot store, and a Spark DataFrame.
        InvalidArgument: for a table with two columns of the same name.

    Source: Beam's `Create`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([("UA", 1), ("AA", 2)])
        PCollection('Create', element_type=tuple[str, int])
        >>> import pyarrow as pa
        >>> dm.Create(pa.table({"carrier": ["UA"], "delay": [4]})).source.elements
        (Row(carrier='UA', delay=4),)
    """

    @overload
    def __init__(self: Create[tuple[KeyT, ValueT]], values: Mapping[KeyT, ValueT]) -> None: ...

    @overload
    def __init__(self: Create[Any], values: _DataFrame | _Columns) -> None: ...

    @overload
    def __init__(self: Create[ValueT], values: Iterable[TimestampedValue[ValueT]]) -> None: ...

    @overload
    def __init__(self: Create[ValueT], values: Iterable[ValueT]) -> None: ...

    def __init__(self, values: Any) -> None:
        if isinstance(values, str | bytes):
            raise InvalidType(
                f"Create takes an iterable of values, got the text {values!r}", hint=f"write Create([{values!r}])"
            )
        rows = rows_of_table(values)
        if rows is None:
            try:
                rows = iter(values.items() if isinstance(values, dict) else values)
            except InvalidType:  # a collection, which says what to do instead
                raise
            except TypeError as error:
                raise InvalidType(
                    f"Create takes an iterable of values, got {values!r}", hint="write Create([value])"
                ) from error
        items = tuple(rows)
        timed = any(isinstance(value, TimestampedValue) for value in items)
        elements = (
            tuple(value.value if isinstance(value, TimestampedValue) else value for value in items) if timed else items
        )
        times = tuple(value.event_time if isinstance(value, TimestampedValue) else MIN_TIMESTAMP for value in items)
        super().__init__(
            ElementsSource(elements, times if timed else None), element_type=typehints.type_of_values(elements)
        )


class Write(PTransform[PCollection, None]):
    """Write a collection to a sink; there is no output.

    Raises:
        InvalidType: if `sink` is not a sink.

    Source: Beam's `Write`.
    """

    input_kind = "collection"

    def __init__(self, sink: Sink) -> None:
        if not isinstance(sink, Sink):
            raise InvalidType(f"Write takes a sink, got {sink!r}", hint="dm.io.Collect() keeps results in memory")
        self.sink = sink

    def expand(self, pcoll: PCollection, /) -> None:
        """Add the node."""
        pcoll.pipeline.add(nodes.Write(label=pcoll.pipeline.scope, input=pcoll.ref, sink=self.sink))
