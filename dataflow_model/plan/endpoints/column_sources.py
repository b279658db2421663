"""Sources of rows that workers read by ranges: what files, logs and users' own sources have in common."""

from __future__ import annotations

import abc
import functools
import numbers
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

import numpy as np

from dataflow_model.errors import SourceError, shown
from dataflow_model.plan.columns.replay_clock import first_clock_from, last_clock_before
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.origins import ChangeNotifier, Changes, Known, Origin, OriginPosition
from dataflow_model.plan.endpoints.sources import RowSource
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from dataflow_model.time import DurationLike

Keep: TypeAlias = "Callable[[ColumnSource, str], ColumnSource]"
"""Returns what keeps the rows of a source that cannot be read again."""
POLL_INTERVAL: Final = Duration(micros=1_000_000)
RETRY_FOR: Final = Duration(micros=60_000_000)


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
