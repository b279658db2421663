"""Bundles: elements side by side, column by column, in the total order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, PaneInfo, Window

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dataflow_model.runners.engine.order import Order

ToldT = TypeVar("ToldT")

__all__ = ["GLOBAL_ONLY", "Bundle", "Update"]

GLOBAL_ONLY: Final[tuple[Window, ...]] = (GLOBAL_WINDOW,)


@attrs.frozen
class Update:
    """What a row has to do with a value that is taken back.

    Attributes:
        emission: names the firing that took it back; its retractions and the value in their place share it.
        is_retraction: whether the row is the value taken back.
    """

    emission: Hashable
    is_retraction: bool


@attrs.define(eq=True)
class Bundle:
    """A run of elements of one collection.

    Attributes:
        values: the elements.
        times: their event times, in microseconds.
        windows: the windows each is in.
        panes: the pane that made each.
        orders: where each stands in its instant.
        produced: the processing time at which each was produced.
        updates: by place, the few elements that take a value back or stand in its stead.
        percentiles: by place, the watermark's percentile at which an element was produced, where someone asks for it.
    """

    values: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    windows: list[tuple[Window, ...]] = attrs.field(factory=list)
    panes: list[PaneInfo] = attrs.field(factory=list)
    orders: list[Order] = attrs.field(factory=list)
    produced: list[int] = attrs.field(factory=list)
    updates: dict[int, Update] = attrs.field(factory=dict)
    percentiles: dict[int, float | None] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def fresh(cls, values: list[Any], times: list[int], orders: list[Order], produced: int) -> Bundle:
        """Return a bundle of elements as a source gives them: in the global window, made by no pane."""
        count = len(values)
        return cls(values, times, [GLOBAL_ONLY] * count, [NO_FIRING] * count, orders, [produced] * count)

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
        """Add one element."""
        if update is not None:
            self.updates[len(self.values)] = update
        self.values.append(value)
        self.times.append(time)
        self.windows.append(windows)
        self.panes.append(pane)
        self.orders.append(order)
        self.produced.append(produced)

    def extend(self, other: Bundle) -> None:
        """Add all elements of another bundle."""
        before = len(self.values)
        _add_behind(self.updates, other.updates, before)
        _add_behind(self.percentiles, other.percentiles, before)
        self.values.extend(other.values)
        self.times.extend(other.times)
        self.windows.extend(other.windows)
        self.panes.extend(other.panes)
        self.orders.extend(other.orders)
        self.produced.extend(other.produced)

    def take(self, rows: Sequence[int]) -> Bundle:
        """Return the elements at these places, in this order."""
        return Bundle(
            [self.values[row] for row in rows],
            [self.times[row] for row in rows],
            [self.windows[row] for row in rows],
            [self.panes[row] for row in rows],
            [self.orders[row] for row in rows],
            [self.produced[row] for row in rows],
            _taken(self.updates, rows),
            _taken(self.percentiles, rows),
        )

    def part(self, start: int, stop: int) -> Bundle:
        """Return the elements `[start, stop)`."""
        return Bundle(
            self.values[start:stop],
            self.times[start:stop],
            self.windows[start:stop],
            self.panes[start:stop],
            self.orders[start:stop],
            self.produced[start:stop],
            _taken(self.updates, range(start, stop)),
            _taken(self.percentiles, range(start, stop)),
        )

    def is_retraction(self, row: int) -> bool:
        """Tell whether the element at a place takes an earlier value back."""
        update = self.updates.get(row)
        return update is not None and update.is_retraction

    def in_order(self) -> Bundle:
        """Return the elements sorted by order; itself where they are sorted already."""
        orders = self.orders
        if all(map(_not_after, orders, orders[1:])):
            return self
        return self.take(sorted(range(len(orders)), key=orders.__getitem__))


def _add_behind(told: dict[int, ToldT], more: dict[int, ToldT], before: int) -> None:
    """Add what is told of the places of another bundle, which come behind `before` others."""
    if more:
        told.update({before + row: one for row, one in more.items()})


def _taken(told: dict[int, ToldT], rows: Sequence[int]) -> dict[int, ToldT]:
    """Return what is told of some places, by their places among the rows that are taken."""
    return {place: told[row] for place, row in enumerate(rows) if row in told} if told else {}


def _not_after(first: Order, second: Order) -> bool:
    return first <= second
