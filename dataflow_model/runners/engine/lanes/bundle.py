"""Bundles: elements side by side, column by column, in the total order of events."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import numpy as np

from dataflow_model.runners.engine.lanes.lanes import Intervals, Repeated, joined, sliced, taken
from dataflow_model.runners.engine.lanes.order import sorting
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, PaneInfo, Window

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.lanes.order import Order

ValueT = TypeVar("ValueT")

GLOBAL_ONLY: Final[tuple[Window, ...]] = (GLOBAL_WINDOW,)


@attrs.frozen
class Update:
    """The mark of a row that retracts a value, or replaces a retracted one.

    Attributes:
        emission: identifies the firing; its retractions and the value that replaces them share it.
        is_retraction: whether the row is a retraction.
    """

    emission: Hashable
    is_retraction: bool


class UpdateColumns(Mapping[int, Update]):
    """The updates of a bundle by row, in columns; they never change, and each is created when it is first read."""

    @abc.abstractmethod
    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> UpdateColumns:
        """Return the updates at these rows, by their indices among the selected ones."""

    @abc.abstractmethod
    def retracted(self) -> NDArray[np.bool_]:
        """Return for each element whether it is a retraction."""

    @abc.abstractmethod
    def firings(self) -> NDArray[np.int64]:
        """Return a number for the emission of each element; −1 without an update."""

    @classmethod
    @abc.abstractmethod
    def joined(cls, columns: Sequence[Any]) -> UpdateColumns | None:
        """Return the updates of several bundles of elements as one; `None` if one cannot hold them."""


@attrs.define(eq=True)
class Bundle:
    """A run of elements of one collection.

    Each column is a list that belongs to the bundle, or a lane, which never changes. A source's bundle has lanes for
    the columns that no function has read: thousands of rows share one window, and have no pane.

    Attributes:
        values: the elements.
        times: their event times, in microseconds.
        windows: the windows of each element.
        panes: the pane of each element.
        orders: the order of each element within its instant.
        produced: the processing time at which each was produced.
        updates: by row, the few elements that are retractions or replace retracted values.
        percentiles: by row, the watermark's percentile at which an element was produced, if a function asks for it.
    """

    values: Sequence[Any] = attrs.field(factory=list)
    times: Sequence[int] = attrs.field(factory=list)
    windows: Sequence[tuple[Window, ...]] = attrs.field(factory=list)
    panes: Sequence[PaneInfo] = attrs.field(factory=list)
    orders: Sequence[Order] = attrs.field(factory=list)
    produced: Sequence[int] = attrs.field(factory=list)
    updates: Mapping[int, Update] = attrs.field(factory=dict)
    percentiles: dict[int, float | None] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def fresh(
        cls, values: Sequence[Any], times: Sequence[int], orders: Sequence[Order], produced: int | Sequence[int]
    ) -> Bundle:
        """Return a bundle of elements from a source: in the global window, and without a pane."""
        count = len(values)
        ticks = Repeated(produced, count) if isinstance(produced, int) else produced
        return cls(values, times, Repeated(GLOBAL_ONLY, count), Repeated(NO_FIRING, count), orders, ticks)

    def append(
        self,
        value: Any,
        time: int,
        windows: tuple[Window, ...],
        pane: PaneInfo,
        order: Order,
        produced: int,
        update: Update | None = None,
    ) -> None:
        """Add one element to a bundle that was created empty, and therefore has lists."""
        own: Any = self
        if update is not None:
            own.updates[len(self.values)] = update
        own.values.append(value)
        own.times.append(time)
        own.windows.append(windows)
        own.panes.append(pane)
        own.orders.append(order)
        own.produced.append(produced)

    def extend(self, *others: Bundle) -> None:
        """Add all elements of other bundles."""
        before = len(self.values)
        self.updates = _joined_updates([self, *others])
        for other in others:
            self.percentiles.update(_behind(other.percentiles, before))
            before += len(other.values)
        self.values = joined(self.values, *(other.values for other in others))
        self.times = joined(self.times, *(other.times for other in others))
        self.windows = joined(self.windows, *(other.windows for other in others))
        self.panes = joined(self.panes, *(other.panes for other in others))
        self.orders = joined(self.orders, *(other.orders for other in others))
        self.produced = joined(self.produced, *(other.produced for other in others))

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Bundle:
        """Return the elements at these rows, in this order."""
        return Bundle(
            taken(self.values, rows),
            taken(self.times, rows),
            taken(self.windows, rows),
            taken(self.panes, rows),
            taken(self.orders, rows),
            taken(self.produced, rows),
            updates_of(self.updates, rows),
            _taken(self.percentiles, rows),
        )

    def sliced(self, start: int, stop: int) -> Bundle:
        """Return the elements `[start, stop)`."""
        return Bundle(
            sliced(self.values, start, stop),
            sliced(self.times, start, stop),
            sliced(self.windows, start, stop),
            sliced(self.panes, start, stop),
            sliced(self.orders, start, stop),
            sliced(self.produced, start, stop),
            updates_of(self.updates, range(start, stop)),
            _taken(self.percentiles, range(start, stop)),
        )

    def plain(self) -> Bundle:
        """Return the elements in lists instead of lanes; it is faster to take many small parts of lists."""
        return Bundle(
            list(self.values),
            list(self.times),
            list(self.windows),
            list(self.panes),
            list(self.orders),
            list(self.produced),
            dict(self.updates.items()),
            dict(self.percentiles),
        )

    def retractions(self) -> frozenset[int]:
        """Return the rows of the elements that are retractions."""
        return frozenset(np.flatnonzero(retracted(self.updates, len(self))).tolist()) if self.updates else frozenset()

    def in_order(self) -> Bundle:
        """Return the elements sorted by order; the bundle itself if they are sorted already."""
        rows = sorting(self.orders)
        return self if rows is None else self.take(rows)


def all_joined(bundles: Sequence[Bundle]) -> Bundle:
    """Return the elements of several bundles as one bundle; the first one is reused for it."""
    if not bundles:
        return Bundle()
    first, *others = bundles
    if others:
        first.extend(*others)
    return first


def windows_apart(
    windows: Sequence[tuple[Window, ...]],
) -> tuple[Sequence[int], Sequence[tuple[Window, ...]]]:
    """Return the windows one by one, and for each the row of the element that is in it.

    Example:
        >>> day, night = "day", "night"
        >>> windows_apart([(day,), (day, night), ()])
        ([0, 1, 1], [('day',), ('day',), ('night',)])
        >>> windows_apart([(day,), (night,)])
        (range(0, 2), [('day',), ('night',)])
    """
    alone = isinstance(windows, Intervals) or (isinstance(windows, Repeated) and len(windows.value) == 1)
    if alone or all(len(several) == 1 for several in windows):
        return range(len(windows)), windows
    rows = [row for row, several in enumerate(windows) for _ in several]
    return rows, [(window,) for several in windows for window in several]


def updates_of(updates: Mapping[int, Update], rows: Sequence[int] | NDArray[np.int64]) -> Mapping[int, Update]:
    """Return the updates at some rows, by their indices among the selected ones."""
    return updates.taken(rows) if isinstance(updates, UpdateColumns) else _taken(updates, rows)


def retracted(updates: Mapping[int, Update], count: int) -> NDArray[np.bool_]:
    """Return for each element whether it is a retraction."""
    if isinstance(updates, UpdateColumns):
        return updates.retracted()
    retractions = np.zeros(count, np.bool_)
    for row, update in updates.items():
        retractions[row] = update.is_retraction
    return retractions


def firings(updates: Mapping[int, Update], count: int) -> NDArray[np.int64]:
    """Return a number for the emission of each element; −1 for an element without an update."""
    if isinstance(updates, UpdateColumns):
        return updates.firings()
    numbers: dict[Hashable, int] = {}
    of_rows = np.full(count, -1)
    for row, update in updates.items():
        of_rows[row] = numbers.setdefault(update.emission, len(numbers))
    return of_rows


def _joined_updates(bundles: Sequence[Bundle]) -> Mapping[int, Update]:
    """Return the updates of several bundles; if the first one has a dict, and it is needed, it is changed."""
    parts = [bundle for bundle in bundles if len(bundle)]
    first = parts[0].updates if parts else {}
    if isinstance(first, UpdateColumns) and all(type(part.updates) is type(first) for part in parts):
        columns = first if len(parts) == 1 else first.joined([part.updates for part in parts])
        if columns is not None:
            return columns
    updates = bundles[0].updates if isinstance(bundles[0].updates, dict) else {}
    before = 0
    for bundle in bundles:
        if bundle.updates is not updates:
            updates.update(_behind(bundle.updates, before))
        before += len(bundle)
    return updates


def _behind(values: Mapping[int, ValueT], before: int) -> dict[int, ValueT]:
    """Return the values by row, if they follow `before` others."""
    return {before + row: value for row, value in values.items()}


def _taken(values: Mapping[int, ValueT], rows: Sequence[int] | NDArray[np.int64]) -> dict[int, ValueT]:
    """Return the values at some rows, by their indices among the selected ones."""
    return {index: values[int(row)] for index, row in enumerate(rows) if row in values} if values else {}
