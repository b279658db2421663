"""Files in process: read completely, and sorted into the ticks of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dataflow_model.plan.nodes import MAIN
from dataflow_model.runners.engine.bundle import GLOBAL_ONLY, Bundle, all_joined
from dataflow_model.runners.engine.chunk import PlacedBundle
from dataflow_model.runners.engine.in_program import static_bundle
from dataflow_model.runners.engine.lanes import Integers, RowValues, array_of
from dataflow_model.runners.engine.observing import GoodRows, Observer
from dataflow_model.runners.engine.order import name_of_origin, of_row, sorting
from dataflow_model.runners.engine.order_lanes import RowOrders
from dataflow_model.runners.engine.timeline import ReplayProgress
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.plan.sources import ColumnSource, Origin
    from dataflow_model.runners.engine.observing import Observations
    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.runners.engine.timeline import Awaited

__all__ = ["TickReader"]


class TickReader:
    """Reads sources of rows, and assigns their elements to ticks.

    Args:
        reads: the sources.
        static: the sources whose elements are in the program.
        clock: the tick of all rows of sources without a replay clock.
        through: runs the transforms that are fused with a source, given its label, an output's tag and a bundle.
        awaited: the percentiles that the plan's triggers wait for.

    Attributes:
        timeline: the ticks, and the watermarks of the sources at each tick.
        arrivals: the elements by the cut at which they arrive, each at an instant of the timeline.
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
        self._gathered: dict[str, list[Bundle]] = {}
        progress = ReplayProgress()
        for read in reads:
            self._read(read, progress)
        replays = any(read.source.processing_time is not None for read in reads)
        sources = {read.label: read.source for read in (*reads, *static)}
        self.timeline = progress.timeline(sources, (), tuple(sources), None if replays else clock, awaited)
        for read in static:
            self._gather(through(read.label, MAIN, static_bundle(read, self.timeline.at[0][0])))
        self.arrivals = {cut: self._placed(all_joined(bundles)) for cut, bundles in self._gathered.items()}
        self._gathered.clear()

    def _placed(self, bundle: Bundle) -> PlacedBundle:
        """Return the elements in order, each at the instant of the tick at which it was seen."""
        produced = array_of(bundle.produced)
        rows = sorting(bundle.orders, bundle.produced)
        if rows is not None:
            bundle, produced = bundle.take(rows), produced[rows]
        places = np.flatnonzero(self.timeline.at.steps == 0)
        ticks = self.timeline.at.clocks[places]
        read = int(np.searchsorted(produced, ticks[-1], side="right")) if len(ticks) else 0
        if read < len(produced):  # the run ends early, before these rows
            bundle, produced = bundle.part(0, read), produced[:read]
        return PlacedBundle(bundle, Integers(places[np.searchsorted(ticks, produced)]))

    def _gather(self, arrivals: Arrivals) -> None:
        for cut, bundle in arrivals.items():
            if len(bundle):
                self._gathered.setdefault(cut, []).append(bundle)

    def _read(self, read: Read, progress: ReplayProgress) -> None:
        """Read a source origin by origin, until enough origins are complete for all panes to be emitted."""
        source = read.source.as_columns
        assert source is not None  # noqa: S101 - checked by the caller
        origins = source.origins()
        by_file = source.watermark_origins.by == "file"
        progress.declare(read.label, source.watermark_origins.partitions)
        if by_file:
            progress.declare(read.label, [origin.name for origin in origins])
        observations: list[Observations] = []
        for done, origin in enumerate(origins):
            if by_file and source.processing_time is None and self._is_enough(source, origins, done):
                break
            observations.append(self._read_origin(read, source, origin))
        progress.observe(observations)
        if by_file:
            progress.end(read.label, [origin.name for origin in origins[: len(observations)]])

    def _is_enough(self, source: ColumnSource, origins: Sequence[Origin], done: int) -> bool:
        if self._awaited.enough is None:
            return False
        by_records = source.watermark_origins.weight == "records"
        weights = [(origin.rows or 0) if by_records else 1 for origin in origins]
        return sum(weights[:done]) * 100 >= self._awaited.enough * sum(weights)

    def _read_origin(self, read: Read, source: ColumnSource, origin: Origin) -> Observations:
        """Read one origin, run its rows through the fused transforms, and return the observations."""
        observer = Observer(read.label, origin.name, source, self._awaited.percentiles)
        name = name_of_origin(read.label, origin.name)
        row = 0
        for batch in source.read(origin.name, 0, None):
            columns = source.columns_of(batch)
            rows = GoodRows.of(columns, self._clock, row)
            orders: Any = RowOrders.of_origin(name, rows.positions)
            times, ticks = Integers(rows.event_times), Integers(rows.clock)
            bundle = Bundle.fresh(RowValues(pa.Table.from_batches([rows.batch])), times, orders, ticks)
            self._gather(self._through(read.label, MAIN, bundle))
            observer.take(rows.clock, rows.event_times, rows)
            letters = Bundle()
            for bad in columns.bad:
                if read.dead_letters is None:
                    raise source.refusal(read.label, origin.name, row, bad)
                tick = self._clock if bad.processing_time is None else bad.processing_time
                letter = source.dead_letter(read.label, origin.name, row, bad)
                letters.append(letter, tick, GLOBAL_ONLY, NO_FIRING, of_row(name, row + bad.index), tick)
            if read.dead_letters is not None and letters:
                observer.pass_over(np.array(letters.times, np.int64))
                self._gather(self._through(read.label, read.dead_letters, letters))
            row += batch.num_rows
        return observer.seen()
