"""Emission: how a firing becomes panes and, with a retracting strategy, retractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.plan.logical.strategy import AccumulationMode
from dataflow_model.runners.engine.functions.uncombining import MultisetFn
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.order import Emissions, by_window
from dataflow_model.triggers import FiringMode
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.values import PaneInfo, PaneTiming
from tests.support.reference.cells import clear, output_time, owes, settle, timing_of
from tests.support.reference.key_states import Standing

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Hashable

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.values import Window
    from tests.support.reference.key_states import Cell, KeyState

_CLEARS: Final[dict[AccumulationMode, Callable[[FiringMode], bool]]] = {
    AccumulationMode.CLEAR_ALWAYS: lambda _mode: True,
    AccumulationMode.CLEAR_BY_DEFAULT: lambda mode: mode is not FiringMode.ACCUMULATE,
    AccumulationMode.ACCUMULATE_BY_DEFAULT: lambda mode: mode is FiringMode.CLEAR,
    AccumulationMode.ACCUMULATE_ALWAYS: lambda _mode: False,
}
"""Whether a pane's contents are cleared after it, given the accumulation mode and the trigger's firing mode."""
_PANES: Final = {timing: f"panes_{timing.name.lower()}" for timing in PaneTiming}
_OBEDIENT: Final = frozenset({AccumulationMode.CLEAR_BY_DEFAULT, AccumulationMode.ACCUMULATE_BY_DEFAULT})


@attrs.frozen(kw_only=True)
class Firing:
    """Why a window's contents may be emitted now.

    Attributes:
        watermark: the low watermark.
        produced: the deadline that fired, or the clock if none did.
        by_trigger: whether the trigger fired; otherwise the window expires.
        passing: whether the watermark passes the end of the window in this event.
        forced: whether a pane is emitted even if it has nothing new.
        last: whether the window expires.
        mode: the trigger's firing mode, which may keep or clear the contents.
    """

    watermark: int
    produced: int
    by_trigger: bool = True
    passing: bool = False
    forced: bool = False
    last: bool = False
    mode: FiringMode = FiringMode.DEFAULT


class Emitter:
    """Turns firings of one grouping into rows of its output.

    Args:
        label: the label of the grouping.
        strategy: its windowing strategy.
        combine: its combiner.
        trigger: the name of the trigger.
        counters: the counters of panes.
        keeps_history: whether the trigger reads the panes so far.
        percentile_of: a function from an event time to the watermark's percentile, if a function downstream requests
            it; whether a pane is late depends on its timing.

    Attributes:
        emissions: records what causes the next panes.
    """

    def __init__(
        self,
        label: str,
        strategy: WindowingStrategy,
        combine: CombineFn[Any, Any, Any],
        trigger: str,
        counters: Counter[str],
        *,
        keeps_history: bool = False,
        percentile_of: Callable[[int], float | None] | None = None,
    ) -> None:
        self.output = Bundle()
        self._percentile_of = percentile_of
        self.counters = counters
        self._label = label
        self._strategy = strategy
        self._combine = combine
        self._trigger = trigger
        self._keeps_history = keeps_history
        self._clears = _CLEARS[strategy.accumulation_mode]
        self._obeys = strategy.accumulation_mode in _OBEDIENT
        self.emissions = Emissions()

    def fire(self, state: KeyState, window: Window, cell: Cell, firing: Firing) -> None:
        """Emit a pane if the window has something new or it is forced; then clear the contents if the mode says so."""
        if cell.pending or firing.forced or owes(cell, window):
            if self._strategy.retracting and not self._holds(cell):  # everything was retracted, so there is no value
                self._take_back(state.key, cell, firing.produced)
            else:
                self._emit(state.key, window, cell, self._info(window, cell, firing), firing.produced)
        if self._clears(firing.mode):
            clear(cell, self._combine.create_accumulator())
        settle(cell)

    def clear(self, cell: Cell) -> None:
        """Clear a window's contents at the trigger's request, in the accumulation modes that allow it."""
        if self._obeys:
            self.counters["cleared_by_trigger"] += cell.held
            clear(cell, self._combine.create_accumulator())
            settle(cell)

    def reopened(self, key: Any, window: Window, cell: Cell, produced: int) -> None:
        """Emit the only pane of an expired window that late data have reopened."""
        info = PaneInfo(0, 0, is_first=True, is_last=True, timing=PaneTiming.LATE, trigger=None)
        self._emit(key, window, cell, info, produced)

    def take(self) -> Bundle:
        """Return the rows since the last call, in order of emission, and end the instant."""
        self.emissions.end()
        output, self.output = self.output, Bundle()
        return output

    def _holds(self, cell: Cell) -> bool:
        """Return whether a window has any elements, by its kept inputs if there are any, else by their number."""
        return bool(cell.accumulator if isinstance(self._combine, MultisetFn) else cell.held)

    def _info(self, window: Window, cell: Cell, firing: Firing) -> PaneInfo:
        last = firing.last or cell.tree.is_finished()
        timing = timing_of(cell, window, watermark=firing.watermark, passing=firing.passing)
        if timing is not PaneTiming.EARLY:
            cell.on_time_index += 1
        cell.had_on_time = cell.had_on_time or timing is PaneTiming.ON_TIME
        cell.has_closed = cell.has_closed or last
        trigger = self._trigger if firing.by_trigger else None
        info = PaneInfo(cell.index, cell.on_time_index, cell.index == 0, last, timing, trigger)
        cell.index += 1
        if self._keeps_history:
            cell.history = (*cell.history, info)
        return info

    def _emit(self, key: Any, window: Window, cell: Cell, info: PaneInfo, produced: int) -> None:
        value = self._combine.extract_output(cell.accumulator)
        time = output_time(cell, window, self._strategy.timestamp_combiner)
        emission = self._take_back(key, cell, produced)
        update = None if emission is None else Update(emission, is_retraction=False)
        row = Standing(window, value, time, info)
        self._append(key, row, produced, update)
        if self._strategy.retracting:
            cell.standing = (row,)
        self.counters[_PANES[info.timing]] += 1

    def _take_back(self, key: Any, cell: Cell, produced: int) -> Hashable | None:
        """Emit retractions of the current values, by source window; return the id of the emission, if there are any."""
        emission: Hashable | None = None
        for standing in sorted(cell.standing, key=_by_window):
            emission = emission or (self._label, self.emissions.next())
            self._append(key, standing, produced, Update(emission, is_retraction=True))
            self.counters["retractions"] += 1
        cell.standing = ()
        return emission

    def _append(self, key: Any, row: Standing, produced: int, update: Update | None) -> None:
        if self._percentile_of is not None:
            is_late = row.info.timing is PaneTiming.LATE
            known = None if is_late else self._percentile_of(row.time) or LOW_WATERMARK
            self.output.percentiles[len(self.output)] = known
        order = self.emissions.next()
        self.output.append((key, row.value), row.time, (row.window,), row.info, order, produced, update)


def _by_window(standing: Standing) -> tuple[int, int, bytes]:
    return by_window(standing.window)
