"""A lifted grouping on one shard: tables of partials in, tables of panes out, without a Python object per key.

The panes are those of `CoreMachine` for the groupings that `plan.rewrites.lifting` selects. Values that a kernel cannot
hold (a null, a NaN, a sum beyond 64 bits) arrive as elements, or become rows here. They are folded one by one with the
combiner, and merged with the tables when their windows close.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.metrics.collecting import count_received, count_received_bundles, enter
from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.functions.lifetimes import Lifetime
from dataflow_model.runners.engine.functions.user_code import at_window, user_error
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.ipc import from_ipc, to_ipc
from dataflow_model.runners.engine.lanes.lanes import array_of
from dataflow_model.runners.engine.lanes.order import of_watermark
from dataflow_model.runners.engine.lanes.pane_tables import PaneTable
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, Watermarks
from dataflow_model.runners.engine.lifted.accumulators import column, finish
from dataflow_model.runners.engine.lifted.chunks import partials_by_instant
from dataflow_model.runners.engine.lifted.gathering import Gathering
from dataflow_model.runners.engine.lifted.partials import concat, merge_partials
from dataflow_model.runners.engine.lifted.sessions import merge_sessions
from dataflow_model.runners.engine.protocol.by_key import NEVER
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.machine import WithoutState
from dataflow_model.runners.engine.state.resharding import partials_of_share
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, PaneInfo, PaneTiming, as_pair, encode_key
from dataflow_model.values.keys import shown_key
from dataflow_model.windowing.intersecting import intersecting_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Partials
    from dataflow_model.runners.engine.state.resharding import Share

_Folded: TypeAlias = "dict[tuple[bytes, int, int], tuple[Any, Any]]"
"""By encoded key and bounds of the window: the key and its accumulator."""
_MANY_SEGMENTS: Final = 8


@attrs.define(eq=False)
class _Segment:
    """Live state of one micro-batch, or of several that were merged: partials, and folded accumulators.

    `first_end` and `last_end` bound the ends of its windows. It may still contain windows that have closed; they are
    not used again.
    """

    table: pa.Table | None
    folded: _Folded
    first_end: int
    last_end: int


class ColumnarMachine(WithoutState):
    """One lifted grouping on one shard.

    Args:
        node: the grouping.
        lift: how the grouping gets its input in columns.
        is_bounded: whether it runs buckets of a bounded job, where the watermark follows each key's event times.
    """

    def __init__(self, node: GroupByKeyAndWindow, lift: Lift, *, is_bounded: bool = False) -> None:
        self.label = node.label
        self.lift = lift
        self.combine = node.combine
        self.trigger = repr(node.strategy.trigger)
        self.watermark = int(MIN_TIMESTAMP)
        self.clock = NEVER if is_bounded else 0
        self.counters: Counter[str] = Counter()
        self._is_bounded = is_bounded
        self._window_fn = node.strategy.window_fn
        self._lifetime = Lifetime(node.label, node.combine)
        self._drops = Drops.of(node)
        self._output: list[PaneTable | Bundle] = []
        self._segments: dict[bytes, _Segment] = {}
        self._tables: list[pa.Table] = []
        self._folded: _Folded = {}
        self._gone: set[bytes] = set()
        self._gathering: Gathering | None = None
        self._by_rows = False
        """Whether the elements that would be gathered are folded one by one."""
        self._first_end = int(MAX_TIMESTAMP)

    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk in order; see `KeyedMachine`."""
        enter(self.label)
        produced = Produced()
        reached: list[Watermarks] = []
        gathered = self._gather(chunk)
        combined = None
        if not gathered and self._drops is None:
            combined = partials_by_instant(chunk, self.lift, self._window_fn, self.watermark)
        in_columns = gathered or combined is not None
        if in_columns:
            count_received_bundles(self.label, np.bincount(array_of(chunk.elements.indices)))
        inboxes = {} if in_columns else dict(chunk.elements.runs())
        for index, (clock, watermarks) in enumerate(zip(chunk.instants.clocks, chunk.watermarks, strict=True)):
            inbox = inboxes.get(index)
            if inbox is not None:
                count_received(self.label, len(inbox))
            self.advance_clock(clock)
            self._take(inbox, chunk.partials.get(index, ()))
            if combined is not None and index in combined:
                self.absorb(*combined[index])
            self.advance_watermarks(watermarks)
            self._emit_panes(index, produced)
            reached.append(self.output_watermarks())
        produced.watermarks = reached
        return produced

    def _gather(self, chunk: Chunk) -> bool:
        """Take the elements of an instant that arrives in several chunks; return whether that is so.

        They are absorbed, or folded, with the last one of these chunks.
        """
        stays_open = len(chunk.instants) == 1 and not chunk.instants.closes[0] and self.watermark == MIN_TIMESTAMP
        if self._gathering is None:
            if not stays_open or self._drops is not None:
                return False
            self._gathering = Gathering(self.lift, self._window_fn)
            self._by_rows = False
        gathering, elements = self._gathering, chunk.elements.bundle
        if self._by_rows:
            self.fold(elements)
        else:
            self.counters["elements_in"] += len(elements)
            if not gathering.add(elements, is_last=not stays_open):
                self._continue_by_rows(gathering)
        if not stays_open:
            if gathering.table is not None:
                self.absorb(gathering.table, 0)
            self._gathering = None
        return True

    def _continue_by_rows(self, gathering: Gathering) -> None:
        """Continue with accumulators of the combiner where a kernel cannot go on."""
        self._by_rows = True
        if gathering.table is not None:
            self._merge_into(self._folded, self._rows_of(gathering.table))
            self._first_end = min(self._first_end, int(self._ends(gathering.table).min()))
        for elements in gathering.waiting:
            self.counters["elements_in"] -= len(elements)  # `fold` counts them
            self.fold(elements)
        gathering.table, gathering.waiting = None, []

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket, which contains all elements of some keys."""
        self._take(bucket.elements, bucket.partials)
        self.advance_watermarks(MAX_WATERMARKS)
        produced = Produced()
        self._emit_panes(0, produced)
        self.set_clocks(watermark=NEVER, clock=NEVER)
        return produced

    def _take(self, inbox: Bundle | None, partials: Partials) -> None:
        for table, elements in partials:
            count_received(self.label, elements)
            self.absorb(table, elements)
        if inbox:
            self.fold(inbox)

    def _emit_panes(self, index: int, produced: Produced) -> None:
        for panes in self.take_panes():
            if isinstance(panes, PaneTable):
                produced.panes.append((index, panes))
            else:
                produced.add(index, {MAIN: panes})
        if self._drops is not None:
            produced.add(index, {self._drops.tag: self._drops.take()})

    # The events of one instant -------------------------------------------------------------------------------------

    def advance_clock(self, processing_time: int) -> None:
        """Advance the processing clock, for which no timer waits."""
        self.clock = max(self.clock, processing_time)

    def absorb(self, table: pa.Table, elements: int) -> None:
        """Add the partials of some elements; those of expired windows are dropped and counted."""
        self.counters["elements_in"] += elements
        if self.watermark != MIN_TIMESTAMP and table.num_rows:
            late = self._ends(table) <= self.watermark
            if late.any():
                self.counters["dropped_because_late"] += int(column(table, "count")[late].sum())
                table = table.filter(pa.array(~late))
        if table.num_rows:
            self._tables.append(table)
            self._first_end = min(self._first_end, int(self._ends(table).min()))

    def fold(self, inbox: Bundle) -> None:
        """Add elements that a kernel cannot process.

        Raises:
            InvalidType: for an element that is not a pair.
            UserCodeError: if the combiner raises an exception.
        """
        self._lifetime.set_up()
        columns = zip(inbox.values, inbox.times, inbox.windows, inbox.orders, strict=True)
        for value, time, windows, order in columns:
            key, inner = as_pair(value, self.label)
            self.counters["elements_in"] += 1
            try:
                encoded = encode_key(key)
                for window in windows:
                    start, end = int(window.start), int(window.end)
                    if self.watermark >= end or (self._is_bounded and time == MAX_TIMESTAMP):
                        self.counters["dropped_because_late"] += 1
                        if self._drops is not None:
                            self._drops.add(
                                DropReason.LATE,
                                value,
                                (window,),
                                time=time,
                                watermark=self.watermark,
                                order=order,
                                clock=self.clock,
                            )
                        continue
                    index = (encoded, start, end)
                    first, accumulator = self._folded.get(index) or (shown_key(key), self.combine.create_accumulator())
                    self._folded[index] = (first, self.combine.add_input(accumulator, inner))
                    self._first_end = min(self._first_end, end)
            except BaseException as error:
                raise user_error(error, self.label, value, hint=None) from error

    def advance_watermarks(self, watermarks: Watermarks) -> None:
        """Advance the input's low watermark, and emit the panes of the windows that it passes."""
        watermark = watermarks.low
        if watermark <= self.watermark:
            return
        previous, self.watermark = self.watermark, watermark
        if watermark < self._first_end and all(watermark < segment.first_end for segment in self._segments.values()):
            return
        tables: list[pa.Table] = []
        folded: list[_Folded] = []
        for name, segment in self._segments.items():
            if segment.first_end <= watermark:
                if segment.table is not None:
                    tables += self._between(segment.table, previous, watermark)
                folded.append(_folded_between(segment.folded, previous, watermark))
                if segment.last_end <= watermark:
                    self._gone.add(name)
        for name in self._gone:
            self._segments.pop(name, None)
        for table in self._tables:
            tables += self._between(table, previous, watermark)
        self._tables = [rest for table in self._tables for rest in self._between(table, watermark, int(MAX_TIMESTAMP))]
        folded.append(_folded_between(self._folded, previous, watermark))
        self._folded = _folded_between(self._folded, watermark, int(MAX_TIMESTAMP))
        ends = [int(self._ends(table).min()) for table in self._tables] + [end for _, _, end in self._folded]
        self._first_end = min(ends, default=int(MAX_TIMESTAMP))
        self._emit(tables, [accumulators for accumulators in folded if accumulators])

    # What a runner reads off ---------------------------------------------------------------------------------------

    def output_watermarks(self) -> Watermarks:
        """Return the watermarks of the output: the input's low watermark, as a live window ends after it."""
        return Watermarks(self.watermark)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the watermark at which the next window closes; no timer waits for the clock."""
        ends: list[int] = []
        for segment in self._segments.values():
            if segment.table is not None:
                open_ends = self._ends(segment.table)
                open_ends = open_ends[open_ends > self.watermark]
                ends += [int(open_ends.min())] if len(open_ends) else []
            ends += [index[2] for index in segment.folded if index[2] > self.watermark]
        return min(ends, default=None), None

    def tear_down(self) -> None:
        """Tear down the combiner."""
        self._lifetime.tear_down()

    def take_panes(self) -> list[PaneTable | Bundle]:
        """Return the panes since the last call."""
        output, self._output = self._output, []
        return output

    # State ---------------------------------------------------------------------------------------------------------

    def clocks(self) -> dict[str, Any]:
        """Return the clocks of the shard, for `set_clocks`."""
        return {"watermark": self.watermark, "clock": self.clock}

    def set_clocks(self, *, watermark: int, clock: int, percentiles: tuple[int, ...] = ()) -> None:
        """Set the clocks of the shard to what `clocks` returned; only the low watermark is used here."""
        del percentiles
        self.watermark, self.clock = watermark, clock

    def settle(self) -> dict[bytes, Any]:
        """Return the changes since the last call: new segments by name, and `None` for removed segments."""
        fresh: set[bytes] = set()
        if self._tables or self._folded:
            fresh.add(self._add(self._tables, self._folded))
            self._tables, self._folded = [], {}
        if len(self._segments) > _MANY_SEGMENTS:
            fresh = {self._compact()}
        changes: dict[bytes, Any] = dict.fromkeys(self._gone)
        changes.update({name: self.stored(name) for name in fresh})
        self._gone = set()
        return changes

    def stored(self, name: bytes) -> tuple[bytes | None, _Folded] | None:
        """Return a segment in its durable form; `None` if there is none."""
        segment = self._segments.get(name)
        if segment is None:
            return None
        return None if segment.table is None else to_ipc(segment.table), segment.folded

    def apply(self, changes: Mapping[bytes, tuple[bytes | None, _Folded] | None]) -> None:
        """Apply changes that another worker has made durable."""
        for name, entry in changes.items():
            self._segments.pop(name, None)
            if entry is not None:
                content, folded = entry
                self._segments[name] = self._segment(None if content is None else from_ipc(content), folded)

    def open_windows(self) -> dict[tuple[bytes, int, int], tuple[Any, Any, int]]:
        """Return what is known of each open window: the key, the accumulator, and the number of elements.

        The number is at least the number of accumulators that were folded one by one: how many elements they have is
        not known.
        """
        self._lifetime.set_up()
        rows: _Folded = {}
        counts: Counter[tuple[bytes, int, int]] = Counter()
        for segment in self._segments.values():
            tables = [] if segment.table is None else self._between(segment.table, self.watermark, int(MAX_TIMESTAMP))
            for table in tables:
                ends = self._ends(table).tolist()
                columns = zip(table["key"].to_pylist(), table["window_start"].to_pylist(), ends, strict=True)
                for (key, start, end), count in zip(columns, table["count"].to_pylist(), strict=True):
                    counts[encode_key(key), start, end] += count
                self._merge_into(rows, self._rows_of(table))
            folded = _folded_between(segment.folded, self.watermark, int(MAX_TIMESTAMP))
            counts.update(folded.keys())
            self._merge_into(rows, folded)
        return {window: (key, accumulator, counts[window]) for window, (key, accumulator) in rows.items()}

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Cut the tables of partials."""
        return partials_of_share(parts, share)

    def state_size(self) -> tuple[int, int]:
        """Return the number of partials in the settled state, and the bytes of those in columns."""
        tables = [segment.table for segment in self._segments.values() if segment.table is not None]
        folded = sum(len(segment.folded) for segment in self._segments.values())
        return folded + sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)

    def _add(self, tables: list[pa.Table], folded: _Folded) -> bytes:
        number = max((int.from_bytes(name) for name in (*self._segments, *self._gone)), default=0) + 1
        name = number.to_bytes(8)
        self._segments[name] = self._segment(concat(tables) if tables else None, folded)
        return name

    def _compact(self) -> bytes:
        """Merge all segments into one, without the windows that have closed."""
        tables: list[pa.Table] = []
        folded: _Folded = {}
        for segment in self._segments.values():
            if segment.table is not None:
                tables += self._between(segment.table, self.watermark, int(MAX_TIMESTAMP))
            self._merge_into(folded, _folded_between(segment.folded, self.watermark, int(MAX_TIMESTAMP)))
        # Since an upgrade, the columns may have other types than before it.
        older = [table for table in tables if table.schema != tables[-1].schema]
        if older:
            self._lifetime.set_up()
            tables = [table for table in tables if table.schema == tables[-1].schema]
            for table in older:
                self._merge_into(folded, self._rows_of(table))
        try:
            merged = [merge_partials(tables, self.lift.kernel)] if tables else []
        except OverflowError:
            merged = tables
        name = self._add(merged, folded)
        self._gone |= set(self._segments) - {name}
        self._segments = {name: self._segments[name]}
        return name

    def _segment(self, table: pa.Table | None, folded: _Folded) -> _Segment:
        ends = {index[2] for index in folded}
        if table is not None and table.num_rows:
            column_of_ends = self._ends(table)
            ends |= {int(column_of_ends.min()), int(column_of_ends.max())}
        return _Segment(table, folded, min(ends, default=int(MIN_TIMESTAMP)), max(ends, default=int(MIN_TIMESTAMP)))

    # Windows as columns --------------------------------------------------------------------------------------------

    def _ends(self, table: pa.Table) -> NDArray[np.int64]:
        ends: NDArray[np.int64]
        if "window_end" in table.column_names:
            ends = column(table, "window_end")
        else:
            length = self._window_fn.length
            assert length is not None  # noqa: S101 - otherwise the ends are a column
            ends = column(table, "window_start") + int(length)
        return ends

    def _between(self, table: pa.Table, after: int, until: int) -> list[pa.Table]:
        """Return the rows whose windows end in `(after, until]`, if there are any."""
        ends = self._ends(table)
        wanted = (ends > after) & (ends <= until)
        if wanted.all():
            return [table]
        return [table.filter(pa.array(wanted))] if wanted.any() else []

    # Panes ---------------------------------------------------------------------------------------------------------

    def _emit(self, tables: list[pa.Table], folded: list[_Folded]) -> None:
        panes: PaneTable | Bundle | None = None
        if tables and not folded:
            panes = self._merged(tables)
        if panes is None:
            panes = self._merged_rows(tables, folded)
        if panes:
            self.counters["panes_on_time"] += len(panes)
            self._output.append(panes)

    def _merged(self, tables: list[pa.Table]) -> PaneTable | None:
        """Merge in columns; return `None` if a sum of whole numbers exceeds 64 bits, or if the types differ."""
        if any(table.schema != tables[0].schema for table in tables):
            return None
        merge = merge_sessions if self._window_fn.is_merging else merge_partials
        try:
            table = merge(tables, self.lift.kernel)
        except OverflowError:
            return None
        columns = {
            "key": table["key"],
            "window_start": table["window_start"],
            "window_end": pa.array(self._ends(table)),
            "value": finish(table, self.lift.kernel),
        }
        return PaneTable(pa.table(columns), self.clock, self.trigger)

    def _merged_rows(self, tables: Iterable[pa.Table], folded: Iterable[_Folded]) -> Bundle:
        """Merge one by one with the combiner; panes are in the order of the general path."""
        self._lifetime.set_up()
        rows: _Folded = {}
        for table in tables:
            self._merge_into(rows, self._rows_of(table))
        for accumulators in folded:
            self._merge_into(rows, accumulators)
        if self._window_fn.is_merging:
            rows = self._merged_sessions(rows)
        info = PaneInfo(0, 0, is_first=True, is_last=True, timing=PaneTiming.ON_TIME, trigger=self.trigger)
        bundle = Bundle()
        for (end, start, encoded), (key, accumulator) in sorted(
            (((end, start, encoded), entry) for (encoded, start, end), entry in rows.items()), key=_expiry_order
        ):
            window = GLOBAL_WINDOW if self._window_fn.is_global else IntervalWindow(EventTime(start), EventTime(end))
            with at_window(self.label, key, window):
                value = (key, self.combine.extract_output(accumulator))
            bundle.append(value, end - 1, (window,), info, of_watermark(end, start, encoded), self.clock)
        return bundle

    def _rows_of(self, table: pa.Table) -> _Folded:
        """Return partials as the combiner's accumulators."""
        kernel = self.lift.kernel
        counts = table["count"].to_pylist()
        accumulators = counts if kernel.reduction is None else table["accumulator"].to_pylist()
        if kernel.divides:
            accumulators = list(zip(accumulators, counts, strict=True))
        bounds = zip(table["window_start"].to_pylist(), self._ends(table).tolist(), strict=True)
        rows: _Folded = {}
        for key, (start, end), accumulator in zip(table["key"].to_pylist(), bounds, accumulators, strict=True):
            self._merge_into(rows, {(encode_key(key), start, end): (key, accumulator)})
        return rows

    def _merge_into(self, rows: _Folded, more: _Folded) -> None:
        for index, (key, accumulator) in more.items():
            known = rows.get(index)
            if known is None:
                rows[index] = (key, accumulator)
            else:
                rows[index] = (known[0], self.combine.merge_accumulators([known[1], accumulator]))

    def _merged_sessions(self, rows: _Folded) -> _Folded:
        """Merge the windows of each key that intersect."""
        merged: _Folded = {}
        for encoded, indices in itertools.groupby(sorted(rows), key=_encoded_key):
            for run, end in intersecting_runs(indices, _bounds):
                key, accumulator = rows[run[0]]
                if len(run) > 1:
                    accumulator = self.combine.merge_accumulators([rows[index][1] for index in run])
                merged[encoded, run[0][1], end] = (key, accumulator)
        return merged


def _folded_between(folded: _Folded, after: int, until: int) -> _Folded:
    """Return the accumulators whose windows end in `(after, until]`."""
    return {cell: accumulator for cell, accumulator in folded.items() if after < cell[2] <= until}


def _encoded_key(index: tuple[bytes, int, int]) -> bytes:
    return index[0]


def _bounds(index: tuple[bytes, int, int]) -> tuple[int, int]:
    return index[1:]


def _expiry_order(row: tuple[tuple[int, int, bytes], tuple[Any, Any]]) -> tuple[int, int, bytes]:
    return row[0]
