"""Panes as columns: the output of a lifted grouping, and its rows if they are needed one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.columns.record_columns import LazyRecords
from dataflow_model.plan.columns.records import Record
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.lanes import ranks_of
from dataflow_model.runners.engine.lanes.order import at_instant, numbered, of_watermark, pass_stages
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, ProcessingTime
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, PaneInfo, PaneTiming, Window, encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.runners.engine.lanes.order import At, Order

_MICROS = pa.timestamp("us", "UTC")


@attrs.frozen(eq=False)
class PaneTable:
    """Panes of one grouping that the watermark fired, each the only one of its window.

    Attributes:
        table: the columns `key`, `window_start`, `window_end` and `value`.
        produced: the processing time.
        trigger: the name of the trigger.
    """

    table: pa.Table
    produced: int
    trigger: str

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def in_order(self) -> PaneTable:
        """Return the panes in the order in which the general path emits them."""
        codes, distinct = codes_of(self.table["key"])
        encoded = list(map(encode_key, distinct.to_pylist()))
        bounds = [self.table[name].combine_chunks().to_numpy() for name in ("window_start", "window_end")]
        rows = np.lexsort([ranks_of(encoded)[codes], *bounds])
        return attrs.evolve(self, table=self.table.take(pa.array(rows)))

    def bundle(self) -> Bundle:
        """Return the panes as elements, in the order in which the general path emits them."""
        keys = self.table["key"].to_pylist()
        starts = self.table["window_start"].to_pylist()
        ends = self.table["window_end"].to_pylist()
        rows = zip(self.orders(), keys, self.table["value"].to_pylist(), starts, ends, strict=True)
        bundle, info = Bundle(), self.info()
        for order, key, value, start, end in sorted(rows, key=_order):
            bundle.append((key, value), end - 1, (_window(start, end),), info, order, self.produced)
        return bundle

    def orders(self) -> Iterator[Order]:
        """Yield the order of each pane among those of its instant."""
        keys = self.table["key"].to_pylist()
        encoded: dict[Any, bytes] = {}
        bounds = zip(self.table["window_end"].to_pylist(), self.table["window_start"].to_pylist(), strict=True)
        for key, (end, start) in zip(keys, bounds, strict=True):
            if key not in encoded:  # a column has one type, so equal values are the same key
                encoded[key] = encode_key(key)
            yield of_watermark(end, start, encoded[key])

    def info(self) -> PaneInfo:
        """Return the `PaneInfo` of all panes."""
        return PaneInfo(0, 0, is_first=True, is_last=True, timing=PaneTiming.ON_TIME, trigger=self.trigger)

    def columns(self, *, panes: bool) -> pa.Table:
        """Return the columns as file sinks name and type them; `panes` adds window and pane."""
        table = pa.table({name: _plain(self.table[name]) for name in ("key", "value")})
        if not panes:
            return table
        for name, infinite in (("window_start", MIN_TIMESTAMP), ("window_end", MAX_TIMESTAMP)):
            bounds = self.table[name].combine_chunks()
            numbers = bounds.to_numpy()
            unbounded = numbers == int(infinite)
            bound = pa.array(numbers, mask=unbounded) if unbounded.any() else bounds
            table = table.append_column(name, bound.cast(_MICROS))
        rows = table.num_rows
        timing = pa.scalar(PaneTiming.ON_TIME.value, pa.string())
        table = table.append_column("pane_index", pa.repeat(pa.scalar(0, pa.int64()), rows))
        return table.append_column("pane_timing", pa.repeat(timing, rows))


@attrs.define(eq=False)
class PaneRecords(LazyRecords):
    """Panes as records for a sink.

    Their orders do not name the producer: a sink whose panes are in columns has only one.

    Attributes:
        panes: the panes.
        at: the instant of the panes.
        passed: the number of stages that they pass on their way to the sink.
    """

    panes: PaneTable
    at: At
    passed: int

    def __len__(self) -> int:
        return len(self.panes)

    def bundle(self) -> Bundle:
        """Return the panes as elements, ordered as in the input of the sink."""
        bundle = self.panes.bundle()
        bundle.orders = pass_stages([numbered(order, 0) for order in bundle.orders], self.passed)
        return bundle

    def made(self) -> list[Record]:
        """Return a record for each pane."""
        bundle = self.bundle()
        produced = ProcessingTime(self.panes.produced)
        return [
            Record(value, EventTime(time), window, info, order=at_instant(self.at, order), processing_time=produced)
            for value, time, (window,), info, order in zip(
                bundle.values, bundle.times, bundle.windows, bundle.panes, bundle.orders, strict=True
            )
        ]


def _order(row: tuple[Order, Any, Any, int, int]) -> Order:
    return row[0]


def _window(start: int, end: int) -> Window:
    if start == MIN_TIMESTAMP and end == MAX_TIMESTAMP:
        return GLOBAL_WINDOW
    return IntervalWindow(EventTime(start), EventTime(end))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in the type that would be inferred from its values as rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_large_string(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_large_binary(kind) else column
