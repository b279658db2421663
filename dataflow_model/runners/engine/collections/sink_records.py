"""Bundles as sinks take them: one record for each element and window."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dataflow_model.overriding import override
from dataflow_model.plan.columns.orders import OrderColumns
from dataflow_model.plan.columns.record_columns import (
    LazyRecords,
    PaneColumns,
    RecordColumns,
    columns_of_records,
    orders_of_records,
    retractions_of_records,
    values_of_records,
)
from dataflow_model.runners.engine.grouping.pane_lanes import PaneInfos
from dataflow_model.runners.engine.lanes import value_lanes
from dataflow_model.runners.engine.lanes.bundle import retracted, windows_apart
from dataflow_model.runners.engine.lanes.lanes import Intervals, array_of, taken
from dataflow_model.runners.engine.lanes.order import at_instant
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane, RowOrders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.order import At


def records_of(bundle: Bundle, instants: Sequence[At]) -> Sequence[Record]:
    """Return a bundle's elements as records, one for each window.

    Args:
        bundle: the elements.
        instants: the instant of each element.
    """
    rows, windows = windows_apart(bundle.windows)
    if isinstance(rows, range):
        return BundleRecords(bundle, instants)
    spread = bundle.take(rows)
    spread.windows = windows
    return BundleRecords(spread, taken(instants, rows))


class BundleRecords(LazyRecords):
    """A bundle's elements as records.

    Args:
        bundle: the elements, each in one window.
        instants: the instant of each element.
    """

    def __init__(self, bundle: Bundle, instants: Sequence[At]) -> None:
        self._bundle, self._instants = bundle, instants

    @functools.cached_property
    def values(self) -> list[Any]:
        """The elements."""
        values = self._bundle.values
        return values if isinstance(values, list) else list(values)

    @functools.cached_property
    def columns(self) -> pa.Table | None:
        """The elements as columns, if they are columns."""
        return value_lanes.columns_of(self._bundle.values)

    def __len__(self) -> int:
        return len(self._bundle)

    def orders(self) -> OrderColumns:
        """Return the orders of the records among those of all instants."""
        instants, orders = self._instants, self._bundle.orders
        if isinstance(orders, RowOrders):
            at = InstantLane.of(instants)
            return OrderColumns(len(orders), (at.clocks, at.steps, *orders.parts()))
        return OrderColumns.of(at_instant(at, order) for at, order in zip(instants, orders, strict=True))

    @override
    def retractions(self) -> NDArray[np.bool_]:
        return retracted(self._bundle.updates, len(self._bundle))

    def pane_columns(self) -> PaneColumns:
        """Return window and pane of each record, from columns where the bundle has them."""
        bundle = self._bundle
        retractions = self.retractions()
        if isinstance(bundle.windows, Intervals) and isinstance(bundle.panes, PaneInfos):
            panes = bundle.panes
            return PaneColumns(bundle.windows.starts, bundle.windows.ends, panes.indexes, panes.timings(), retractions)
        return PaneColumns.of_panes([window for (window,) in bundle.windows], bundle.panes, retractions)

    def record_columns(self) -> RecordColumns:
        """Return the records' fields, each from the bundle's column."""
        bundle = self._bundle
        return RecordColumns(
            self.values,
            array_of(bundle.times),
            [window for (window,) in bundle.windows],
            list(bundle.panes),
            self.retractions(),
            self.orders().tuples(),
            array_of(bundle.produced),
        )

    def made(self) -> list[Record]:
        """Return a record for each element."""
        return self.record_columns().records()


class JoinedRecords(LazyRecords):
    """The records of several chunks, one chunk after the other.

    Args:
        chunks: the chunks.

    Attributes:
        chunks: the chunks, flat: none of them is a `JoinedRecords`.
    """

    def __init__(self, chunks: Sequence[Sequence[Record]]) -> None:
        self.chunks: list[Sequence[Record]] = []
        for chunk in chunks:
            self.chunks += chunk.chunks if isinstance(chunk, JoinedRecords) else [chunk]

    @functools.cached_property
    def values(self) -> list[Any]:
        """The elements."""
        return list(itertools.chain.from_iterable(map(values_of_records, self.chunks)))

    @functools.cached_property
    def columns(self) -> pa.Table | None:
        """The elements as columns, if all are columns of the same types."""
        tables = [table for table in map(columns_of_records, self.chunks) if table is not None]
        if not tables or len(tables) < len(self.chunks):
            return None
        alike = all(table.schema.equals(tables[0].schema) for table in tables)
        return pa.concat_tables(tables) if alike else None

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @override
    def orders(self) -> OrderColumns:
        return OrderColumns.joined(list(map(orders_of_records, self.chunks)))

    @override
    def retractions(self) -> NDArray[np.bool_]:
        return np.concatenate([np.zeros(0, np.bool_), *map(retractions_of_records, self.chunks)])

    @override
    def pane_columns(self) -> PaneColumns:
        return PaneColumns.joined(list(map(PaneColumns.of, self.chunks)))

    def made(self) -> list[Record]:
        """Return the records of all chunks."""
        return list(itertools.chain.from_iterable(self.chunks))
