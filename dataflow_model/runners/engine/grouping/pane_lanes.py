"""The infos and orders of panes that the core has emitted, as columns whose items are created when they are read."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.overriding import override
from dataflow_model.runners.engine.core.operations import (
    ELEMENT,
    GLOBAL_KIND,
    PANE_BY_TRIGGER,
    PANE_FIRST,
    PANE_LAST,
    PANE_LATE,
    PANE_ON_TIME,
)
from dataflow_model.runners.engine.lanes.bundle import Update, UpdateColumns
from dataflow_model.runners.engine.lanes.lanes import Lane, joined, taken
from dataflow_model.runners.engine.lanes.order import timer_cause
from dataflow_model.runners.engine.lanes.order_lanes import OrderLane, dense_ranks
from dataflow_model.values import PaneInfo, PaneTiming, encode_window

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.grouping.emitted_panes import EmittedPanes
    from dataflow_model.runners.engine.lanes.order import Cause, Order
    from dataflow_model.values import Window

PANE_TIMINGS: Final = {0: PaneTiming.EARLY, PANE_ON_TIME: PaneTiming.ON_TIME, PANE_LATE: PaneTiming.LATE}
"""The timing of a pane, by its flags for timing."""


def info_of_pane(flags: int, index: int, on_time_index: int, trigger: str) -> PaneInfo:
    """Return the info of a pane; `trigger` is the grouping's."""
    return PaneInfo(
        index,
        on_time_index,
        bool(flags & PANE_FIRST),
        bool(flags & PANE_LAST),
        PANE_TIMINGS[flags & (PANE_ON_TIME | PANE_LATE)],
        trigger if flags & PANE_BY_TRIGGER else None,
    )


class PaneInfos(Lane[PaneInfo]):
    """The infos of panes of one grouping.

    Attributes:
        flags, indexes, on_time_indexes: the values of each pane.
        trigger: the trigger of the grouping, for panes that it has fired.

    Example:
        >>> infos = PaneInfos(np.array([PANE_FIRST, PANE_ON_TIME]), np.array([0, 1]), np.array([-1, 0]), "Always()")
        >>> [(info.index, info.is_first, info.timing.value) for info in infos]
        [(0, True, 'EARLY'), (1, False, 'ON_TIME')]
        >>> infos.timings().to_pylist()
        ['EARLY', 'ON_TIME']
    """

    def __init__(
        self,
        flags: NDArray[np.int64],
        indexes: NDArray[np.int64],
        on_time_indexes: NDArray[np.int64],
        trigger: str,
    ) -> None:
        self.flags, self.indexes, self.on_time_indexes, self.trigger = flags, indexes, on_time_indexes, trigger

    def __len__(self) -> int:
        return len(self.flags)

    def items(self) -> Iterator[PaneInfo]:
        """Return an iterator over the infos; equal infos are the same object."""
        made: dict[tuple[int, int, int], PaneInfo] = {}
        columns = (self.flags.tolist(), self.indexes.tolist(), self.on_time_indexes.tolist())
        for fields in zip(*columns, strict=True):
            info = made.get(fields)
            if info is None:
                info = made[fields] = info_of_pane(*fields, self.trigger)
            yield info

    def item(self, row: int) -> PaneInfo:
        """Return an info."""
        numbers = int(self.flags[row]), int(self.indexes[row]), int(self.on_time_indexes[row])
        return info_of_pane(*numbers, self.trigger)

    def sliced(self, start: int, stop: int) -> PaneInfos:
        """Return the infos `[start, stop)`."""
        return self._at(slice(start, stop))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> PaneInfos:
        """Return the infos at these rows."""
        return self._at(np.asarray(rows, np.int64))

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> PaneInfos | None:
        """Return the infos of all; `None` if their triggers differ."""
        trigger = lanes[0].trigger
        if any(lane.trigger != trigger for lane in lanes):
            return None
        return PaneInfos(
            np.concatenate([lane.flags for lane in lanes]),
            np.concatenate([lane.indexes for lane in lanes]),
            np.concatenate([lane.on_time_indexes for lane in lanes]),
            trigger,
        )

    def timings(self) -> pa.Array:
        """Return the name of each pane's timing."""
        names = pa.array([PANE_TIMINGS[flag].value for flag in range(len(PANE_TIMINGS))])
        return names.take(pa.array(self.flags & (PANE_ON_TIME | PANE_LATE)))

    def _at(self, rows: slice | NDArray[np.int64]) -> PaneInfos:
        return PaneInfos(self.flags[rows], self.indexes[rows], self.on_time_indexes[rows], self.trigger)


@attrs.frozen(eq=False)
class _Timers:
    """The timers that have caused panes, in columns.

    Attributes:
        deadlines, starts, ends: the time at which each was due, and the bounds of its window.
        windows: the index of its window's encoding in `encodings`; 0 for windows that are their bounds.
        keys: the index of its encoded key in `names`.
    """

    deadlines: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    windows: NDArray[np.int64]
    keys: NDArray[np.int64]
    encodings: tuple[bytes, ...]
    names: Mapping[int, bytes] | Sequence[bytes]

    @classmethod
    def of(
        cls,
        panes: EmittedPanes,
        rows: NDArray[np.int64],
        window: Callable[[int, int, int], Window],
        keys: Mapping[int, bytes] | Sequence[bytes],
    ) -> _Timers:
        """Return the timers that have caused some of the panes; see `PaneOrders`."""
        starts, ends, kinds = panes.cause_start[rows], panes.cause_end[rows], panes.cause_kind[rows]
        indices: dict[bytes, int] = {b"": 0}
        windows = np.zeros(len(rows), np.int64)
        for timer in np.flatnonzero(kinds > GLOBAL_KIND).tolist():
            encoded = encode_window(window(int(starts[timer]), int(ends[timer]), int(kinds[timer])))
            windows[timer] = indices.setdefault(encoded, len(indices))
        return cls(panes.at[rows], starts, ends, windows, panes.key[rows], tuple(indices), keys)

    def own_names(self) -> tuple[NDArray[np.int64], tuple[bytes, ...]]:
        """Return `keys` and `names` without the names of other keys."""
        numbers, codes = np.unique(self.keys, return_inverse=True)
        return codes, tuple([self.names[number] for number in numbers.tolist()])

    def taken(self, rows: NDArray[np.int64]) -> _Timers:
        """Return the timers at these rows."""
        columns = ("deadlines", "starts", "ends", "windows", "keys")
        return attrs.evolve(self, **{name: getattr(self, name)[rows] for name in columns})

    @classmethod
    def joined(cls, parts: Sequence[_Timers]) -> _Timers:
        """Return the timers of all."""
        codes, names = zip(*(part.own_names() for part in parts), strict=True)
        windows_before = np.cumsum([0, *(len(part.encodings) for part in parts)]).tolist()
        names_before = np.cumsum([0, *map(len, names)]).tolist()
        return cls(
            np.concatenate([part.deadlines for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.windows + count for part, count in zip(parts, windows_before, strict=False)]),
            np.concatenate([keys + count for keys, count in zip(codes, names_before, strict=False)]),
            tuple(itertools.chain.from_iterable(part.encodings for part in parts)),
            tuple(itertools.chain.from_iterable(names)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        numbers, codes = np.unique(self.keys, return_inverse=True)
        names = tuple(self.names[number] for number in numbers.tolist())
        return _Timers, (self.deadlines, self.starts, self.ends, self.windows, codes, self.encodings, names)

    def causes(self) -> Iterator[Cause]:
        """Return an iterator over the timers as causes."""
        columns = (self.deadlines, self.ends, self.starts, self.windows, self.keys)
        for deadline, end, start, window, key in zip(*(column.tolist() for column in columns), strict=True):
            yield timer_cause(deadline, (end, start, self.encodings[window]), self.names[key])

    def cause(self, row: int) -> Cause:
        """Return a timer as a cause."""
        encoding, name = self.encodings[int(self.windows[row])], self.names[int(self.keys[row])]
        window = int(self.ends[row]), int(self.starts[row]), encoding
        return timer_cause(int(self.deadlines[row]), window, name)

    def sort_keys(self) -> list[NDArray[np.int64]]:
        """Return arrays by which the timers compare, the least significant first."""
        codes, names = self.own_names()
        windows, keys = _ranks_of_distinct(self.encodings)[self.windows], _ranks_of_distinct(names)[codes]
        return [keys, windows, self.starts, self.ends, self.deadlines]


def _ranks_of_distinct(items: Sequence[Any]) -> NDArray[np.int64]:
    """Return the rank of each item; equal ones have the same."""
    ranks = {item: rank for rank, item in enumerate(sorted(set(items)))}
    return np.array([ranks[item] for item in items], np.int64)


class PaneOrders(OrderLane):
    """The orders of panes: the phase, the cause in it, and the number among the panes of that cause.

    Args:
        panes: the panes of a chunk, in order.
        inputs: the orders of the rows of the chunk.
        window: returns the window with given bounds and kind.
        keys: the encoded keys, by number; they must not change.
        is_sorted: whether the inputs of each instant are in order, and so the panes too.

    Attributes:
        instants: if the panes are in order of their instants and orders, the instant of each; else `None`.
        phases: for each pane, the phase in which it was emitted.
        elements: for each pane of the phase `ELEMENT`, the order of the element that has caused it.
        timers: for each pane of another phase, the timer that has caused it.
        pane_numbers: the number of each pane among those of its cause.
    """

    instants: NDArray[np.int64] | None = None  # which older pickles lack
    _known_indices: tuple[NDArray[np.int64] | None, NDArray[np.int64]] = (None, np.empty(0, np.int64))

    def __init__(
        self,
        panes: EmittedPanes,
        inputs: Sequence[Order],
        window: Callable[[int, int, int], Window],
        keys: Mapping[int, bytes] | Sequence[bytes],
        *,
        is_sorted: bool = False,
    ) -> None:
        self.instants = panes.instant if is_sorted else None
        self.phases, self.pane_numbers = panes.phase, panes.number
        self.elements: Sequence[Any] = taken(inputs, panes.at[panes.phase == ELEMENT])
        self.timers = _Timers.of(panes, np.flatnonzero(panes.phase != ELEMENT), window, keys)

    def __len__(self) -> int:
        return len(self.phases)

    def bare(self) -> Iterator[tuple[Any, ...]]:
        """Return for each pane its phase, its cause in the phase, and its number among the panes with this cause."""
        elements, timers = iter(self.elements), self.timers.causes()
        for phase, number in zip(self.phases.tolist(), self.pane_numbers.tolist(), strict=True):
            yield (phase, *next(elements), number) if phase == ELEMENT else (phase, next(timers), number)

    def bare_item(self, row: int) -> tuple[Any, ...]:
        """Return the same for one pane."""
        phase, number = int(self.phases[row]), int(self.pane_numbers[row])
        index = int(self._cause_indices[row])
        return (phase, *self.elements[index], number) if phase == ELEMENT else (phase, self.timers.cause(index), number)

    @property
    def _cause_indices(self) -> NDArray[np.int64]:
        """For each pane, the index of what has caused it among the elements or the timers; worked out once."""
        of, indices = self._known_indices
        if of is not self.phases:
            are_elements = self.phases == ELEMENT
            indices = np.where(are_elements, np.cumsum(are_elements), np.cumsum(~are_elements)) - 1
            self._known_indices = self.phases, indices
        return indices

    def sorting(self, *major: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the rows by which to sort the panes; `None` if they are in order already.

        Panes that come straight from their grouping are in order, which is recognised without reading the keys.
        """
        if self.instants is not None and len(major) == 1:
            steps = np.diff(major[0])
            if (steps >= 0).all() and not np.diff(self.instants)[steps == 0].any():
                return None
        return super().sorting(*major)

    def keys(self) -> list[NDArray[np.int64]]:
        """Return the numbers, then the arrays by which the causes compare."""
        return [self.pane_numbers, *self.cause_keys()]

    def cause_keys(self) -> list[NDArray[np.int64]]:
        """Return arrays by which the causes compare, the least significant first."""
        of_element = self.phases == ELEMENT
        timers = self.timers.sort_keys()
        columns = [np.zeros(len(self), np.int64) for _ in timers]
        for column, of_timers in zip(columns, timers, strict=True):
            column[~of_element] = of_timers
        columns[-1][of_element] = _element_ranks(self.elements)
        return [*columns, self.phases]

    def select(self, rows: slice | NDArray[np.int64]) -> None:
        """Keep only the orders at these rows."""
        of_element = self.phases == ELEMENT
        causes = np.where(of_element, np.cumsum(of_element), np.cumsum(~of_element)) - 1
        self.phases, self.pane_numbers = self.phases[rows], self.pane_numbers[rows]
        chosen, of_element = causes[rows], self.phases == ELEMENT
        self.elements = taken(self.elements, chosen[of_element])
        self.timers = self.timers.taken(chosen[~of_element])
        if self.instants is not None:
            rises = (np.diff(rows) > 0).all() if isinstance(rows, np.ndarray) else (rows.step or 1) > 0
            self.instants = self.instants[rows] if rises else None

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> PaneOrders | None:
        """Return the orders of all; `None` if they differ in form, or those of the elements cannot be compared."""
        first: PaneOrders = lanes[0]
        if any(lane.form != first.form for lane in lanes):
            return None
        of_elements = [lane.elements for lane in lanes if len(lane.elements)]
        if not all(isinstance(orders, OrderLane) for orders in of_elements):
            return None
        elements = joined(*of_elements) if of_elements else []
        if of_elements and not isinstance(elements, OrderLane):
            return None
        together = copy.copy(first)
        together.instants = None
        together.phases = np.concatenate([lane.phases for lane in lanes])
        together.pane_numbers = np.concatenate([lane.pane_numbers for lane in lanes])
        together.elements = elements
        together.timers = _Timers.joined([lane.timers for lane in lanes])
        if first.numbers is not None:
            together.numbers = np.concatenate([lane.numbers for lane in lanes])
        return together


def _element_ranks(orders: Sequence[Any]) -> NDArray[np.int64]:
    """Return numbers by which orders compare; equal orders have equal ones."""
    if isinstance(orders, OrderLane):
        return orders.ranked()
    return _ranks_of_distinct(orders)


class PaneUpdates(UpdateColumns):
    """The marks of panes that are retractions, or replace retracted values.

    Attributes:
        label: the label of the grouping.
        orders: the orders of the panes.
        emissions: for each pane, the number of its firing among those of its cause; −1 if it is not a retraction, and
            replaces no value.
        retractions: whether each pane is a retraction.
    """

    def __init__(
        self, label: str, orders: PaneOrders, emissions: NDArray[np.int64], retractions: NDArray[np.bool_]
    ) -> None:
        self.label, self.orders, self.emissions, self.retractions = label, orders, emissions, retractions

    def __len__(self) -> int:
        return int((self.emissions >= 0).sum())

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.emissions >= 0).tolist())

    def __getitem__(self, row: int) -> Update:
        if not 0 <= row < len(self.emissions) or self.emissions[row] < 0:
            raise KeyError(row)
        return self._update(self.orders.bare_item(row), int(self.emissions[row]), bool(self.retractions[row]))

    def items(self) -> ItemsView[int, Update]:
        """Return the updates with their rows."""
        columns = zip(self.orders.bare(), self.emissions.tolist(), self.retractions.tolist(), strict=True)
        return {row: self._update(*pane) for row, pane in enumerate(columns) if pane[1] >= 0}.items()

    @override
    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> PaneUpdates:
        indices = np.asarray(rows, np.int64)
        return PaneUpdates(self.label, self.orders.taken(indices), self.emissions[indices], self.retractions[indices])

    def retracted(self) -> NDArray[np.bool_]:
        """Return for each pane whether it is a retraction."""
        return self.retractions

    def firings(self) -> NDArray[np.int64]:
        """Return a number for the firing of each pane that is a retraction or replaces a value; −1 for others."""
        numbers = dense_ranks([self.emissions, *self.orders.cause_keys()])
        return np.where(self.emissions < 0, -1, numbers)

    @classmethod
    def joined(cls, columns: Sequence[Any]) -> PaneUpdates | None:
        """Return the updates of several bundles of panes as one; `None` if their orders cannot be one column."""
        first: PaneUpdates = columns[0]
        orders = PaneOrders.joined([part.orders for part in columns])
        if any(part.label != first.label for part in columns) or orders is None:
            return None
        emissions = np.concatenate([part.emissions for part in columns])
        return cls(first.label, orders, emissions, np.concatenate([part.retractions for part in columns]))

    def _update(self, order: tuple[Any, ...], emission: int, is_retraction: bool) -> Update:
        *cause, _ = order
        return Update((self.label, (*cause, emission)), is_retraction)
