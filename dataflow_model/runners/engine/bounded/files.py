"""Rows of bounded sources, each at its tick of the clock."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.plan.endpoints.column_sources import check_rows_read
from dataflow_model.plan.endpoints.retries import RETRIES, retried
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.collections.kept import course_of, kept_outputs
from dataflow_model.runners.engine.functions.user_code import exits_reported, source_calls
from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of
from dataflow_model.runners.engine.lanes.order import name_of_origin
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane, RowOrders
from dataflow_model.runners.engine.lanes.value_lanes import RowValues
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane
from dataflow_model.runners.engine.sources.estimation import NOTHING_YET
from dataflow_model.runners.engine.sources.in_program import event_numbers, static_bundles
from dataflow_model.runners.engine.sources.observing import WHOLE, Observations, Observer
from dataflow_model.runners.engine.sources.reading import Version, check_unchanged, opened, read_rows
from dataflow_model.runners.engine.sources.timeline import ReplayProgress, Timeline
from dataflow_model.time import ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.origins import Origin
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.machines.shard import Arrivals
    from dataflow_model.runners.engine.sources.timeline import Awaited

_ASSUMED_OUTPUTS: Final = 16
"""How many outputs a row may have until some rows have been run."""


@attrs.frozen
class ListedSource:
    """A source of rows with its origins, as they were when the run started.

    Attributes:
        label: the label of the source.
        origins: all origins.
        read: how many of them are read, from the first: the rest is not needed once all panes have been emitted.
        retries: how often listing them failed.
    """

    label: str
    origins: tuple[Origin, ...]
    read: int
    retries: int = 0


def list_sources(reads: Sequence[Read], awaited: Awaited) -> list[ListedSource]:
    """List the origins of sources of rows.

    Args:
        reads: the sources.
        awaited: the percentiles that the plan's triggers wait for.
    """
    listed = []
    for read in reads:
        source = _columns_of(read)
        with exits_reported(read.label), source_calls(read.label, "origins", source.is_users):
            counts: Counter[str] = Counter()
            origins = tuple(retried(source, read.label, "origins", source.counted_origins, counts))
        count = len(origins)
        if source.watermark_origins.by == "file" and source.processing_time is None:
            count = next((done for done in range(count) if _is_enough(source, origins, done, awaited)), count)
        listed.append(ListedSource(read.label, origins, count, counts[RETRIES]))
    return listed


class SourceTimeline:
    """The ticks of bounded sources, and the watermarks of the sources at each, from what reading them observes.

    Args:
        reads: all sources, those whose elements are in the program last.
        listed: the sources of rows.
        clock: the tick of all rows of sources without a replay clock.
        awaited: the percentiles that the plan's triggers wait for.
    """

    def __init__(self, reads: Sequence[Read], listed: Sequence[ListedSource], clock: int, awaited: Awaited) -> None:
        self._sources = {read.label: read.source for read in reads}
        self._awaited = awaited
        self._progress = ReplayProgress()
        self._observed: list[Observations] = []
        self._counts: dict[str, Counter[str]] = {}
        self._open: dict[tuple[str, str], None] = {}
        columns = {label: source.as_columns for label, source in self._sources.items()}
        self._unsorted = {label for label, source in columns.items() if source and not source.sorted_by_clock}
        self._complete = NOTHING_YET
        for rows in listed:
            origins = self._sources[rows.label].watermark_origins
            self._progress.declare(rows.label, origins.partitions)
            if origins.by == "file":
                self._progress.declare(rows.label, [origin.name for origin in rows.origins])
            self._open.update(((rows.label, origin.name), None) for origin in rows.origins[: rows.read])
            if rows.retries:
                self._counts[rows.label] = Counter({RETRIES: rows.retries})
        for label, source in self._sources.items():
            course = course_of(source)
            if course is not None:
                self._observed.append(Observations(label, WHOLE, course.clocks(0)))
        self.is_replayed = any(source.has_own_clock for source in self._sources.values())
        self._wall = None if self.is_replayed else clock

    @property
    def is_over(self) -> bool:
        """Whether all panes have been emitted, so that the rest of the input is not needed."""
        return self._progress.enough

    def begin(self, label: str, origin: str, tick: int) -> None:
        """Note that an origin that is not read yet has no rows before a tick."""
        self._progress.reached[label, origin] = tick

    def take(self, seen: Observations) -> None:
        """Take observations, in any order but that of the ticks that are complete.

        Raises:
            SourceError: if a row is behind the clock.
        """
        if len(seen.ticks) and seen.ticks[0] < self._complete:
            raise SourceError(
                f"{seen.origin}, which {seen.label!r} reads, is not sorted by its replay clock: a row at "
                f"{ProcessingTime(int(seen.ticks[0]))!r} follows one at {ProcessingTime(self._complete)!r} or later",
                hint=f"sort each origin by {self._sources[seen.label].processing_time!r}, or leave `sorted_by_clock` "
                "of the source False: all of its rows are then held until the last one has been read",
            )
        self._observed.append(seen)
        self._counts.setdefault(seen.label, Counter()).update(seen.counts())

    def end(self, label: str, origin: str) -> None:
        """Note that all rows of an origin have been taken."""
        self._observe()
        self._open.pop((label, origin), None)
        if self._sources[label].watermark_origins.by == "file":
            self._progress.end(label, [origin])

    def end_all(self) -> None:
        """Note that all rows of all origins have been taken."""
        for label, origin in list(self._open):
            self.end(label, origin)

    def next(self, *, is_last: bool = True) -> Timeline:
        """Return the ticks that are complete now, and have not been returned before.

        Args:
            is_last: whether all rows have been taken. Otherwise the only tick without a replay clock is open: there is
                no watermark yet.
        """
        if self._wall is not None and not is_last:
            lane = WatermarkLane.of([MIN_WATERMARKS])
            return Timeline(InstantLane.of([(self._wall, 0)]), [False], dict.fromkeys(self._sources, lane))
        open_origins = tuple(self._open)
        labels = {label for label, _ in open_origins}
        if not labels.isdisjoint(self._unsorted):
            return Timeline()
        self._observe()
        ended = tuple(label for label in self._sources if label not in labels)
        bound = self._progress.bound(open_origins)
        self._complete = NOTHING_YET if bound is None else bound
        timeline = self._progress.timeline(self._sources, open_origins, ended, self._wall, self._awaited)
        if len(timeline):
            timeline.counts, self._counts = self._counts, {}
        if not self.is_replayed:  # at the only tick, nothing is late yet
            timeline.jumps.clear()
        return timeline

    def _observe(self) -> None:
        observed, self._observed = self._observed, []
        if observed:
            self._progress.observe(observed)


class PartRead(NamedTuple):
    """Rows of an origin that have been read and run through the transforms that are fused with the source.

    Attributes:
        rows: the number of rows; none in a source in the program.
        stop: the row after the last one in the origin.
        seen: the observations.
    """

    rows: int
    stop: int
    seen: Observations


class RowReader:
    """Reads sources of rows, and runs the transforms that are fused with them.

    Args:
        staged: the plan.
        clock: the tick of all rows of sources without a replay clock.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        awaited: the percentiles that the plan's triggers wait for.

    Attributes:
        waiting: the number of elements that have not arrived.
    """

    def __init__(
        self, staged: StagedPlan, clock: int, through: Callable[[str, str, Bundle], Arrivals], awaited: Awaited
    ) -> None:
        self._staged, self._clock, self._through, self._awaited = staged, clock, through, awaited
        self._gathered: dict[str, list[tuple[Bundle, NDArray[np.int64]]]] = {}
        self._outputs_per_row = _ASSUMED_OUTPUTS
        self.waiting = 0

    def read(
        self,
        read: Read,
        origin: str,
        start: int = 0,
        stop: int | None = None,
        *,
        listed: int = 0,
        first: int = 0,
        version: Version = None,
        most: int = sys.maxsize,
    ) -> Iterator[PartRead]:
        """Read rows `[start, stop)` of an origin batch by batch.

        Args:
            read: the source.
            origin: the name of the origin.
            start: the first row.
            stop: the row after the last; `None` reads to the end.
            listed: the number of rows that the origin had when it was listed, if it is read to the end.
            most: the number of rows in a batch at most, and of its outputs if a row has as many as those before it.
            first: the position of its first row, if positions have gaps.
            version: the version that it had when it was listed; that of an origin without gaps is not checked.
        """
        source = _columns_of(read)
        has_gaps = source.position_column is not None
        if has_gaps and stop is None:
            stop = listed
        start, stop = start + first, None if stop is None else stop + first
        observer = Observer(read.label, origin, source, self._awaited.percentiles)
        name = name_of_origin(read.label, origin)
        counts: Counter[str] = Counter()
        batches = opened(source, read.label, origin, start, stop, counts)
        if batches is None:
            skipped = start, listed if stop is None else stop
            unread = Observations(read.label, origin, np.empty(0, np.int64), skipped=skipped)
            yield PartRead(0, start - first, unread)
            return
        row = start
        parts = self._in_parts(batches, most)
        for part in read_rows(read, source, observer, parts, start, stop, base=0, wall=self._clock):
            rows = part.rows
            orders: Any = RowOrders.of_origin(name, rows.positions)
            times, ticks = Integers(rows.event_times), Integers(rows.clock)
            bundle = Bundle.fresh(RowValues(pa.Table.from_batches([rows.batch])), times, orders, ticks)
            outputs = self._gather(self._through(read.label, MAIN, bundle))
            if read.dead_letters is not None and part.letters:
                outputs += self._gather(self._through(read.label, read.dead_letters, part.letters))
            self._note_outputs(outputs, part.count)
            yield PartRead(part.count, part.stop - first, observer.seen())
            row = part.stop
        if has_gaps and version is not None:
            check_unchanged(source, origin, version)
        if stop is None and source.is_users and row < listed:
            check_rows_read(read.label, origin, start, listed, row)
        none = np.empty(0, np.int64)
        rest = Observations(read.label, origin, none, retries=counts[RETRIES], lost=source.rows_lost(origin))
        if rest.retries or rest.lost:
            yield PartRead(0, row - first, rest)

    def take(
        self, read: Read, first: int, worker: int = 0, workers: int = 1, *, most: int = sys.maxsize
    ) -> Iterator[PartRead]:
        """Run elements of a source in the program through the transforms that are fused with it, part by part.

        Args:
            read: the source.
            first: the first tick, at which they arrive unless they have instants of their own.
            worker: the index of the share of the elements that is taken.
            workers: the number of shares.
            most: the number of elements in a part at most, and of its outputs, as for `read`.
        """
        nothing_seen = PartRead(0, 0, Observations(read.label, WHOLE, np.empty(0, np.int64)))
        has_instants = course_of(read.source) is not None
        numbers_of = {tag: kept.numbers() for tag, _, kept in kept_outputs(read)} if has_instants else {}
        for tag, bundle in static_bundles(read, first):
            start, stop = (len(bundle) * number // workers for number in (worker, worker + 1))
            while start < stop:
                count = min(self._part(most), stop - start)
                outputs = 0
                for cut, arrived in self._through(read.label, tag, bundle.sliced(start, start + count)).items():
                    numbers = np.full(len(arrived), first * 2)
                    if has_instants:
                        numbers = numbers_of[tag][event_numbers(self._staged, cut, arrived.orders)]
                    outputs += self._gather({cut: arrived}, numbers)
                self._note_outputs(outputs, count)
                yield nothing_seen
                start += count

    def arrivals(self, timeline: Timeline, *, is_last: bool = True) -> dict[str, PlacedBundle]:
        """Return elements by the cut at which they arrive, each at its instant of the timeline; in any order.

        Args:
            timeline: the timeline, which continues that of the last call.
            is_last: whether there is none after it; elements that arrive after this one are otherwise held.
        """
        gathered, self._gathered, self.waiting = self._gathered, {}, 0
        arrivals: dict[str, PlacedBundle] = {}
        for cut, parts in gathered.items():
            bundle, numbers = all_joined([bundle for bundle, _ in parts]), np.concatenate([at for _, at in parts])
            instants = timeline.at.numbers()
            arrives = numbers <= instants[-1] if len(instants) else np.zeros(len(numbers), np.bool_)
            if not arrives.all():
                if not is_last:
                    rows = np.flatnonzero(~arrives)
                    self._gathered[cut] = [(bundle.take(rows), numbers[rows])]
                    self.waiting += len(rows)
                rows = np.flatnonzero(arrives)
                bundle, numbers = bundle.take(rows), numbers[rows]
            if len(numbers):
                arrivals[cut] = PlacedBundle(bundle, Integers(np.searchsorted(instants, numbers)))
        return arrivals

    def _gather(self, arrivals: Arrivals, numbers: NDArray[np.int64] | None = None) -> int:
        """Keep what has arrived at the instants with these numbers; by default, at the ticks when it was produced."""
        count = 0
        for cut, bundle in arrivals.items():
            if len(bundle):
                at = array_of(bundle.produced) * 2 if numbers is None else numbers
                self._gathered.setdefault(cut, []).append((bundle, at))
                count += len(bundle)
        self.waiting += count
        return count

    def _note_outputs(self, outputs: int, rows: int) -> None:
        """Note how many outputs some rows have had."""
        self._outputs_per_row = max(-(-outputs // max(rows, 1)), 1)

    def _part(self, most: int) -> int:
        """Return how many rows are run at once, so that they probably have `most` outputs at most."""
        return max(most // self._outputs_per_row, 1)

    def _in_parts(self, batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        """Yield batches that have at most `most` rows, and probably as many outputs."""
        for batch in batches:
            start, is_first = 0, True
            while start < batch.num_rows or is_first:
                count = self._part(most)
                yield batch.slice(start, count)
                start, is_first = start + count, False


def _columns_of(read: Read) -> ColumnSource:
    source = read.source.as_columns
    assert source is not None, f"{read.label!r} is not a source of rows"  # noqa: S101 - the caller has checked
    return source


def _is_enough(source: ColumnSource, origins: Sequence[Origin], done: int, awaited: Awaited) -> bool:
    """Return whether reading the first `done` origins completes enough of them for all panes to be emitted."""
    if awaited.enough is None:
        return False
    by_records = source.watermark_origins.weight == "records"
    weights = [origin.row_count if by_records else 1 for origin in origins]
    return sum(weights[:done]) * 100 >= awaited.enough * sum(weights)
