"""Collections: what flows between transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, overload

from dataflow_model.errors import InvalidArgument, InvalidType, explain, shown
from dataflow_model.plan.functions.typevars import ElementT_co, InputT_contra, OutputT_co, ResultT
from dataflow_model.plan.names.spellings import unknown
from dataflow_model.transforms.pipelines import looking
from dataflow_model.transforms.pipelines.looking import Sampled, table_of
from dataflow_model.transforms.pipelines.typehints import type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.transforms.pipelines.pipeline import Pipeline
    from dataflow_model.transforms.pipelines.ptransform import KeepsElements

_TAGS: Final = "use one of these tags, or name the tag in with_outputs(…)"


class Expands(Protocol[InputT_contra, OutputT_co]):
    """The right operand of `|` for type checkers: a transform, typed by the annotations of its `expand`."""

    def expand(self, pcoll: InputT_contra, /) -> OutputT_co:
        """Apply the parts of the transform to `pcoll` and return what comes out."""
        ...


class PCollection(Generic[ElementT_co]):
    """A collection of elements, bounded or unbounded. One transform produces it, and any number of transforms read it.

    Attributes:
        pipeline: the pipeline that it belongs to.
        ref: its address in the plan.
        element_type: the type of its elements as far as it is known; `typing.Any` if nothing is known.
        strategy: the windowing strategy that the next grouping uses.

    A collection describes a step of the pipeline. It has elements only while the pipeline runs. `head` and `show`
    compute the first few elements.

    Raises:
        InvalidType: if it is iterated over or indexed, or used in `len()`, `in` or `if`.

    Source: Beam's `PCollection`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | "numbers" >> dm.Create([1, 2])
        PCollection('numbers', element_type=int)
    """

    def __init__(self, pipeline: Pipeline, ref: Ref, element_type: Any, strategy: WindowingStrategy) -> None:
        self.pipeline = pipeline
        self.ref = ref
        self.element_type = element_type
        self.strategy = strategy

    @overload
    def __or__(self, transform: KeepsElements[ElementT_co]) -> PCollection[ElementT_co]: ...

    @overload
    def __or__(self, transform: Expands[PCollection[ElementT_co], ResultT]) -> ResultT: ...

    def __or__(self, transform: object) -> Any:
        return self.pipeline.apply(transform, self)

    def head(self, n: int = 10, *, sample: int | None = 1_000) -> list[ElementT_co]:
        """Return the first elements, computed in process from the first rows of each source.

        Nothing is written, and the pipeline itself does not run. Behind a grouping, the elements are results of these
        rows alone. If a source has more, the list says so where it is shown. A source that is followed ends after its
        first rows.

        Args:
            n: the maximum number of elements to return.
            sample: the maximum number of rows or elements to read from each source; `None` reads all that are there,
                in this process.

        Raises:
            InvalidArgument: if `n` or `sample` is not a positive int; for all elements of a source without an end.
            UnsupportedOnRunner: for a source that `LocalRunner` cannot read, such as a Spark DataFrame.

        Example:
            >>> import dataflow_model as dm
            >>> (dm.Pipeline() | dm.Create(range(1_000_000)) | dm.Map(lambda number: number**2)).head(4)
            [0, 1, 4, 9]
            >>> total = dm.Pipeline() | dm.Create([1] * 5_000) | dm.CombineGlobally(sum)
            >>> total.head()
            [1000]  # results of a sample, of at most 1,000 rows of each source; sample=None reads all
            >>> total.head(sample=None)
            [5000]
        """
        records, note = self._sample(n, sample)
        elements = [record.value for record in records]
        return Sampled(elements, note) if note else elements

    def show(self, n: int = 10, *, sample: int | None = 1_000) -> None:
        """Print the first elements as a table, with event time, window and pane; see `head`.

        Example:
            >>> import dataflow_model as dm
            >>> (dm.Pipeline() | dm.Create([("UA", 4), ("UA", 6)]) | dm.Mean.per_key()).show()  # doctest: +SKIP
        """
        from rich.console import Console

        records, note = self._sample(n, sample)
        Console().print(table_of(records, repr(self), note))

    def _sample(self, n: int, rows: int | None) -> tuple[list[Record], str]:
        return looking.sample(self, self.pipeline.local_runner(), n, rows)

    def _without_elements(self, action: str) -> InvalidType:
        return InvalidType(
            f"{self!r} describes a step of the pipeline and has no elements yet, so it cannot be {action}",
            hint="use .show() or .head(10) to look at the first elements, … | dm.Map(fn) to process each; to get all, "
            "write … | 'out' >> dm.io.Collect(), run the pipeline, and read result.collected('out')",
        )

    if not TYPE_CHECKING:  # for a type checker, each of these is an error

        def __iter__(self) -> Any:
            raise self._without_elements("iterated over or unpacked")

        def __len__(self) -> int:
            raise self._without_elements("counted by len()")

        def __getitem__(self, index: Any) -> Any:
            raise self._without_elements(f"indexed by {shown(index)}")

        def __contains__(self, element: Any) -> bool:
            raise self._without_elements(f"searched for {shown(element)}")

        def __bool__(self) -> bool:
            raise self._without_elements("used as a truth value")

        def __rrshift__(self, label: object) -> Any:
            raise InvalidType(
                f"a label belongs to a transform, got {label!r} for {self!r}",
                hint=f"write collection | {label!r} >> dm.Map(…)",
            )

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names the transform to use instead of a method of PySpark or Flink."""
            raise unknown(type(self).__name__, name, self)

    def __repr__(self) -> str:
        name = self.ref.label if self.ref.tag == "main" else f"{self.ref.label}[{self.ref.tag}]"
        return f"PCollection({name!r}, element_type={type_name(self.element_type)})"


class PBegin:
    """The beginning of a pipeline, to which sources are applied."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def __or__(self, transform: Expands[PBegin, ResultT]) -> ResultT:
        applied: ResultT = self.pipeline.apply(transform, self)
        return applied


class OutputTuple(Generic[ElementT_co]):
    """The outputs of `ParDo(…).with_outputs(…)`: by attribute, by tag in brackets, or in order, the main one first.

    Source: Beam's `DoOutputsTuple`.

    Example:
        >>> import dataflow_model as dm
        >>> split = dm.FlatMap(lambda x: [x] if x > 1 else [dm.TaggedOutput("cancelled", x)])
        >>> flights = dm.Pipeline() | dm.Create([1, 2]) | split.with_outputs("cancelled", main="flown")
        >>> flights.keys()
        ('flown', 'cancelled')
        >>> flights.cancelled is flights["cancelled"]
        True
        >>> flown, cancelled = flights
    """

    def __init__(self, outputs: Mapping[str, PCollection]) -> None:
        self._outputs = dict(outputs)

    def keys(self) -> tuple[str, ...]:
        """Return the tags, the main one first."""
        return tuple(self._outputs)

    def items(self) -> tuple[tuple[str, PCollection], ...]:
        """Return the tags with their collections."""
        return tuple(self._outputs.items())

    def __getitem__(self, tag: str | int) -> PCollection:
        try:
            return tuple(self._outputs.values())[tag] if isinstance(tag, int) else self._outputs[tag]
        except (KeyError, IndexError):
            raise InvalidArgument(
                f"there is no output {tag!r}; the outputs are {list(self._outputs)}",
                hint=_TAGS,
            ) from None

    def __getattr__(self, tag: str) -> PCollection:
        if tag.startswith("_") or tag not in self._outputs:
            outputs = list(self.__dict__.get("_outputs", ()))
            raise AttributeError(
                explain(f"there is no output {tag!r}; the outputs are {outputs}", hint=_TAGS), name=None, obj=None
            )
        return self._outputs[tag]

    def __iter__(self) -> Iterator[PCollection]:
        return iter(self._outputs.values())

    def __len__(self) -> int:
        return len(self._outputs)

    def __or__(self, transform: Expands[tuple[PCollection, ...], ResultT]) -> ResultT:
        applied: ResultT = next(iter(self)).pipeline.apply(transform, tuple(self))
        return applied

    def __repr__(self) -> str:
        return f"OutputTuple({', '.join(self._outputs)})"
