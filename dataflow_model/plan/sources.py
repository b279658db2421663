"""Sources as values: what a runner needs to know to read one, in process, in a Spark job or in a stream."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import attrs

from dataflow_model.errors import SourceError
from dataflow_model.plan.columns import BadRow, Columns, DecodedRows, columns_of, decode_columns
from dataflow_model.plan.dofn import DeadLetter
from dataflow_model.plan.rows import row_type
from dataflow_model.plan.watermark_origins import EVERYTHING, WatermarkOrigins
from dataflow_model.plan.watermarks import ARRIVAL, Arrival, BoundedOutOfOrderness, WatermarkEstimator
from dataflow_model.time import MIN_TIMESTAMP, Duration, EventTime, ProcessingTime
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

__all__ = [
    "AddStep",
    "ClockStep",
    "ColumnSource",
    "DataFrameSource",
    "ElementsSource",
    "Origin",
    "RowSource",
    "ScriptSource",
    "SignalStep",
    "Source",
    "Step",
    "WatermarkStep",
    "events_of",
    "watermark_after",
]


class Origin(NamedTuple):
    """A part of a source that keeps its own order: a file, a partition.

    Attributes:
        name: stable across runs; order between origins at equal ticks goes by it.
        rows: how many rows it has, or `None` where that is not known.
        version: what is compared to find out whether it has changed: numbers and text. `None` where it cannot change.
        replaced: in the result of `ColumnSource.poll`, whether it is another origin than the known one of that name.
    """

    name: str
    rows: int | None
    version: tuple[int | str, ...] | None = None
    replaced: bool = False


class Source(abc.ABC):  # noqa: B024 - a closed family; what they share is attributes
    """Where a collection comes from. Sources are values: they pickle, and reading one twice gives the same rows.

    Attributes that every source has: `is_bounded`; `event_time`, a column's name, `ARRIVAL` or `None` (the source
    gives event times itself); `processing_time`, the replay clock's column or `None` for the wall clock; `watermark`,
    the estimator; `watermark_origins`, the parts that each have a watermark; `id_columns`, the columns that together
    name a row, empty where origin and place do.
    """

    event_time: str | Arrival | None = None
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = True
    id_columns: tuple[str, ...] = ()


class RowSource(Source):
    """A source of rows that come as Arrow batches; they become named tuples of the columns, in the columns' order."""

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch that `read` gave into columns, event times and clock, without a Python object per row."""
        return columns_of(batch, self.event_time, self.processing_time)

    def decode(self, batch: pa.RecordBatch) -> DecodedRows:
        """Turn a batch that `read` gave into named tuples with event times and clock, bad rows apart."""
        return decode_columns(self.columns_of(batch))

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as an element of the dead-letter output.

        Args:
            label: the full label of the read.
            origin: where the batch was read from.
            start: the row of the origin at which the batch began.
            bad: the row.
        """
        return DeadLetter(bad.row, label, f"{origin}, row {start + bad.index}: {bad.reason}", "")

    def refusal(self, label: str, origin: str, start: int, bad: BadRow) -> SourceError:
        """Return the error that stops a run without a dead-letter output; the arguments are `dead_letter`'s."""
        return SourceError(
            f"{label!r} cannot read row {start + bad.index} of {origin}: {bad.reason}; the row is {bad.row!r}",
            hint="fix the row, or send such rows to a separate output with .with_exception_handling()",
        )


class ColumnSource(RowSource):
    """A source of rows in columns that can be read by row ranges: the files of `dataflow_model.io`.

    A runner calls `bound()` once on the driver at plan time and sends what that returns to its workers.

    Attributes:
        is_typed: whether the columns have their types in the files, so that leaving one out hides no bad row.
        origins_end: whether an origin of an unbounded source has ended once all its rows have been read, as a file has.
            One that may get more rows at any time, such as a partition of a log, holds a replay clock for as long as it
            is listed.
    """

    is_typed: ClassVar[bool] = False
    origins_end: ClassVar[bool] = False

    def bound(self) -> Self:
        """Return the source with all that the driver can find out now (the schema) written into it.

        Raises:
            InvalidArgument: when a time column is not there.
            SourceError: when the data cannot be read.
        """
        return self

    @abc.abstractmethod
    def origins(self) -> list[Origin]:
        """List what there is to read, in order of name; runs on the driver."""

    def poll(self, known: Mapping[str, Origin]) -> list[Origin]:
        """List what there is to read now, in order of name; runs on the driver, once per poll of an unbounded source.

        An origin that is listed again with more rows has grown; one that is marked as replaced is read from its first
        row.

        Args:
            known: what an earlier poll has listed, by name. It may come from a checkpoint, without any version.
        """
        del known
        return self.origins()

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` if an origin is no longer the one that was listed; runs on a worker.

        Args:
            origin: its name.
            version: as it was listed.
        """

    @abc.abstractmethod
    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows `[start, stop)` of an origin; runs on a worker.

        Raises:
            SourceError: when the data cannot be read, with the origin, the row and the way out.
        """

    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns' names and types; runs on the driver at plan time."""

    def size(self) -> int:
        """Return how many bytes there are to read, 0 where that is not known; runs on the driver."""
        return 0

    def project(self, columns: Collection[str]) -> Self:
        """Return the source with no more columns than these and its time columns, where it can read fewer."""
        del columns
        return self

    def row_type(self) -> type[Any]:
        """Return the named tuple type of the rows; runs on the driver at plan time."""
        return row_type(self.schema())


@attrs.frozen(eq=False)
class ElementsSource(Source):
    """Elements that the program holds already: `Create`.

    Attributes:
        elements: the values.
        event_times: one for each, or `None` when all are at `MIN_TIMESTAMP`.
    """

    elements: tuple[Any, ...]
    event_times: tuple[EventTime, ...] | None = None


@attrs.frozen(eq=False)
class DataFrameSource(RowSource):
    """Rows of a Spark DataFrame, batch or streaming, handed in by the user; only Spark runners take it.

    Attributes:
        origin, sequence: the columns that say where a row comes from and its place there, or `None`.
    """

    dataframe: Any
    event_time: str | Arrival | None = ARRIVAL
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    is_bounded: bool = True
    origin: str | None = None
    sequence: str | None = None
    watermark_origins: WatermarkOrigins = EVERYTHING
    id_columns: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the DataFrame, which is a handle of the driver's."""
        rest = (self.event_time, self.processing_time, self.watermark, self.is_bounded, self.origin, self.sequence)
        return type(self), (None, *rest, self.watermark_origins, self.id_columns)


@attrs.frozen
class AddStep:
    """Elements of one bundle: `(value, event_time)` pairs, each its own event; see `events_of`."""

    elements: tuple[tuple[Any, EventTime], ...]


@attrs.frozen
class WatermarkStep:
    """The watermark takes effect before the next step; with a percentile below 100, that percentile of it."""

    watermark: EventTime
    percentile: float = LOW_WATERMARK


@attrs.frozen
class ClockStep:
    """The processing clock advances: the timers before it run."""

    processing_time: ProcessingTime


@attrs.frozen
class SignalStep:
    """A signal takes effect for every open window whose trigger waits for it."""

    name: str


Step: TypeAlias = AddStep | WatermarkStep | ClockStep | SignalStep


@attrs.frozen(eq=False)
class ScriptSource(Source):
    """A script of elements, watermarks, clock values and signals: `testing.TestStream`. Bounded."""

    steps: tuple[Step, ...]


def events_of(steps: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    """Yield a script's events, each with the place of its step: every element of a bundle is an event of its own.

    Example:
        >>> steps = [AddStep((("a", EventTime(1)), ("b", EventTime(2)))), WatermarkStep(EventTime(3))]
        >>> [(place, type(step).__name__) for place, step in events_of(steps)]
        [(0, 'AddStep'), (0, 'AddStep'), (1, 'WatermarkStep')]
    """
    for place, step in enumerate(steps):
        if isinstance(step, AddStep):
            yield from ((place, AddStep((element,))) for element in step.elements)
        else:
            yield place, step


def watermark_after(steps: Iterable[Step], percentiles: Sequence[float] = ()) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a script's watermark after each step, and its percentiles below 100: none is behind a higher one.

    Example:
        >>> steps = [WatermarkStep(EventTime(5), 90), WatermarkStep(EventTime(3)), WatermarkStep(EventTime(7))]
        >>> [(low, *rest) for low, rest in watermark_after(steps, (50, 90))][1:]
        [(3, 5, 5), (7, 7, 7)]
    """
    low = int(MIN_TIMESTAMP)
    values = [low] * len(percentiles)
    for step in steps:
        if isinstance(step, WatermarkStep):
            low = max(low, int(step.watermark)) if step.percentile == LOW_WATERMARK else low
            reached = [percentile <= step.percentile for percentile in percentiles]
            values = [
                max(value, int(step.watermark)) if told else value for value, told in zip(values, reached, strict=True)
            ]
        yield low, tuple(values)
