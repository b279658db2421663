"""Sources as values, with everything that a runner needs to read them in process, in a Spark job or in a stream."""

from __future__ import annotations

import abc
import functools
import numbers
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias

import attrs
import numpy as np

from dataflow_model.errors import SourceError, shown
from dataflow_model.plan.columns.replay_clock import first_clock_from, last_clock_before
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.columns.source_columns import BadRow, Columns, DecodedRows, decode_columns, split_columns
from dataflow_model.plan.columns.time_units import TimeUnit, checked_unit
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.functions.dofn import DeadLetter
from dataflow_model.plan.watermarks.estimators import (
    ARRIVAL,
    Arrival,
    AtTheEnd,
    BoundedOutOfOrderness,
    WatermarkEstimator,
)
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import Duration, EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa
    from numpy.typing import NDArray

    from dataflow_model.plan.columns.inferred_columns import ColumnRecord
    from dataflow_model.plan.endpoints.scripts import ScriptSource
    from dataflow_model.time import DurationLike

Keep: TypeAlias = "Callable[[ColumnSource, str], ColumnSource]"
"""Returns what keeps the rows of a source that cannot be read again."""
POLL_INTERVAL: Final = Duration(micros=1_000_000)
RETRY_FOR: Final = Duration(micros=60_000_000)


class Origin(NamedTuple):
    """A part of a source with an order of its own, such as a file or a partition.

    Attributes:
        name: a name that is stable across runs; it orders origins at equal ticks, in natural order.
        rows: the number of rows, or `None` if it is not known: a bounded source is then read once more, to count them;
            an unbounded one has to know it. If positions have gaps, the number of positions from `first` on.
        version: numbers and text that differ when the origin has changed; `None` if it cannot change.
        replaced: in the result of `ColumnSource.poll`, whether a different origin has replaced the known one of this
            name.
        first: the position of its first row, of a source with a `position_column`.
        cursor: what `poll` needs to go on behind the last row that is listed; any JSON value, kept in the checkpoint.
    """

    name: str
    rows: int | None
    version: tuple[int | str, ...] | None = None
    replaced: bool = False
    first: int = 0
    cursor: Any = None

    @property
    def row_count(self) -> int:
        """The number of rows.

        Raises:
            SourceError: if it is not known.
        """
        if self.rows is None:
            raise SourceError(
                f"the origin {self.name!r} of an unbounded source has no number of rows",
                hint="list it with the number of rows that can be read by now: Origin(name, rows)",
            )
        return self.rows


class Known(Protocol):
    """The origins that an earlier poll has listed; from a checkpoint, they may have no versions."""

    def names(self) -> AbstractSet[str]:
        """Return the names of all origins."""
        ...

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed, or `None` if there was none with that name."""
        ...

    def is_read(self, name: str, /) -> bool:
        """Return whether all rows of an origin that were listed have been read."""
        ...

    def has_names_of(self, other: Known) -> bool:
        """Return whether the names are those of an earlier object; `False` if finding out would take long."""
        ...


class ChangeNotifier(Protocol):
    """A file descriptor that becomes readable when a poll of a source may find something new."""

    def watch(self) -> bool:
        """Prepare for a wait; return whether a poll is needed first, since something may have happened before this."""
        ...

    def fileno(self) -> int:
        """Return the descriptor."""
        ...

    def clear(self) -> None:
        """Make the descriptor unreadable until something happens again; called after a wait and before the poll."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...


class Changes(NamedTuple):
    """The result of a poll: the changes since the known origins were listed.

    Attributes:
        origins: the origins that are new, have more rows or another version, or were replaced, in order of name.
        gone: the names of known origins that no longer exist.
        counts: by counter of the source, how much is added to it; a negative number lowers it.
        has_more: whether there is more to list already, so that the next poll does not wait for `poll_interval`.
    """

    origins: list[Origin]
    gone: AbstractSet[str]
    counts: Mapping[str, int] = MappingProxyType({})
    has_more: bool = False


@attrs.frozen
class OriginPosition:
    """How far an origin has been read.

    Attributes:
        position: the position after the last row that was read.
        end: the position after the last row that was listed.
        version: its version; `None` if it cannot change.
        cursor: the cursor with which it was listed.
    """

    position: int
    end: int
    version: tuple[int | str, ...] | None = None
    cursor: Any = None


class Source(abc.ABC):  # noqa: B024 - what a subclass must define depends on how it is read
    """The origin of a collection. To write your own source, subclass `ColumnSource`.

    Sources are values: they can be pickled, and reading a source twice returns the same rows. One of the properties
    `as_columns`, `as_elements`, `as_script` and `as_dataframe` declares how a source is read; runners check these
    properties, never the class.

    Attributes:
        is_bounded: whether the source ends; an unbounded source is polled for new data.
        event_time: the name of a column, `ARRIVAL`, or `None` if the source provides event times itself.
        processing_time: the column of the replay clock, or `None` for the wall clock.
        watermark: the watermark estimator.
        watermark_origins: the parts of the source that each have a watermark.
        id_columns: the columns that together identify a row; empty if its origin and position do.
        gives_rows: whether the elements are rows with named columns.
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
        """The feature that a runner must support to read the source."""
        return Feature.OTHER_SOURCES

    @property
    def as_columns(self) -> ColumnSource | None:
        """The source, if workers read it by ranges of rows; else `None`."""
        return None

    @property
    def as_elements(self) -> ElementsSource | None:
        """The source, if the program holds its elements, which all arrive at the first tick; else `None`."""
        return None

    @property
    def as_script(self) -> ScriptSource | None:
        """The source, if it is a script, which sets the clock and the watermark itself; else `None`."""
        return None

    @property
    def shared_paths(self) -> tuple[str, ...]:
        """Paths that workers must be able to read, which Spark's executors are asked for when a run starts."""
        return ()

    @property
    def as_dataframe(self) -> DataFrameSource | None:
        """The source, if Spark reads it as a DataFrame; else `None`."""
        return None

    @property
    def contents(self) -> str:
        """What `explain()` calls the source."""
        return type(self).__name__

    @property
    def has_own_clock(self) -> bool:
        """Whether the data determine the clock."""
        return self.processing_time is not None

    @property
    def changes(self) -> bool:
        """Whether the contents of the source change during a run."""
        return not self.is_bounded

    @property
    def names_records(self) -> bool:
        """Whether each record has an id: its position, or the values of `id_columns`."""
        return True

    @property
    def may_be_added(self) -> bool:
        """Whether a run can be resumed with this source added."""
        return True

    def follows(self, directory: str) -> bool:
        """Return whether it would read files that a sink of the same stream writes to a directory."""
        del directory
        return False

    def bound(self) -> Self:
        """Return the source with everything that the driver can determine now, such as the schema, stored in it.

        Raises:
            InvalidArgument: if a time column does not exist.
            SourceError: if the data cannot be read.
        """
        return self

    def stated_columns(self) -> pa.Schema | None:
        """Return the columns if the program states them; a checkpoint continues only with the same ones."""
        return None

    def recorded_in(self, record: ColumnRecord) -> Self:
        """Return the source with the columns that the run has recorded, if it infers them from its data.

        Args:
            record: the record of the run. If it is empty, the source records the columns as soon as it knows them.
        """
        del record
        return self

    def size(self) -> int:
        """Return the number of bytes to read, or 0 if it is not known; runs on the driver."""
        return 0

    def row_count(self) -> int | None:
        """Return the number of rows to read, or `None` if it is not known; runs on the driver."""
        return None

    def known_columns(self) -> Sequence[str]:
        """Return the names of the columns, if they are known without reading anything."""
        return ()

    def in_rounds(self) -> Source:
        """Return the source for micro-batch rounds, in which the watermark advances only at the end of the input."""
        assert attrs.has(type(self))  # noqa: S101 - sources are values
        return attrs.evolve(self, watermark=AtTheEnd())  # type: ignore[misc]

    def describe(self) -> str:
        """Return what `explain()` says about the source."""
        clock = "" if self.processing_time is None else f", replayed by the clock in {self.processing_time!r}"
        time = "" if self.event_time is None else f", event time {self.event_time!r}, watermark {self.watermark!r}"
        origins = self.watermark_origins.describe()
        return f"{self.contents}{time}{', ' if origins else ''}{origins}{clock}"


class RowSource(Source):
    """A source of rows in Arrow batches; the rows become named tuples of the columns, in the columns' order."""

    gives_rows: ClassVar[bool] = True
    event_time_unit: TimeUnit | None = None
    """The unit of whole numbers in the time columns; microseconds by default."""

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch from `read` into columns, event times and clock, without creating a Python object per row."""
        return split_columns(batch, self.event_time, self.processing_time, self.event_time_unit)

    def decode(self, batch: pa.RecordBatch) -> DecodedRows:
        """Turn a batch from `read` into named tuples with event times and clock, with the bad rows separate."""
        return decode_columns(self.columns_of(batch))

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as an element of the dead-letter output.

        Args:
            label: the full label of the read.
            origin: where the batch was read from.
            start: the row of the origin at which the batch starts.
            bad: the bad row.
        """
        return DeadLetter(bad.row, label, f"{origin}, {self.where(origin, start + bad.index)}: {bad.reason}", "")

    def refusal(self, label: str, origin: str, start: int, bad: BadRow) -> SourceError:
        """Return the error that stops a run without a dead-letter output; the arguments are those of `dead_letter`."""
        problem = f"{label!r} cannot read {self.where(origin, start + bad.index)} of {origin}"
        row = shown(bad.row) if isinstance(bad.row, str) else repr(bad.row)
        return SourceError(f"{problem}: {bad.reason}; the row is {row}", hint=way_out_for(self, self.advice(bad)))

    def where(self, origin: str, row: int) -> str:
        """Return how messages call a row of an origin."""
        del origin
        return f"row {row}"

    def advice(self, bad: BadRow) -> str:
        """Return what the hint of an error suggests before it says what to do about any bad row."""
        del bad
        return ""


def check_rows_read(label: str, origin: str, start: int, stop: int, end: int) -> None:
    """Raise `SourceError` if a source was asked for rows `[start, stop)` of an origin and has read `[start, end)`.

    Example:
        >>> check_rows_read("rows", "a", 4, 6, 7)
        Traceback (most recent call last):
        ...
        dataflow_model.errors.SourceError: 'rows' was asked for rows 4 to 5 of a, but read rows 4 to 6
        Hint: let `read` of the source end before row `stop`
    """
    if end < stop:
        raise SourceError(
            f"{label!r} read {end} rows of {origin}, which had at least {stop} when it was listed",
            hint="restore the input with which the run began, or start a new run with another checkpoint",
        )
    if end > stop:
        raise SourceError(
            f"{label!r} was asked for rows {start} to {stop - 1} of {origin}, but read rows {start} to {end - 1}",
            hint="let `read` of the source end before row `stop`",
        )


def check_positions(label: str, origin: str, start: int, stop: int, positions: NDArray[np.int64]) -> None:
    """Raise `SourceError` unless positions ascend from `start` on and are less than `stop`.

    Example:
        >>> check_positions("rows", "a", 4, 9, np.array([4, 7, 7]))
        Traceback (most recent call last):
        ...
        dataflow_model.errors.SourceError: 'rows' was asked for positions 4 to 8 of a, each once, but read
            position 7 after 7
        Hint: let `read` of the source yield each row once, in the order of the positions
    """
    earlier = np.concatenate([[start - 1], positions[:-1]])
    wrong = np.flatnonzero((positions <= earlier) | (positions >= stop))
    if len(wrong):
        index = wrong[0]
        after = "first" if index == 0 else f"after {earlier[index]}"
        raise SourceError(
            f"{label!r} was asked for positions {start} to {stop - 1} of {origin}, each once, but read position "
            f"{positions[index]} {after}",
            hint="let `read` of the source yield each row once, in the order of the positions",
        )


def way_out_for(source: Source, advice: str = "") -> str:
    """Return what the hint of an error suggests for the bad rows of a source, behind particular advice."""
    if not source.is_bounded and not source.shared_paths:
        return (
            f"{advice}send such rows to a separate output with .with_exception_handling() and start the run again, "
            "after dataflow-model upgrade if you add a sink for them"
        )
    if not source.is_bounded:
        return (
            f"{advice}send such rows to a separate output with .with_exception_handling() and start the run again, "
            "after dataflow-model upgrade if you add a sink for them; do not edit a file that has been read in part, "
            "since all of its rows would be read again"
        )
    return f"{advice}fix the row, or send such rows to a separate output with .with_exception_handling()"


class ColumnSource(RowSource):
    """A source of rows in columns that can be read by ranges of rows, such as files; subclass it for your own source.

    A runner calls `bound()` once on the driver at plan time and sends the result to its workers.

    Attributes:
        is_typed: whether the data contain the types of the columns, so that skipping a column hides no bad row.
        origins_end: whether an origin of an unbounded source has ended once all its rows have been read, as a file
            has. An origin that may get more rows at any time, such as a partition of a log, holds back a replay clock
            for as long as it is listed.
        holds_rows: whether the rows come with the pipeline. Unless only static side inputs need the source, a
            checkpoint then continues only with the same rows, also if all of them have been read.
        reads_again: whether `read` returns the same rows whenever it is called. Otherwise it is called once for the
            rows that `poll` has just listed, on the driver; they are kept in the checkpoint before they count. A
            bounded run without a checkpoint keeps all rows in memory. Such a source is polled even if it is bounded,
            until it has no more to list; its rows are numbered from 0.
        poll_interval: the least time between two polls of an unbounded source; `None` for that of the runner. A source
            whose notifier reports something new is polled at once.
        transient_errors: the errors after which `origins`, `poll`, `read` and `committed` are called again, after
            pauses that double from 0.1 s up to 10 s, shortened at random. They are counted as `retries`.
        retry_for: how long a call may fail in this way before the run fails.
        sorted_by_clock: whether the rows of each origin are in the order of their replay clock, if they have one. A
            bounded run in process then reads all origins to the same time; otherwise it has to read an origin to its
            end before it knows that a tick is complete.
    """

    is_typed: ClassVar[bool] = False
    origins_end: ClassVar[bool] = False
    holds_rows: ClassVar[bool] = False
    reads_again: ClassVar[bool] = True
    poll_interval: DurationLike | None = POLL_INTERVAL
    transient_errors: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    retry_for: DurationLike = RETRY_FOR
    sorted_by_clock: ClassVar[bool] = False

    @property
    def feature(self) -> Feature:
        """Rows, bounded or followed."""
        return Feature.ROWS if self.is_bounded else Feature.FOLLOWED_ROWS

    @property
    def as_columns(self) -> ColumnSource:
        """The source itself."""
        return self

    @property
    def is_users(self) -> bool:
        """Whether code of the user's reads it, of which nothing can be taken for granted."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    @property
    def position_column(self) -> str | None:
        """The column of int64 with the position of each row in its origin, if positions have gaps; else `None`.

        Positions ascend, such as the offsets of a log, and `read` is asked for a range of them. Without such a column,
        rows are numbered from 0.
        """
        return None

    @property
    def origin_column(self) -> str | None:
        """The column with the name of the origin, if there is one; else `None`.

        A watermark by this column waits for each origin that is listed.
        """
        return None

    def row_count(self) -> int | None:
        """Return the number of rows of its origins, or `None` if one of them does not know its own."""
        counts = [origin.rows for origin in self.origins()]
        return None if None in counts else sum(filter(None, counts))

    def counted_origins(self) -> list[Origin]:
        """Return the origins to read with their numbers of rows, which are counted where they are not known."""
        return [
            origin._replace(rows=sum(batch.num_rows for batch in self.read(origin.name, 0, None)))
            if origin.rows is None
            else origin
            for origin in self._checked_origins()
        ]

    @abc.abstractmethod
    def origins(self) -> list[Origin]:
        """Return the origins to read, in order of name; runs on the driver."""

    def first_origins(self, rows: int | None) -> Iterator[Origin]:
        """Yield the origins that contain the first rows, each with the number of rows to read of it, for a sample.

        Args:
            rows: the maximum number of rows; `None` for all that are there now.
        """
        if rows is None:
            yield from self.origins()
            return
        for origin in self.origins():
            if rows <= 0:
                return
            count = rows if origin.rows is None else min(origin.rows, rows)
            rows -= count
            yield origin._replace(rows=count)

    def poll(self, known: Known, clock: int) -> Changes:
        """Return the new and changed origins; runs on the driver, once per poll of an unbounded source.

        An origin that is listed again with more rows has grown; one marked as replaced is read from its first row.

        Args:
            known: the origins that an earlier poll has listed.
            clock: the wall clock, in microseconds since the epoch; it never goes backward.
        """
        del clock
        origins = self._checked_origins()
        changed = [origin for origin in origins if origin._replace(first=0) != known.get(origin.name)]
        return Changes(changed, known.names() - {origin.name for origin in origins})

    def committed(self, origins: Mapping[str, OriginPosition]) -> None:
        """Take note of what has been read for good, such as to acknowledge it; runs on the driver of a stream.

        It is called after a micro-batch has been committed and its output published, at least once: after a restart, it
        is called again for the last commit. What is acknowledged is never read again.

        Args:
            origins: how far each origin has been read, by name.
        """

    def levels(self, origins: Mapping[str, OriginPosition]) -> Mapping[str, Mapping[str, int]]:
        """Return numbers that go up and down, for a report, by name and origin: how many rows are unread, for example.

        It runs on the driver of a stream, for each report while the stream runs, so it must not take long.

        Args:
            origins: how far each origin has been read, by name, as of the last commit.
        """
        del origins
        return {}

    def ends(self, origin: str) -> bool:
        """Return whether an origin has ended once all its rows have been read; see `origins_end`.

        Args:
            origin: the name of the origin.
        """
        del origin
        return self.origins_end

    def kept(self, keep: Keep, name: str = "") -> ColumnSource:
        """Return the source, or what keeps the rows of a source that cannot be read again.

        Args:
            keep: returns it for a source and a name; sources of which this one consists have names of their own.
            name: the name of this one.
        """
        return self if self.reads_again else keep(self, name)

    def drained(self) -> Self:
        """Return the source for the last poll of a run that ends with what exists now; nothing is waited for."""
        return self

    def notifier(self) -> ChangeNotifier | None:
        """Return what ends a runner's wait for its next poll; `None` if the source has no such thing.

        A runner polls an unbounded source regularly in any case, so an notifier may miss changes.
        """
        return None

    def version_of(self, origin: str) -> tuple[int | str, ...] | None:
        """Return the version of an origin as it is now, or `None` if it cannot change; runs on a worker.

        Args:
            origin: the name of the origin.
        """
        del origin
        return None

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` if an origin has changed since it was listed or read; runs on a worker.

        Args:
            origin: the name of the origin.
            version: the version that it had then.
        """

    def is_missing(self, origin: str) -> bool:
        """Return whether an origin that was listed does not exist any more; runs on a worker, if it cannot be read.

        Its rows are then skipped and counted as `rows_lost`, unless `check_may_skip` raises.

        Args:
            origin: the name of the origin.
        """
        del origin
        return False

    def rows_lost(self, origin: str) -> int:
        """Return how many rows the range that was read last of an origin lacked; runs on a worker, behind each range.

        They are counted as `rows_lost`. A source that must not skip rows raises from `read` instead.

        Args:
            origin: the name of the origin.
        """
        del origin
        return 0

    def awaits_more(self, version: tuple[int | str, ...] | None) -> bool:
        """Return whether an origin all of whose rows have been read holds the beginning of another one.

        Args:
            version: of the origin, as it was listed.
        """
        del version
        return False

    def check_may_skip(self, origin: str, rows: int) -> None:
        """Raise `SourceError` if the unread rows of an origin that has disappeared must not be skipped.

        Args:
            origin: the name of the origin.
            rows: the number of rows of it that earlier micro-batches have read.
        """

    def positions_in(self, batch: pa.RecordBatch, row: int) -> NDArray[np.int64]:
        """Return the positions of the rows of a batch in their origin.

        Args:
            batch: the batch.
            row: the position of its first row, if rows are numbered without gaps.
        """
        if self.position_column is None:
            return np.arange(row, row + batch.num_rows, dtype=np.int64)
        positions: NDArray[np.int64] = batch.column(self.position_column).to_numpy()
        return positions

    @abc.abstractmethod
    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows `[start, stop)` of an origin; runs on a worker.

        Raises:
            SourceError: if the data cannot be read, with the origin, the row and a hint.
        """

    def clock_near(self, origin: str, row: int) -> int | None:
        """Return the replay clock at a row that has no clock value of its own; runs on a worker.

        It is that of the last row before it in its origin that has one, or else that of the first row after it; `None`
        if no row has one. So it does not depend on the range of rows that is read at once.
        """
        if self.processing_time is None:
            return None
        read = functools.partial(self.read, origin)
        last = last_clock_before(read, self.processing_time, row, self.event_time_unit)
        return first_clock_from(read, self.processing_time, row, self.event_time_unit) if last is None else last

    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns' names and types; runs on the driver at plan time."""

    def project(self, columns: Collection[str]) -> Self:
        """Return the source with only these columns and its time columns, if it can skip columns."""
        del columns
        return self

    def row_type(self) -> type[Any]:
        """Return the named tuple type of the rows; runs on the driver at plan time."""
        return row_type(self.schema())

    def _checked_origins(self) -> list[Origin]:
        origins: list[Any] = list(self.origins())
        names: set[str] = set()
        for origin in origins:
            if not isinstance(origin, Origin) or not isinstance(origin.name, str):
                raise SourceError(
                    f"{type(self).__name__} must list origins whose names are text, got {shown(origin)}",
                    hint="return [Origin(name, rows), …] from `origins`",
                )
            if origin.name in names:
                raise SourceError(
                    f"{type(self).__name__} lists two origins named {origin.name!r}",
                    hint="give each part of the source a name of its own",
                )
            rows: Any = origin.rows
            if rows is not None and not (isinstance(rows, numbers.Integral) and int(rows) >= 0):
                raise SourceError(
                    f"the number of rows of the origin {origin.name!r} must not be {rows!r}",
                    hint="list it with a whole number of rows, or with None if that is not known",
                )
            names.add(origin.name)
        return origins


@attrs.frozen(eq=False)
class ElementsSource(Source):
    """Elements that the program holds: the source of `Create`.

    Attributes:
        elements: the values.
        event_times: one per value, or `None` if all are at `MIN_TIMESTAMP`.
    """

    elements: tuple[Any, ...]
    event_times: tuple[EventTime, ...] | None = None

    @property
    def feature(self) -> Feature:
        """The feature `ELEMENTS`."""
        return Feature.ELEMENTS

    @property
    def as_elements(self) -> ElementsSource:
        """The source itself."""
        return self

    def row_count(self) -> int:
        """Return the number of elements."""
        return len(self.elements)

    def in_rounds(self) -> Source:
        """Return the source unchanged, since it ends at the first tick."""
        return self

    def describe(self) -> str:
        """Return the number of elements."""
        count = len(self.elements)
        return f"{count} element{'' if count == 1 else 's'} from the program"


@attrs.frozen(eq=False)
class DataFrameSource(RowSource):
    """Rows of the user's Spark DataFrame, batch or streaming; only Spark runners support it.

    Attributes:
        columns: the columns as they reach the workers.
        origin, sequence: the columns with a row's origin and its position there, or `None`.
    """

    dataframe: Any
    columns: pa.Schema | None = attrs.field(default=None, kw_only=True)
    event_time: str | Arrival | None = ARRIVAL
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    is_bounded: bool = True
    origin: str | None = None
    sequence: str | None = None
    watermark_origins: WatermarkOrigins = EVERYTHING
    id_columns: tuple[str, ...] = ()
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)

    @property
    def feature(self) -> Feature:
        """The feature of a batch or a streaming DataFrame."""
        return Feature.DATAFRAMES if self.is_bounded else Feature.STREAMING_DATAFRAMES

    @property
    def as_dataframe(self) -> DataFrameSource:
        """The source itself."""
        return self

    @property
    def names_records(self) -> bool:
        """Whether columns identify each row, since rows of a DataFrame have no positions."""
        return bool(self.id_columns)

    @property
    def may_be_added(self) -> bool:
        """Whether the DataFrame is bounded: Spark does not resume a query with another streaming source."""
        return self.is_bounded

    def known_columns(self) -> Sequence[str]:
        """Return the DataFrame's columns."""
        names: list[str] = self.dataframe.columns
        return names

    def stated_columns(self) -> pa.Schema | None:
        """Return the columns of a streaming DataFrame; the rows of another one are kept in the checkpoint."""
        return None if self.is_bounded else self.columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the DataFrame, which is a handle that only the driver can use."""
        rest = (self.event_time, self.processing_time, self.watermark, self.is_bounded, self.origin, self.sequence)
        return type(self), (None, *rest, self.watermark_origins, self.id_columns, self.event_time_unit)
