"""Files in process: read whole, sorted into the ticks of the clock."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

import numpy as np

from dataflow_model.plan.nodes import MAIN
from dataflow_model.runners.engine.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.observing import NamedRows, Observer
from dataflow_model.runners.engine.order import name_of_origin, of_row, of_rows
from dataflow_model.runners.engine.shard import join_arrivals
from dataflow_model.runners.engine.timeline import ReplayProgress
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.plan.sources import ColumnSource, Origin
    from dataflow_model.runners.engine.observing import Observations
    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.runners.engine.timeline import Awaited

__all__ = ["TickReader"]


class TickReader:
    """Reads sources of rows, and gives what they have tick by tick.

    Args:
        reads: the sources.
        static: the sources that the program holds.
        clock: the tick of all rows of sources without a replay clock.
        through: runs what is fused behind a source: called with its label, an output's tag and a bundle.
        awaited: what the plan's triggers wait for.

    Attributes:
        timeline: the ticks, and the sources' watermarks at each.
    """

    def __init__(
        self,
        reads: Sequence[Read],
        static: Sequence[Read],
        clock: int,
        through: Callable[[str, str, Bundle], Arrivals],
        awaited: Awaited,
    ) -> None:
        self._clock, self._through, self._awaited = clock, through, awaited
        self._gathered: Arrivals = {}
        progress = ReplayProgress()
        for read in reads:
            self._read(read, progress)
        replays = any(read.source.processing_time is not None for read in reads)
        sources = {read.label: read.source for read in (*reads, *static)}
        self.timeline = progress.timeline(sources, (), tuple(sources), None if replays else clock, awaited)
        self._ready = {cut: _by_tick(bundle) for cut, bundle in self._gathered.items() if bundle}
        self._waiting = {cut: next(ticks) for cut, ticks in self._ready.items()}

    def take(self, tick: int) -> Arrivals:
        """Return what was seen at a tick; ticks are asked for in order."""
        arrivals: Arrivals = {}
        for cut in [cut for cut, (when, _) in self._waiting.items() if when == tick]:
            arrivals[cut] = self._waiting.pop(cut)[1]
            following = next(self._ready[cut], None)
            if following is not None:
                self._waiting[cut] = following
        return arrivals

    def _read(self, read: Read, progress: ReplayProgress) -> None:
        """Read a source origin by origin; no further once enough of them are done for all answers to be out."""
        source = read.source.as_columns
        assert source is not None  # noqa: S101 - the caller has looked
        origins = source.origins()
        by_file = source.watermark_origins.by == "file"
        progress.declare(read.label, source.watermark_origins.partitions)
        if by_file:
            progress.declare(read.label, [origin.name for origin in origins])
        for done, origin in enumerate(origins):
            if by_file and source.processing_time is None and self._is_enough(source, origins, done):
                return
            progress.observe([self._read_origin(read, source, origin)])
            if by_file:
                progress.end(read.label, [origin.name])

    def _is_enough(self, source: ColumnSource, origins: Sequence[Origin], done: int) -> bool:
        if self._awaited.enough is None:
            return False
        by_records = source.watermark_origins.weight == "records"
        weights = [(origin.rows or 0) if by_records else 1 for origin in origins]
        return sum(weights[:done]) * 100 >= self._awaited.enough * sum(weights)

    def _read_origin(self, read: Read, source: ColumnSource, origin: Origin) -> Observations:
        """Read one origin, pass its rows through, and return what was observed."""
        observer = Observer(read.label, origin.name, source, self._awaited.percentiles)
        name = name_of_origin(read.label, origin.name)
        row = 0
        for batch in source.read(origin.name, 0, None):
            decoded = source.decode(batch)
            count = len(decoded.values)
            ticks = np.full(count, self._clock, np.int64) if decoded.clock is None else decoded.clock
            times = ticks if decoded.event_times is None else decoded.event_times
            orders = of_rows(name, (decoded.positions + row).tolist())
            bundle = Bundle.fresh(decoded.values, times.tolist(), orders, self._clock)
            bundle.produced = ticks.tolist()
            join_arrivals(self._gathered, self._through(read.label, MAIN, bundle))
            observer.take(ticks, times, NamedRows(decoded.values))
            letters = Bundle()
            for bad in decoded.bad:
                if read.dead_letters is None:
                    raise source.refusal(read.label, origin.name, row, bad)
                tick = self._clock if bad.processing_time is None else bad.processing_time
                letter = source.dead_letter(read.label, origin.name, row, bad)
                letters.append(letter, tick, GLOBAL_ONLY, NO_FIRING, of_row(name, row + bad.index), tick)
            if read.dead_letters is not None and letters:
                observer.pass_over(np.array(letters.times, np.int64))
                join_arrivals(self._gathered, self._through(read.label, read.dead_letters, letters))
            row += batch.num_rows
        return observer.seen()


def _by_tick(bundle: Bundle) -> Iterator[tuple[int, Bundle]]:
    """Yield each tick with the elements that were seen at it, in order."""
    places = list(zip(bundle.produced, bundle.orders, strict=True))
    if not all(map(operator.le, places, places[1:])):  # one file is in order already
        bundle = bundle.take(sorted(range(len(places)), key=places.__getitem__))
    start = 0
    for tick, group in itertools.groupby(bundle.produced):
        stop = start + sum(1 for _ in group)
        yield tick, bundle.part(start, stop)
        start = stop
