"""Sources as values: what a runner needs to know to read one, in process, in a Spark job or in a stream."""

from __future__ import annotations

import abc
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import attrs

from dataflow_model.errors import SourceError
from dataflow_model.plan.columns import BadRow, Columns, DecodedRows, columns_of, decode_columns
from dataflow_model.plan.dofn import DeadLetter
from dataflow_model.plan.features import Feature
from dataflow_model.plan.rows import row_type
from dataflow_model.plan.watermark_origins import EVERYTHING, WatermarkOrigins
from dataflow_model.plan.watermarks import ARRIVAL, Arrival, AtTheEnd, BoundedOutOfOrderness, WatermarkEstimator
from dataflow_model.time import MIN_TIMESTAMP, Duration, EventTime, ProcessingTime
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

__all__ = [
    "AddStep",
    "Changes",
    "ClockStep",
    "ColumnSource",
    "DataFrameSource",
    "ElementsSource",
    "Known",
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
        replaced: in what `ColumnSource.poll` returns, whether it is another origin than the known one of that name.
    """

    name: str
    rows: int | None
    version: tuple[int | str, ...] | None = None
    replaced: bool = False


class Known(Protocol):
    """What an earlier poll has listed. It may come from a checkpoint, without any version."""

    def names(self) -> AbstractSet[str]:
        """Return the names of all origins."""
        ...

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed, or `None` if there was none of that name."""
        ...


class Changes(NamedTuple):
    """What a poll has found, compared with what was known.

    Attributes:
        origins: those that are new, have more rows, have another version or were replaced, in order of name.
        gone: the names of known origins that are no longer there.
    """

    origins: list[Origin]
    gone: AbstractSet[str]


class Source(abc.ABC):  # noqa: B024 - what a subclass must give depends on how it is read
    """Where a collection comes from. Sources are values: they pickle, and reading one twice gives the same rows.

    How a source is read is declared by one of the properties `as_columns`, `as_elements`, `as_script` and
    `as_dataframe`; a runner asks them, and never for a class. For a source of your own, subclass `ColumnSource`.

    Attributes:
        is_bounded: whether it ends by itself; one that does not is followed.
        event_time: the name of a column, `ARRIVAL`, or `None` if the source gives event times itself.
        processing_time: the column of the replay clock, or `None` for the wall clock.
        watermark: the estimator.
        watermark_origins: the parts that each have a watermark.
        id_columns: the columns that together name a row, empty where origin and place do.
        gives_rows: whether its elements are rows with named columns.
    """

    event_time: str | Arrival | None = None
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = True
    id_columns: tuple[str, ...] = ()
    gives_rows: ClassVar[bool] = False

    @property
    def feature(self) -> Feature:
        """What a runner must support to read it."""
        return Feature.OTHER_SOURCES

    @property
    def as_columns(self) -> ColumnSource | None:
        """What workers read by ranges of rows, if the source is read so."""
        return None

    @property
    def as_elements(self) -> ElementsSource | None:
        """The elements, if the program holds them; they come at the first tick, and the source ends there."""
        return None

    @property
    def as_script(self) -> ScriptSource | None:
        """The script, if the source is one; it sets the clock and the watermark itself."""
        return None

    @property
    def as_dataframe(self) -> DataFrameSource | None:
        """The DataFrame, if Spark reads the source."""
        return None

    @property
    def has_own_clock(self) -> bool:
        """Whether the data say when they were seen."""
        return self.processing_time is not None

    @property
    def changes(self) -> bool:
        """Whether what it gives depends on when in a run it is looked at."""
        return not self.is_bounded

    @property
    def names_records(self) -> bool:
        """Whether each record has an id: its place, or the `id_columns`."""
        return True

    @property
    def may_be_added(self) -> bool:
        """Whether a run can be resumed with this source added."""
        return True

    def bound(self) -> Self:
        """Return the source with all that the driver can find out now (such as the schema) written into it.

        Raises:
            InvalidArgument: when a time column is not there.
            SourceError: when the data cannot be read.
        """
        return self

    def size(self) -> int:
        """Return how many bytes there are to read, 0 where that is not known; runs on the driver."""
        return 0

    def row_count(self) -> int | None:
        """Return how many rows there are to read, or `None` where that is not known; runs on the driver."""
        return None

    def known_columns(self) -> Sequence[str]:
        """Return the names of the columns, if they are known without reading anything."""
        return ()

    def in_rounds(self) -> Source:
        """Return the source as micro-batch rounds read it: its watermark passes only the end of the input."""
        assert attrs.has(type(self))  # noqa: S101 - sources are values
        return attrs.evolve(self, watermark=AtTheEnd())  # type: ignore[misc]

    def describe(self) -> str:
        """Return what `explain()` says about the source."""
        clock = "" if self.processing_time is None else f", replayed by the clock in {self.processing_time!r}"
        time = "" if self.event_time is None else f", event time {self.event_time!r}, watermark {self.watermark!r}"
        return f"{type(self).__name__}{time}{clock}"


class RowSource(Source):
    """A source of rows that come as Arrow batches; they become named tuples of the columns, in the columns' order."""

    gives_rows: ClassVar[bool] = True

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

    @property
    def feature(self) -> Feature:
        """Rows, bounded or followed."""
        return Feature.ROWS if self.is_bounded else Feature.FOLLOWED_ROWS

    @property
    def as_columns(self) -> ColumnSource:
        """The source itself."""
        return self

    def row_count(self) -> int:
        """Return how many rows its origins have."""
        return sum(origin.rows or 0 for origin in self.origins())

    @abc.abstractmethod
    def origins(self) -> list[Origin]:
        """List what there is to read, in order of name; runs on the driver."""

    def poll(self, known: Known, clock: int) -> Changes:
        """Return what is new or has changed; runs on the driver, once per poll of an unbounded source.

        An origin that is listed again with more rows has grown; one that is marked as replaced is read from its first
        row.

        Args:
            known: what an earlier poll has listed.
            clock: where the wall clock stands, in microseconds since the epoch. It never goes back.
        """
        del clock
        origins = self.origins()
        changed = [origin for origin in origins if origin != known.get(origin.name)]
        return Changes(changed, known.names() - {origin.name for origin in origins})

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

    @property
    def feature(self) -> Feature:
        """Elements of the program."""
        return Feature.ELEMENTS

    @property
    def as_elements(self) -> ElementsSource:
        """The source itself."""
        return self

    def row_count(self) -> int:
        """Return how many elements there are."""
        return len(self.elements)

    def in_rounds(self) -> Source:
        """Return the source: it is over with the first tick anyway."""
        return self

    def describe(self) -> str:
        """Return how many elements there are."""
        count = len(self.elements)
        return f"{count} element{'' if count == 1 else 's'} from the program"


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

    @property
    def feature(self) -> Feature:
        """A DataFrame, batch or streaming."""
        return Feature.DATAFRAMES if self.is_bounded else Feature.STREAMING_DATAFRAMES

    @property
    def as_dataframe(self) -> DataFrameSource:
        """The source itself."""
        return self

    @property
    def names_records(self) -> bool:
        """Whether columns name each row; a DataFrame has no places."""
        return bool(self.id_columns)

    @property
    def may_be_added(self) -> bool:
        """Whether the DataFrame is bounded: Spark does not resume a query with another streaming source."""
        return self.is_bounded

    def known_columns(self) -> Sequence[str]:
        """Return the DataFrame's columns."""
        names: list[str] = self.dataframe.columns
        return names

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

    @property
    def feature(self) -> Feature:
        """A script."""
        return Feature.SCRIPTS

    @property
    def as_script(self) -> ScriptSource:
        """The source itself."""
        return self

    @property
    def has_own_clock(self) -> bool:
        """A script sets the clock."""
        return True

    @property
    def changes(self) -> bool:
        """What has come depends on the step."""
        return True

    @property
    def may_be_added(self) -> bool:
        """A script cannot be added to another: their steps are merged into one order."""
        return False

    def row_count(self) -> int:
        """Return how many elements it adds."""
        return self.count_elements()

    def count_elements(self, first: int = 0, last: int | None = None) -> int:
        """Return how many elements its events `[first, last)` add."""
        events = itertools.islice(events_of(self.steps), first, last)
        return sum(isinstance(step, AddStep) for _, step in events)

    def in_rounds(self) -> Source:
        """Return the script without its watermarks."""
        return ScriptSource(tuple(step for step in self.steps if not isinstance(step, WatermarkStep)))


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
