"""The infos and orders of panes that the core has emitted, as columns whose items are created when they are read."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.bundle import Update, UpdateColumns
from dataflow_model.runners.engine.core.operations import (
    GLOBAL_KIND,
    PANE_BY_TRIGGER,
    PANE_FIRST,
    PANE_LAST,
    PANE_LATE,
    PANE_ON_TIME,
)
from dataflow_model.runners.engine.lanes import Lane, taken
from dataflow_model.runners.engine.order import ELEMENT, timer_cause
from dataflow_model.runners.engine.order_lanes import OrderLane
from dataflow_model.values import PaneInfo, PaneTiming, encode_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.core.grouping import Panes
    from dataflow_model.runners.engine.order import Cause, Order
    from dataflow_model.values import Window

__all__ = ["PANE_TIMINGS", "PaneInfos", "PaneOrders", "PaneUpdates", "info_of_pane"]

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
        for place in zip(*columns, strict=True):
            info = made.get(place)
            if info is None:
                info = made[place] = info_of_pane(*place, self.trigger)
            yield info

    def item(self, row: int) -> PaneInfo:
        """Return an info."""
        numbers = int(self.flags[row]), int(self.indexes[row]), int(self.on_time_indexes[row])
        return info_of_pane(*numbers, self.trigger)

    def part(self, start: int, stop: int) -> PaneInfos:
        """Return the infos `[start, stop)`."""
        return self._at(slice(start, stop))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> PaneInfos:
        """Return the infos at these places."""
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

    def _at(self, places: slice | NDArray[np.int64]) -> PaneInfos:
        return PaneInfos(self.flags[places], self.indexes[places], self.on_time_indexes[places], self.trigger)


class PaneOrders(OrderLane):
    """The orders of the panes of a chunk.

    Args:
        panes: the panes, in order.
        inputs: the orders of the rows of the chunk.
        window: returns the window with given bounds and kind.
        keys: the encoded keys, by number.
    """

    def __init__(
        self,
        panes: Panes,
        inputs: Sequence[Order],
        window: Callable[[int, int, int], Window],
        keys: Sequence[bytes],
    ) -> None:
        self._ranks = np.arange(len(panes))
        self._phases, self._numbers = panes.phase, panes.number
        of_elements, of_timers = np.flatnonzero(panes.phase == ELEMENT), np.flatnonzero(panes.phase != ELEMENT)
        self._causes = np.empty(len(panes), np.int64)
        self._causes[of_elements], self._causes[of_timers] = np.arange(len(of_elements)), np.arange(len(of_timers))
        self._elements = taken(inputs, panes.at[of_elements])
        self._deadlines, kinds = panes.at[of_timers], panes.cause_kind[of_timers]
        self._starts, self._ends = panes.cause_start[of_timers], panes.cause_end[of_timers]
        kinds = np.where(kinds < 0, ~kinds, kinds)  # the kind of a reopened window is negative
        self._windows: dict[int, bytes] = {}
        """By kind, the encoding of windows that have more than bounds."""
        for timer in np.flatnonzero(kinds > GLOBAL_KIND).tolist():
            start, end, kind = int(self._starts[timer]), int(self._ends[timer]), int(kinds[timer])
            self._windows[kind] = encode_window(window(start, end, kind))
        self._kinds = kinds
        self._keys = [keys[key] for key in panes.key[of_timers].tolist()]

    def __len__(self) -> int:
        return len(self._ranks)

    def bare(self) -> Iterator[tuple[Any, ...]]:
        """Return for each pane its phase, its cause in the phase, and its number among the panes with this cause."""
        elements = iter(taken(self._elements, self._causes[self._phases == ELEMENT]))
        columns = (self._phases, self._causes, self._numbers)
        for phase, cause, number in zip(*(column.tolist() for column in columns), strict=True):
            yield (phase, *next(elements), number) if phase == ELEMENT else (phase, self._timers[cause], number)

    def bare_item(self, row: int) -> tuple[Any, ...]:
        """Return the same for one pane."""
        phase, cause = int(self._phases[row]), int(self._causes[row])
        causes = self._elements[cause] if phase == ELEMENT else (self._timers[cause],)
        return (phase, *causes, int(self._numbers[row]))

    def keys(self) -> list[NDArray[np.int64]]:
        """Return the ranks of the panes in the total order, as the only sort key."""
        return [self._ranks]

    def select(self, places: slice | NDArray[np.int64]) -> None:
        """Keep only the orders at these places."""
        self._phases, self._causes = self._phases[places], self._causes[places]
        self._numbers, self._ranks = self._numbers[places], self._ranks[places]

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> None:
        """Return `None`: panes of different chunks can be compared only one by one."""
        del lanes

    @functools.cached_property
    def _timers(self) -> list[Cause]:
        """The timers that have caused panes."""
        columns = (self._deadlines, self._ends, self._starts, self._kinds)
        return [
            timer_cause(deadline, (end, start, self._windows.get(kind, b"")), key)
            for deadline, end, start, kind, key in zip(
                *(column.tolist() for column in columns), self._keys, strict=True
            )
        ]


class PaneUpdates(UpdateColumns):
    """The marks of panes that are retractions, or replace retracted values.

    Args:
        label: the label of the grouping.
        orders: the orders of the panes.
        emissions: for each pane, the number of its firing among those of its cause; −1 if it is not a retraction, and
            replaces no value.
        retractions: whether each pane is a retraction.
    """

    def __init__(
        self, label: str, orders: PaneOrders, emissions: NDArray[np.int64], retractions: NDArray[np.bool_]
    ) -> None:
        self._label, self._orders, self._emissions, self._retractions = label, orders, emissions, retractions

    def __len__(self) -> int:
        return int((self._emissions >= 0).sum())

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._emissions >= 0).tolist())

    def __getitem__(self, row: int) -> Update:
        if not 0 <= row < len(self._emissions) or self._emissions[row] < 0:
            raise KeyError(row)
        *cause, _ = self._orders.bare_item(row)
        return Update((self._label, (*cause, int(self._emissions[row]))), bool(self._retractions[row]))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> PaneUpdates:
        """Return the updates at these places, by their places among the selected rows."""
        places = np.asarray(rows, np.int64)
        return PaneUpdates(self._label, self._orders.taken(places), self._emissions[places], self._retractions[places])

    def retracted(self) -> NDArray[np.bool_]:
        """Return for each pane whether it is a retraction."""
        return self._retractions
