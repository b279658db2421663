"""Records as a source's reads see them, cut at will; and the watermark by the plainest means."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.watermarks.estimators import max_ahead_of
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.runners.engine.sources.observing import NamedRows, Observations, Observer
from dataflow_model.runners.engine.sources.timeline import Awaited, ReplayProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = int(dm.MIN_TIMESTAMP)
END = int(dm.MAX_TIMESTAMP)


class Record(NamedTuple):
    """One record of a source."""

    tick: int
    time: int
    partition: str
    closes: bool = False


@attrs.frozen
class Rows(Source):
    """A source of such records."""

    watermark: Any = attrs.field(factory=dm.Monotonic)
    watermark_origins: WatermarkOrigins = EVERYTHING
    event_time: Any = "time"
    processing_time: str | None = "tick"


@attrs.frozen
class Doubling:
    """An estimator of a user's own: twice the greatest event time."""

    max_ahead: dm.Duration | None = None

    def watermark(self, reached: dm.EventTime) -> dm.EventTime:
        return reached if reached == dm.MIN_TIMESTAMP else dm.EventTime(2 * int(reached))


def records(most_ticks: int = 12, partitions: str = "abc") -> st.SearchStrategy[list[Record]]:
    """Draw records in order of their ticks, several to a tick, out of order in event time."""
    drawn_records = st.builds(
        Record,
        tick=st.integers(0, most_ticks),
        time=st.integers(0, 100),
        partition=st.sampled_from(partitions),
        closes=st.booleans(),
    )
    return st.lists(drawn_records, min_size=1, max_size=40).map(
        lambda drawn: sorted(drawn, key=lambda record: record.tick)
    )


def estimators() -> st.SearchStrategy[Any]:
    """Draw an estimator, perhaps with a limit on how far ahead of the clock event times may be."""
    lengths = st.builds(dm.Duration, micros=st.integers(0, 20))
    return st.one_of(
        st.builds(dm.WallTime, lengths),
        st.builds(dm.Monotonic, max_ahead=limits()),
        st.builds(dm.BoundedOutOfOrderness, lengths, max_ahead=limits()),
        st.builds(dm.Explicit, st.just(lambda record: record.closes), max_ahead=limits()),
        st.builds(dm.AdaptiveLateness, st.sampled_from([0.5, 0.2]), max_ahead=limits()),
        st.builds(Doubling, max_ahead=limits()),
    )


def limits() -> st.SearchStrategy[dm.Duration | None]:
    """Draw a `max_ahead`."""
    return st.none() | st.builds(dm.Duration, micros=st.integers(0, 90))


def origins(partitions: str = "abc") -> st.SearchStrategy[WatermarkOrigins]:
    """Draw what the origins are."""
    by_column = st.builds(
        WatermarkOrigins,
        by=st.just("partition"),
        partitions=st.lists(st.sampled_from(partitions), max_size=2),
        idle_after=st.none() | st.builds(dm.Duration, micros=st.integers(1, 8)),
        weight=st.sampled_from(["origins", "records"]),
    )
    return st.just(EVERYTHING) | by_column


def read(
    source: Source, records: Sequence[Record], percentiles: Sequence[float] = (), origin: str = "f"
) -> Observations:
    """Return what one read of some records tells."""
    observer = Observer("source", origin, source, percentiles)
    observer.take(
        np.array([record.tick for record in records], np.int64),
        np.array([record.time for record in records], np.int64),
        NamedRows(records),
    )
    return observer.seen()


Course = dict[int, tuple[int, ...]]
"""By tick, the low watermark and the percentiles after it."""


def course(source: Source, bundles: Sequence[Sequence[Sequence[Record]]], percentiles: Sequence[float] = ()) -> Course:
    """Return the source's watermarks where each bundle is read in some parts and the last one ends the input."""
    progress = ReplayProgress()
    progress.declare("source", source.watermark_origins.partitions)
    by_tick: Course = {}
    for number, parts in enumerate(bundles):
        last = number == len(bundles) - 1
        progress.observe([read(source, part, percentiles) for part in parts if part])
        ended = ("source",) if last else ()
        open_origins = () if last else (("source", "f"),)
        timeline = progress.timeline({"source": source}, open_origins, ended, None, Awaited(tuple(percentiles)))
        for (tick, step), watermarks in zip(timeline.at, timeline.watermarks["source"], strict=True):
            if step == 0:
                by_tick[tick] = (watermarks.low, *watermarks.percentiles)
    return by_tick


def plain_course(source: Rows, seen: Sequence[Record], percentiles: Sequence[float] = ()) -> Course:
    """Return the same for estimators that know no skew, from scratch for each tick."""
    by_tick: Course = {}
    before = (NOTHING,) * (1 + len(percentiles))
    by_column = source.watermark_origins.by is not None
    for tick in sorted({record.tick for record in seen}):
        limit = max_ahead_of(source.watermark)
        past = [
            record
            for record in seen
            if record.tick <= tick and (limit is None or record.time - record.tick <= int(limit))
        ]
        names = {record.partition if by_column else "" for record in past} | set(source.watermark_origins.partitions)
        reached: dict[str, tuple[int, int]] = {}  # watermark and weight of those that count
        for name in names:
            own = [record for record in past if not by_column or record.partition == name]
            idle_after = source.watermark_origins.idle_after
            waits_for_clock = isinstance(source.watermark, dm.WallTime)
            if own and idle_after is not None and tick - own[-1].tick > int(idle_after) and not waits_for_clock:
                continue
            reached[name] = (_plain_watermark(source, own, tick), len(own))
        least = min((watermark for watermark, _ in reached.values()), default=NOTHING)
        values = [least, *(_plain_percentile(source, reached, percentile, least) for percentile in percentiles)]
        low, *high = map(max, values, before)
        before = (low, *(max(value, low) for value in high))
        by_tick[tick] = before
    return by_tick


def _plain_watermark(source: Rows, own: Sequence[Record], tick: int) -> int:
    estimator = source.watermark
    if isinstance(estimator, dm.WallTime):
        return tick - int(estimator.delay)
    if isinstance(estimator, dm.Explicit):
        own = [record for record in own if record.closes]
    greatest = max((record.time for record in own), default=NOTHING)
    return int(estimator.watermark(dm.EventTime(greatest)))


def _plain_percentile(source: Rows, reached: dict[str, tuple[int, int]], percentile: float, low: int) -> int:
    by_records = source.watermark_origins.weight == "records"
    if by_records and any(not weight for _, weight in reached.values()):
        return low
    total = sum(weight if by_records else 1 for _, weight in reached.values())
    candidates = sorted({watermark for watermark, _ in reached.values()}, reverse=True)
    for candidate in candidates:
        there = sum(weight if by_records else 1 for watermark, weight in reached.values() if watermark >= candidate)
        if there * 100 >= percentile * total:
            return candidate
    return low


def cut(draw: Any, items: Sequence[Any], parts: int) -> list[list[Any]]:
    """Cut a list into runs, some of them empty perhaps."""
    bounds = sorted(draw(st.lists(st.integers(0, len(items)), min_size=parts - 1, max_size=parts - 1)))
    return [list(items[first:last]) for first, last in itertools.pairwise([0, *bounds, len(items)])]
