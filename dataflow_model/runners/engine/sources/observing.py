"""The observations of a read, for the watermark: summaries by origin and tick that can be merged in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.columns.rows import rows_of, values_of
from dataflow_model.plan.endpoints.retries import RETRIES
from dataflow_model.plan.watermarks.estimators import ARRIVAL, TOO_FAR_AHEAD, AdaptiveLateness, Explicit, max_ahead_of
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.lanes.uniform import uniform
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.columns.source_columns import Columns
    from dataflow_model.plan.endpoints.sources import Source

WHOLE: Final = ""
"""The watermark origin of a source that has only one."""
FILES_SKIPPED: Final = "files_skipped"
"""The counter of files that disappeared before any of their rows was read."""
ROWS_LOST: Final = "rows_lost"
"""The counter of rows that were listed but not read, since they were removed or replaced before."""
_NONE: Final = int(MIN_TIMESTAMP)
_END: Final = int(MAX_TIMESTAMP)
_PUNCTUATION: Final = "let the function of dm.Explicit return False for such a row"


@attrs.frozen(eq=False)
class OriginObservations:
    """The observations of one origin of the watermark.

    Attributes:
        name: the origin.
        ticks: the values of the clock, ascending.
        greatest: for each tick, the greatest event time that the estimator uses; −∞ if there is none.
        counts: for each tick, the number of records.
        times: the event times of all records, tick by tick and ascending within a tick; `None` if they are not needed.
    """

    name: str
    ticks: NDArray[np.int64]
    greatest: NDArray[np.int64]
    counts: NDArray[np.int64]
    times: NDArray[np.int64] | None = None


@attrs.frozen(eq=False)
class Observations:
    """The observations of one read of a row range.

    Attributes:
        label: the source's label.
        origin: the origin that was read.
        ticks: the distinct values of the clock, ascending.
        parts: the observations by origin of the watermark.
        version: the version of the origin that was read; `None` if it cannot change.
        too_far: the number of records that are in no part, since they are too far ahead of the clock.
        skipped: the range of rows that could not be read, since the origin has disappeared; `None` if it was read.
        unplaced: the records themselves instead of `parts`, if they may be too far ahead of a clock that is not known
            where they are read.
        retries: how often reading failed.
        lost: the number of rows that could not be read, since the origin has lost them.
    """

    label: str
    origin: str
    ticks: NDArray[np.int64]
    parts: tuple[OriginObservations, ...] = ()
    version: tuple[int | str, ...] | None = None
    too_far: int = 0
    unplaced: _Records | None = None
    skipped: tuple[int, int] | None = None
    retries: int = 0
    lost: int = 0

    def counts(self) -> dict[str, int]:
        """Return the counters of the records that are too far ahead, of rows that are lost, and of retries, if any."""
        counts = {TOO_FAR_AHEAD: self.too_far} if self.too_far else {}
        if self.retries:
            counts[RETRIES] = self.retries
        if self.skipped is not None:
            start, stop = self.skipped
            counts |= {FILES_SKIPPED: int(start == 0), ROWS_LOST: stop - start}
        if self.lost:
            counts[ROWS_LOST] = counts.get(ROWS_LOST, 0) + self.lost
        return counts


@attrs.frozen(eq=False)
class _Records:
    """Records in columns, and rows that are none.

    Attributes:
        ticks, times: the clock value and the event time of each; −∞ for a row that is no record.
        marks: the event times that the estimator uses; −∞ for those that it ignores.
        names: the origin of the watermark of each, `None` for a row that is no record; `None` if all have the same.
    """

    ticks: NDArray[np.int64]
    times: NDArray[np.int64]
    marks: NDArray[np.int64]
    names: NDArray[np.object_] | None = None

    def take(self, rows: NDArray[Any]) -> _Records:
        """Return some of them."""
        names = None if self.names is None else self.names[rows]
        return _Records(self.ticks[rows], self.times[rows], self.marks[rows], names)

    def near(self, limit: int) -> _Records:
        """Return those that are at most `limit` ahead of the clock."""
        far = self.times > np.minimum(self.ticks, _END - limit) + limit
        return self.take(np.flatnonzero(~far)) if far.any() else self

    def parts(self, origin: str, *, with_times: bool) -> tuple[OriginObservations, ...]:
        """Return the summaries by origin of the watermark; `origin` is the only one if they have no names."""
        if not len(self.ticks):
            return ()
        if self.names is None:
            return (self._part(origin, with_times=with_times),)
        return tuple(
            self.take(np.flatnonzero(self.names == name))._part(name, with_times=with_times)  # noqa: SLF001
            for name in sorted({name for name in self.names.tolist() if name is not None})
        )

    def _part(self, name: str, *, with_times: bool) -> OriginObservations:
        ticks, times, marks = self.ticks, self.times, self.marks
        if (ticks[1:] < ticks[:-1]).any():
            order = np.argsort(ticks, kind="stable")
            ticks, times, marks = ticks[order], times[order], marks[order]
        starts = np.flatnonzero(np.concatenate([[True], ticks[1:] != ticks[:-1]]))
        counts = np.add.reduceat((times > _NONE).astype(np.int64), starts)
        sorted_times = None
        if with_times:
            records = times > _NONE
            sorted_times = times[records][np.lexsort((times[records], ticks[records]))]
        return OriginObservations(name, ticks[starts], np.maximum.reduceat(marks, starts), counts, sorted_times)


class Rows(Protocol):
    """Records that an estimator may read, and columns that may name origins."""

    def elements(self) -> Sequence[Any]:
        """Return the records as elements."""
        ...

    def column(self, name: str) -> Sequence[Any]:
        """Return a column's values."""
        ...


@attrs.frozen(eq=False)
class GoodRows:
    """The rows of a batch that are elements.

    Attributes:
        batch: the rows.
        event_times, clock: the event time and the clock value of each row.
        positions: the position of each row in its origin.
    """

    batch: pa.RecordBatch
    event_times: NDArray[np.int64]
    clock: NDArray[np.int64]
    positions: NDArray[np.int64]

    @classmethod
    def of(cls, columns: Columns, wall: int, positions: NDArray[np.int64]) -> Self:
        """Return the good rows of a batch.

        Args:
            columns: the batch.
            wall: the tick of all rows, if there is no replay clock.
            positions: the position of each row of the batch.
        """
        batch, event_times, clock = columns.batch, columns.event_times, columns.clock
        if columns.valid is not None:
            good = np.flatnonzero(columns.valid)
            positions = positions[good]
            batch = batch.take(pa.array(good))
            event_times = None if event_times is None else event_times[good]
            clock = None if clock is None else clock[good]
        if clock is None:
            clock = uniform(wall, batch.num_rows)
        return cls(batch, clock if event_times is None else event_times, clock, positions)

    def elements(self) -> list[Any]:
        """Return the rows as named tuples."""
        return rows_of(self.batch)

    def column(self, name: str) -> list[Any]:
        """Return a column's values."""
        return values_of(self.batch.column(name))


@attrs.frozen
class NamedRows:
    """Records that are named tuples already."""

    values: Sequence[Any]

    def elements(self) -> Sequence[Any]:
        """Return the records."""
        return self.values

    def column(self, name: str) -> Sequence[Any]:
        """Return a field of each record; not every name of a column is an attribute."""
        index = self.values[0]._fields.index(name) if self.values else 0
        return [value[index] for value in self.values]


def needs_skew(source: Source, percentiles: Sequence[float]) -> bool:
    """Return whether every record's event time is needed, by an estimator that learns from them or by a percentile."""
    if source.event_time == ARRIVAL:
        return False
    return isinstance(source.watermark, AdaptiveLateness) or bool(percentiles and source.watermark_origins.by is None)


def distinct(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ticks in order, each once; many times faster than `np.unique` where long runs are in order.

    Example:
        >>> distinct(np.array([7, 3, 3])).tolist()
        [3, 7]
    """
    rising = np.sort(ticks, kind="stable") if (ticks[1:] < ticks[:-1]).any() else ticks
    return rising[np.concatenate([[True], rising[1:] != rising[:-1]])] if len(rising) else rising


class Observer:
    """Collects the observations of one read.

    Args:
        label: the source's label.
        origin: the origin that is read.
        source: the source.
        percentiles: the percentiles below 100 that the plan's triggers wait for.
    """

    def __init__(self, label: str, origin: str, source: Source, percentiles: Sequence[float] = ()) -> None:
        self._label, self.origin, self._source = label, origin, source
        self._skews = needs_skew(source, percentiles)
        self._limit = _limit_of(source)
        self._ticks: list[NDArray[np.int64]] = []
        self._times: list[NDArray[np.int64]] = []
        self._marks: list[NDArray[np.int64]] = []
        self._names: list[Sequence[Any]] = []

    def take(self, ticks: NDArray[np.int64], times: NDArray[np.int64], rows: Rows) -> None:
        """Observe some records, with the clock value and the event time of each."""
        if not len(ticks):
            return
        self._ticks.append(ticks)
        self._times.append(times)
        estimator, by = self._source.watermark, self._source.watermark_origins.by_column
        if isinstance(estimator, Explicit):
            is_mark = np.array(self._punctuations(estimator, rows.elements()), np.bool_)
            self._marks.append(np.where(is_mark, times, _NONE))
        if by is not None:
            self._names.append([str(name) for name in rows.column(by)])

    def _punctuations(self, estimator: Explicit, rows: Iterable[Any]) -> list[bool]:
        """Return for each row whether it is a punctuation, as the user's function says."""
        row, marks = None, []
        try:
            for row in rows:
                marks.append(bool(estimator.punctuation(row)))
        except BaseException as error:
            raise user_error(error, self._label, row, hint=_PUNCTUATION) from error
        return marks

    def pass_over(self, ticks: NDArray[np.int64]) -> None:
        """Observe the clock values of rows that are not records."""
        if len(ticks):
            self._ticks.append(ticks)
            self._times.append(np.full(len(ticks), _NONE, np.int64))
            self._marks.append(self._times[-1])
            self._names.append([None] * len(ticks))

    def seen(self, version: tuple[int | str, ...] | None = None) -> Observations:
        """Return what has been observed since the last call, of an origin that was read in a version of it."""
        if not self._ticks:
            return Observations(self._label, self.origin, np.empty(0, np.int64), version=version)
        ticks, times = np.concatenate(self._ticks), np.concatenate(self._times)
        marks = np.concatenate(self._marks) if isinstance(self._source.watermark, Explicit) else times
        by = self._source.watermark_origins.by
        names = None
        if by is not None and by != "file":
            names = np.array([name for batch in self._names for name in batch], dtype=object)
        self._ticks, self._times, self._marks, self._names = [], [], [], []
        records = _Records(ticks, times, marks, names)
        observations = Observations(self._label, self.origin, distinct(ticks), version=version)
        if self._limit is not None and observations.ticks[0] == _NONE:
            return attrs.evolve(observations, unplaced=records)
        return _summarised(observations, records, self._source, self._limit, with_times=self._skews)


def at_tick(seen: Observations, tick: int, source: Source, percentiles: Sequence[float]) -> Observations:
    """Return the observations of records whose tick was not known where they were read.

    Args:
        seen: the observations.
        tick: the tick.
        source: the source.
        percentiles: the percentiles below 100 that the plan's triggers wait for.
    """
    now = np.full(1, tick, np.int64)
    records = seen.unplaced
    if records is None:
        return attrs.evolve(seen, ticks=now, parts=tuple(attrs.evolve(part, ticks=now) for part in seen.parts))
    records = attrs.evolve(records, ticks=np.full(len(records.ticks), tick, np.int64))
    placed = attrs.evolve(seen, ticks=now, unplaced=None)
    return _summarised(placed, records, source, _limit_of(source), with_times=needs_skew(source, percentiles))


def _summarised(
    observations: Observations, records: _Records, source: Source, limit: int | None, *, with_times: bool
) -> Observations:
    """Return observations with the summaries of records, without those that are too far ahead of the clock.

    For the watermark those do not exist, so an origin that sends nothing else does not count, and may become idle.
    """
    near = records if limit is None else records.near(limit)
    origin = WHOLE if source.watermark_origins.by is None else observations.origin
    too_far = len(records.ticks) - len(near.ticks)
    return attrs.evolve(observations, parts=near.parts(origin, with_times=with_times), too_far=too_far)


def _limit_of(source: Source) -> int | None:
    """Return how far ahead of the clock a record may be to move the watermark of a source; `None` for no limit."""
    limit = max_ahead_of(source.watermark)
    return None if limit is None else int(limit)
