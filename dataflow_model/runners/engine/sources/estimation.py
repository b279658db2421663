"""The watermark of one source, computed from the observations of its origins, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from dataflow_model.plan.watermarks.estimators import (
    ARRIVAL,
    AdaptiveLateness,
    AtTheEnd,
    BoundedOutOfOrderness,
    Explicit,
    Monotonic,
    WallTime,
    max_ahead_of,
)
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.runners.engine.sources.observing import WHOLE, OriginObservations, needs_skew
from dataflow_model.runners.engine.sources.skew import UNKNOWN, SkewSketch, quantiles_of
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.endpoints.sources import Source

NOTHING_YET: Final = int(MIN_TIMESTAMP)
_END: Final = int(MAX_TIMESTAMP)
_CELLS: Final = 2_000_000
"""The maximum number of ticks times origins that are computed at once (some tens of megabytes)."""
_FAR: Final = 86_400_000_000
"""How far ahead of the clock, in microseconds, a watermark is worth a warning: a day."""


class Jump(NamedTuple):
    """An event that has moved a watermark far ahead of the clock: its event time, and the clock when it arrived."""

    event_time: int
    clock: int


@attrs.define
class OriginProgress:
    """The progress of one origin.

    Attributes:
        declared: whether it holds back the watermark before its first record.
        greatest: the greatest event time that the estimator uses.
        peak: the greatest event time of all its records.
        records: the number of records.
        last: its last tick.
        watermark: its watermark after the last complete tick; +∞ once it has ended.
        ended: the tick with which it ended, if it has.
        sketch: the sketch of its skew, if it is needed.
        pending: the observations of ticks that are not complete.
    """

    declared: bool = False
    greatest: int = NOTHING_YET
    peak: int = NOTHING_YET
    records: int = 0
    last: int = NOTHING_YET
    watermark: int = NOTHING_YET
    ended: int | None = None
    sketch: SkewSketch | None = None
    pending: list[OriginObservations] = attrs.field(factory=list, eq=False)

    def end(self) -> None:
        """Record that all its records have been observed."""
        if self.ended is None:
            self.ended = max([self.last, *(int(part.ticks[-1]) for part in self.pending)])

    def take(self, until: int) -> OriginObservations:
        """Remove and return the observations of ticks up to `until`; the rest stays pending."""
        parts, self.pending = self.pending, []
        ticks = np.concatenate([part.ticks for part in parts])
        order = np.argsort(ticks, kind="stable")
        ticks = ticks[order]
        greatest = np.concatenate([part.greatest for part in parts])[order]
        counts = np.concatenate([part.counts for part in parts])[order]
        times = None
        if all(part.times is not None for part in parts):
            times = np.concatenate([part.times for part in parts if part.times is not None])
            at = np.concatenate([np.repeat(part.ticks, part.counts) for part in parts])
            times = times[np.lexsort((times, at))]
        cut = int(np.searchsorted(ticks, until, side="right"))
        records = int(counts[:cut].sum())
        if cut < len(ticks):
            rest = None if times is None else times[records:]
            self.pending = [OriginObservations(parts[0].name, ticks[cut:], greatest[cut:], counts[cut:], rest)]
        taken = None if times is None else times[:records]
        return OriginObservations(parts[0].name, ticks[:cut], greatest[:cut], counts[:cut], taken)


@attrs.frozen(eq=False)
class _Course:
    """One origin over some ticks: its watermark, its progress, its records, whether it counts, and learned delays."""

    watermark: NDArray[np.int64]
    reached: NDArray[np.int64]
    records: NDArray[np.int64]
    holds: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    peak: NDArray[np.int64]
    delays: NDArray[np.int64] | None


@attrs.define
class Settled:
    """The summary of all origins that have ended, instead of one entry for each.

    Attributes:
        origins: the number of origins.
        records: the number of their records.
        newest: the watermark of the newest origin.
    """

    origins: int = 0
    records: int = 0
    newest: int = NOTHING_YET


@attrs.define
class SourceProgress:
    """The progress of a source.

    Attributes:
        origins: the origins of its watermark that have not ended, by name.
        settled: the summary of the other origins.
        low: its low watermark.
        high: its percentiles below 100, in order.
    """

    origins: dict[str, OriginProgress] = attrs.field(factory=dict)
    low: int = NOTHING_YET
    high: tuple[int, ...] = ()
    settled: Settled = attrs.field(factory=Settled)

    def declare(self, names: Iterable[str]) -> None:
        """Declare origins, which hold back the watermark until they have reported."""
        for name in names:
            self.origins.setdefault(name, OriginProgress()).declared = True

    def observe(self, parts: Iterable[OriginObservations]) -> None:
        """Add the observations of a read."""
        for part in parts:
            if len(part.ticks):
                self.origins.setdefault(part.name, OriginProgress()).pending.append(part)

    def end(self, names: Collection[str]) -> None:
        """Record that all records of these origins have been observed."""
        for name in names:
            self.origins.setdefault(name, OriginProgress()).end()

    def move_back(self, to: int, partitions: Iterable[str]) -> None:
        """Set the watermark back, and wait for a new record of each origin that has not ended before it advances.

        Args:
            to: the new watermark; one that is behind it already stays.
            partitions: the origins that the source declares.
        """
        self.declare(partitions)
        if self.low <= to and self.origins:
            return
        self.low, self.high = to if self.low == NOTHING_YET else min(to, self.low), ()
        self.settled.newest = min(self.settled.newest, to)
        for origin in self.origins.values():
            origin.greatest = origin.peak = origin.watermark = NOTHING_YET
            origin.sketch = None
            origin.pending.clear()

    def advance(
        self,
        source: Source,
        ready: NDArray[np.int64],
        percentiles: Sequence[float] = (),
        jumps: list[Jump] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the watermark after each complete tick, and its percentiles in columns; consume the observations.

        The low watermark is the minimum over the origins that count. Idle and ended origins do not count; if no origin
        counts, the watermark stays. The percentile p is the greatest event time that origins with at least p % of the
        weight have reached, where ended origins have reached +∞; with one origin, it is the greatest event time behind
        which at most 100 − p % of its records have been. Neither ever decreases.

        Args:
            source: the source.
            ready: the complete ticks.
            percentiles: the percentiles, lowest first.
            jumps: what the events are added to that move the watermark more than a day ahead of the clock, unless
                `max_ahead` of the estimator says how far it may be.
        """
        if source.watermark_origins.by is None:
            self.declare([WHOLE])
        self.high = self.high or (NOTHING_YET,) * len(percentiles)
        step = max(1, _CELLS // max(1, len(self.origins)))
        lows, highs = [], []
        for start in range(0, len(ready), step):
            low, high = self._advance(source, ready[start : start + step], percentiles, jumps)
            lows.append(low)
            highs.append(high)
        if not lows:
            return np.empty(0, np.int64), np.empty((0, len(percentiles)), np.int64)
        return np.concatenate(lows), np.concatenate(highs)

    def _advance(
        self, source: Source, ready: NDArray[np.int64], percentiles: Sequence[float], jumps: list[Jump] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        followed = sorted(self.origins.items())
        courses = [_follow(name, origin, source, ready, percentiles) for name, origin in followed]
        low = np.full(len(ready), _END, np.int64)
        counted = np.zeros(len(ready), np.bool_)
        for course in courses:
            counts = course.holds & ~course.ended
            low = np.where(counts, np.minimum(low, course.watermark), low)
            counted |= counts
        newest = NOTHING_YET
        if isinstance(source.watermark, OldestFile):  # when all files are finished, since later ones are newer
            newest = max((int(course.watermark[-1]) for course in courses), default=NOTHING_YET)
            newest = max(newest, self.settled.newest)
        low = np.maximum.accumulate(np.maximum(np.where(counted, low, newest), self.low))
        high = np.empty((len(ready), len(percentiles)), np.int64)
        if percentiles and (courses or self.settled.origins):
            if source.watermark_origins.by is None:
                high = _within_one(courses[0], len(percentiles), low)
            else:
                by_records = source.watermark_origins.weight == "records"
                high = _over_origins(courses, self.settled, len(ready), percentiles, by_records=by_records)
        elif percentiles:
            high[:] = NOTHING_YET
        before = np.array([self.high], np.int64).reshape(1, len(percentiles))
        high = np.maximum.accumulate(np.maximum(np.maximum(high, low[:, None]), before), axis=0)
        if jumps is not None and max_ahead_of(source.watermark) is None:
            jumps += _jump(courses, self.low, low, ready)
        self.low = int(low[-1])
        self.high = tuple(high[-1].tolist())
        for (name, origin), course in zip(followed, courses, strict=True):
            if course.ended[-1] and not origin.pending:
                self._settle(name, origin, int(course.watermark[-1]))
        return low, high

    def _settle(self, name: str, origin: OriginProgress, watermark: int) -> None:
        """Move an origin that has ended to the summary of ended origins."""
        del self.origins[name]
        self.settled.origins += 1
        self.settled.records += origin.records
        self.settled.newest = max(self.settled.newest, watermark)


def _follow(
    name: str, origin: OriginProgress, source: Source, ready: NDArray[np.int64], percentiles: Sequence[float]
) -> _Course:
    """Return an origin's course over complete ticks, and consume its observations."""
    reported = origin.last != NOTHING_YET
    none = np.empty(0, np.int64)
    seen = origin.take(int(ready[-1])) if origin.pending else OriginObservations("", none, none, none)
    index = np.searchsorted(seen.ticks, ready, side="right")
    greatest = np.maximum.accumulate(np.concatenate([[origin.greatest], seen.greatest]))
    records = origin.records + np.concatenate([[0], np.cumsum(seen.counts)])
    last = np.concatenate([[origin.last], seen.ticks])[index]
    peaks = greatest
    delays = None
    if needs_skew(source, percentiles):
        peaks, learned = _learn(origin, source, seen, percentiles)
        delays = learned[index]
    holds = np.full(len(ready), origin.declared or reported) | (index > 0)
    idle_after = source.watermark_origins.idle_after
    if idle_after is not None and not isinstance(source.watermark, WallTime):
        # Idleness is measured from the last record; before the first record a declared origin just holds.
        silent = np.where(last == NOTHING_YET, ready, last)
        holds &= ready - silent <= int(idle_after)
    reached = ready if isinstance(source.watermark, WallTime) else greatest[index]
    perfect = source.event_time == ARRIVAL and not isinstance(source.watermark, AtTheEnd)
    watermark = reached if perfect else _estimated(source, reached)
    if isinstance(source.watermark, AdaptiveLateness) and delays is not None:
        watermark = np.where(delays[:, 0] == UNKNOWN, NOTHING_YET, watermark - delays[:, 0])
    if origin.declared and not isinstance(source.watermark, WallTime):
        watermark = np.where(last == NOTHING_YET, NOTHING_YET, watermark)
    if isinstance(source.watermark, OldestFile):  # known before the first record, and not affected by idleness
        watermark = np.full(len(ready), int(source.watermark.created_at(name)), np.int64)
        holds = np.ones(len(ready), np.bool_)
    ended = np.zeros(len(ready), np.bool_) if origin.ended is None else ready >= origin.ended
    course = _Course(watermark, reached, records[index], holds, ended, peaks[index], delays)
    origin.greatest, origin.peak = int(greatest[-1]), int(peaks[-1])
    origin.records, origin.last = int(records[-1]), int(last[-1])
    origin.watermark = _END if ended[-1] else int(watermark[-1])
    return course


def _learn(
    origin: OriginProgress, source: Source, seen: OriginObservations, percentiles: Sequence[float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the greatest event time and the quantiles of the skew, before the first tick and after each tick.

    The quantiles are first that of the estimator, if it has one, then those of the percentiles.
    """
    if origin.sketch is None:
        own = (1 - source.watermark.fraction,) if isinstance(source.watermark, AdaptiveLateness) else ()
        over_one = source.watermark_origins.by is None
        origin.sketch = SkewSketch((*own, *(quantiles_of(percentiles) if over_one or not own else ())))
    # An older version of the pipeline may not have needed a sketch of the observations that are complete only now.
    counts = np.zeros_like(seen.counts) if seen.times is None else seen.counts
    times = np.empty(0, np.int64) if seen.times is None else seen.times
    before = np.array([origin.sketch.learned], np.int64)
    rows = np.repeat(np.arange(len(seen.ticks)), counts)
    tops = np.full(len(seen.ticks), NOTHING_YET, np.int64)
    np.maximum.at(tops, rows, times)
    peaks = np.maximum.accumulate(np.concatenate([[origin.peak], tops]))
    first = np.searchsorted(seen.ticks, seen.ticks, side="left")  # a tick may be in several parts
    earlier = peaks[first[rows]]
    known = earlier > NOTHING_YET
    skews = np.maximum(earlier[known] - times[known], 0)
    ends = np.cumsum(np.bincount(rows[known], minlength=len(seen.ticks)))
    last_of_tick = np.searchsorted(seen.ticks, seen.ticks, side="right") - 1
    complete = np.unique(last_of_tick)
    learned = np.empty((len(seen.ticks), len(origin.sketch.quantiles)), np.int64)
    learned[complete] = origin.sketch.follow(skews, ends[complete])
    return peaks, np.concatenate([before, learned[last_of_tick]])


def _estimated(source: Source, reached: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the estimator's watermark for the progress of an origin."""
    match source.watermark:
        case BoundedOutOfOrderness(delay=delay) | WallTime(delay=delay):
            behind = np.maximum(reached, NOTHING_YET + int(delay)) - int(delay)
            return np.where(reached == NOTHING_YET, NOTHING_YET, behind)
        case Monotonic() | Explicit() | AdaptiveLateness():
            return reached
        case AtTheEnd():
            return np.full(len(reached), NOTHING_YET, np.int64)
        case estimator:
            distinct, inverse = np.unique(reached, return_inverse=True)
            values = [int(estimator.watermark(EventTime(int(value)))) for value in distinct]
            return np.array(values, np.int64)[inverse]


def _jump(courses: Sequence[_Course], before: int, low: NDArray[np.int64], ready: NDArray[np.int64]) -> list[Jump]:
    """Return the event that first moves the watermark far ahead of the clock, if one does."""
    moved = low > np.concatenate([[before], low[:-1]])
    rows = np.flatnonzero(moved & (low > np.minimum(ready, _END - _FAR) + _FAR))
    if not len(rows):
        return []
    row = int(rows[0])
    reached = [int(course.reached[row]) for course in courses if course.watermark[row] == low[row]]
    return [Jump(max(reached, default=int(low[row])), int(ready[row]))]


def _within_one(course: _Course, count: int, low: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the percentiles of the only origin: its greatest event time minus a quantile of its skew."""
    if course.delays is None:
        return np.repeat(low[:, None], count, axis=1)
    delays = course.delays[:, -count:]
    unknown = (delays == UNKNOWN) | (course.peak == NOTHING_YET)[:, None]
    return np.where(unknown, NOTHING_YET, course.peak[:, None] - delays)


def _over_origins(
    courses: Sequence[_Course], settled: Settled, ticks: int, percentiles: Sequence[float], *, by_records: bool
) -> NDArray[np.int64]:
    """Return, for each p, the greatest event time that origins with at least p % of the weight have reached."""
    ended = np.full(ticks, _END, np.int64)  # the origins that had already ended
    values = np.stack([ended, *(np.where(course.ended, _END, course.watermark) for course in courses)], axis=1)
    always = np.ones(ticks, np.bool_)
    counts = np.stack([always, *(course.holds | course.ended for course in courses)], axis=1)
    weights = counts.astype(np.int64)
    weights[:, 0] = settled.origins
    if by_records:
        before = np.full(ticks, settled.records, np.int64)
        records = np.stack([before, *(course.records for course in courses)], axis=1)
        # The weight of an origin that has not reported is unknown, so there is no percentile until all have.
        missing = (counts & (records == 0) & (values != _END)).any(axis=1)
        weights = np.where(missing[:, None], 0, counts * records)
    order = np.argsort(values, axis=1, kind="stable")[:, ::-1]
    values, weights = np.take_along_axis(values, order, axis=1), np.take_along_axis(weights, order, axis=1)
    reached = np.cumsum(weights, axis=1)
    total = reached[:, -1]
    columns = []
    for percentile in percentiles:
        index = np.argmax(reached * 100 >= (percentile * total)[:, None], axis=1)
        value = np.take_along_axis(values, index[:, None], axis=1)[:, 0]
        columns.append(np.where(total > 0, value, NOTHING_YET))
    return np.stack(columns, axis=1)
