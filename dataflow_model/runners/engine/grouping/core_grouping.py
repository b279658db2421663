"""One grouping on one shard, run by the core: it turns chunks of events into panes in columns."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.folding import PythonFold
from dataflow_model.runners.engine.core.machine import GroupingMachine
from dataflow_model.runners.engine.core.operations import (
    CLOCK_DOMAIN,
    ELEMENT,
    GLOBAL_KIND,
    INTERVAL_KIND,
)
from dataflow_model.runners.engine.core.program import USER, compile_tree
from dataflow_model.runners.engine.core.rules import Rules
from dataflow_model.runners.engine.functions.uncombining import MultisetFn, subtracting
from dataflow_model.runners.engine.grouping.emitted_panes import EmittedPanes
from dataflow_model.runners.engine.grouping.kernel_fold import KernelFold
from dataflow_model.runners.engine.grouping.keys import KeyTable
from dataflow_model.runners.engine.grouping.merging import UserMerging
from dataflow_model.runners.engine.grouping.users import UserTriggers
from dataflow_model.runners.engine.lanes.order_lanes import dense_ranks
from dataflow_model.runners.engine.lanes.radix import in_order_of
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values import GLOBAL_WINDOW, Window, encode_window, interval
from dataflow_model.windowing import Sessions

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.grouping.kernel_columns import KernelColumns
    from dataflow_model.runners.engine.grouping.placing import Placements

_MINUS_INFINITY: Final = int(MIN_TIMESTAMP)
_INFINITY: Final = int(MAX_TIMESTAMP)


@attrs.frozen(eq=False)
class CoreChunk:
    """Instants in order, and the elements in each.

    Attributes:
        keys: the keys by row; an array if all are 64-bit integers.
        values: the values by row; an array if all are 64-bit integers, or all are floats.
        elements: the rows in each of their windows.
        clock, watermark, closes, until: by instant: the clocks, whether its tick is complete, and the number of
            elements up to its end.
        further: the values of the watermark's percentiles below 100 that the trigger waits for, then by instant.
        signals: by instant, the names of the signals that take effect at its beginning.
    """

    keys: Sequence[Any] | NDArray[Any]
    values: Sequence[Any] | NDArray[Any]
    elements: Placements
    clock: NDArray[np.int64]
    watermark: NDArray[np.int64]
    closes: NDArray[np.int64]
    until: NDArray[np.int64]
    further: Sequence[NDArray[np.int64]] = ()
    signals: Sequence[Collection[str]] | None = None


class CoreGrouping:
    """A grouping that the core runs.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        takes_back: whether its input may contain retractions.
        cells: see `GroupingMachine`.

    Attributes:
        program: the program of the trigger.
        keys: the keys by number.
        machine: the compiled machine.
        percentiles: the percentiles of the watermark below 100 that the trigger waits for, lowest first.
        numbers: the number of each row's key, until `recycle`.
        fold: the object that calls the combiner.
        form: how the combiner is computed from kernels; `None` if it is not.
        kernels: the fold in arrays; `None` while accumulators are Python objects.
        row: the type of the rows that the combiner outputs, if it is computed from kernels.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData = LateData.DROP,
        *,
        takes_back: bool = False,
        cells: CellTable | None = None,
    ) -> None:
        program = self.program = compile_tree(node.strategy.trigger)
        self.percentiles = program.percentiles
        self.keys = KeyTable()
        self.machine = GroupingMachine(program, Rules.of(node.strategy, late_data), _MINUS_INFINITY, _INFINITY, cells)
        if node.dropped is not None:
            self.machine.drops = []
        self.trigger = repr(node.strategy.trigger)
        self._signals = {name: number for number, name in enumerate(program.signals)}
        self._combine = subtracting(node) if takes_back else node.combine
        if isinstance(self._combine, MultisetFn):
            self.machine.emission.keeps = self._keeps
        self.numbers = np.empty(0, np.int64)
        self._windows: list[Window] = []
        self._kinds: dict[Window, int] = {}
        self.fold = PythonFold(self._combine)
        form = self.form = self._combine.kernel_form()
        self.row = None if form is None else form.row
        self.kernels = None if form is None else KernelFold(form, self.machine)
        self._values: Sequence[Any] | NDArray[Any] = ()
        self.users: UserTriggers | None = None
        if USER in self.program.operation:
            self.machine.trees.users = self.users = UserTriggers(self, node.strategy.trigger, node.label)
        if node.strategy.merges and type(node.strategy.window_fn) is not Sessions:
            self.machine.merging = self.machine.emission.merging = UserMerging(self, node.strategy.window_fn)
        self._several_signals = False

    # Windows -------------------------------------------------------------------------------------------------------

    def kind(self, window: Window) -> int:
        """Return the number of a window's kind: a plain interval, the global window, or one of a class of its own."""
        if encode_window(window) == b"":
            return GLOBAL_KIND if window == GLOBAL_WINDOW else INTERVAL_KIND
        number = self._kinds.get(window)
        if number is None:
            number = self._kinds[window] = GLOBAL_KIND + 1 + len(self._windows)
            self._windows.append(window)
        return number

    def window(self, start: int, end: int, kind: int) -> Window:
        """Return the window with these bounds and this kind."""
        if kind == INTERVAL_KIND:
            return interval(start, end)
        return GLOBAL_WINDOW if kind == GLOBAL_KIND else self._windows[kind - GLOBAL_KIND - 1]

    # Running -------------------------------------------------------------------------------------------------------

    def run(self, chunk: CoreChunk) -> EmittedPanes:
        """Run a chunk of instants."""
        elements = self._begin(chunk)
        hold = column(len(chunk.clock))
        names, named_until = self._numbered(chunk.signals, len(chunk.clock))
        instants = (chunk.clock, chunk.watermark, chunk.closes, chunk.until, named_until, *chunk.further)
        live = self._live()
        self.machine.run(
            elements,
            column_of(chunk.elements.replaced),
            list(map(column_of, instants)),
            column_of(names),
            self._shown_values(),
            hold,
        )
        return self._panes(chunk, live, np.frombuffer(hold, np.int64))

    def run_by_key(self, chunk: CoreChunk, *, ends: bool = True) -> EmittedPanes:
        """Run elements of some keys, one key after the other: the watermark follows its rows, then advances to +∞.

        Args:
            chunk: its rows are the instants, and `watermark` the event time of each; `closes` marks a key's first row.
            ends: whether the last key ends with the chunk; otherwise its rows go on in the next one.
        """
        elements = self._begin(chunk)
        live = self._live()
        self.machine.run_by_key(
            elements,
            column_of(chunk.elements.replaced),
            list(map(column_of, (chunk.watermark, chunk.closes, chunk.until))),
            self._shown_values(),
            ends,
        )
        return self._panes(chunk, live, np.empty(0, np.int64))

    def _begin(self, chunk: CoreChunk) -> list[array[int]]:
        """Return a chunk's elements in the form for the machine."""
        self.fold.begin()
        self._values, of = chunk.values, chunk.elements
        numbers = self._admit(chunk.keys)
        if self.kernels is not None and not self.kernels.take(chunk.values, of.rows()):
            self._leave_arrays()
        return list(map(column_of, (numbers[of.row], of.start, of.end, of.kind, of.time, of.row, of.replaces)))

    def _shown_values(self) -> Sequence[Any]:
        """Return the values of a chunk as Python functions receive them; nothing if no function is called."""
        if not self.program.calls_back:
            return ()
        return self._values.tolist() if isinstance(self._values, np.ndarray) else self._values

    def _admit(self, keys: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """Return the numbers of a chunk's keys, after making room for them."""
        numbers = self.numbers = self.keys.numbers(keys)
        self.machine.cells.admit_keys(len(self.keys))
        return numbers

    def recycle(self) -> None:
        """Release the last chunk after its panes were taken, so that numbers of keys without cells can be reused."""
        cells = self.machine.cells
        touched = np.concatenate([self.numbers, leading(cells.keys_freed, cells.freed_count)])
        self.keys.release(touched[leading(cells.cells_of_key, len(self.keys))[touched] == 0])
        self.numbers, self._values = touched[:0], ()
        standing = self.machine.standing
        self.fold.forget(leading(standing.freed, standing.freed_count))
        self.machine.recycle()

    def _numbered(
        self, signals: Sequence[Collection[str]] | None, instants: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the signals that the trigger waits for, and their count up to each instant."""
        self._several_signals = False
        if not signals or not self._signals:
            return np.empty(0, np.int64), np.zeros(instants, np.int64)
        waited = [[self._signals[name] for name in sorted(set(names)) if name in self._signals] for names in signals]
        self._several_signals = any(len(numbers) > 1 for numbers in waited)
        until = np.cumsum([len(numbers) for numbers in waited], dtype=np.int64)
        return np.array([number for numbers in waited for number in numbers], np.int64), until

    def set_clocks(self, watermark: int, clock: int, percentiles: Sequence[int], closed: int) -> None:
        """Set the clocks, the percentiles that the trigger waits for, and up to which end windows have expired."""
        self.machine.set_clocks(watermark, clock)
        self.machine.closed = closed
        for number, percentile in enumerate(percentiles):
            self.machine.trees.now[CLOCK_DOMAIN + 1 + number] = percentile

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the next times at which a timer or an expiry is due, in event time and on the processing clock."""
        machine = self.machine
        clock = machine.schedule.first_due(CLOCK_DOMAIN)
        event = None
        if machine.schedule.reopened_count:
            event = _MINUS_INFINITY
        elif machine.cells.live:  # each cell waits at least for its expiry
            event = min(
                machine.schedule.first_due(domain) for domain in range(machine.domains) if domain != CLOCK_DOMAIN
            )
        return event, clock if clock < _INFINITY else None

    # Values in durable state ---------------------------------------------------------------------------------------

    def accumulators(self, slots: Sequence[int]) -> list[Any]:
        """Return the accumulators of cells."""
        if self.kernels is not None:
            return self.kernels.accumulators(slots)
        return list(map(self.fold.accumulator, slots))

    def standing_values(self, entries: Sequence[int]) -> list[Any]:
        """Return the emitted values that have not been retracted."""
        if self.kernels is not None:
            return self.kernels.standing_values(entries)
        return list(map(self.fold.standing_value, entries))

    def restore_values(self, accumulators: Mapping[int, Any], standing: Mapping[int, Any]) -> None:
        """Restore accumulators by slot and emitted values by standing entry from durable state."""
        if self.kernels is not None and not self.kernels.restore(accumulators, standing):
            self._leave_arrays()
        if self.kernels is None:
            self.fold.restore(accumulators, standing)

    def restore_columns(self, columns: KernelColumns, slots: NDArray[np.int64], entries: NDArray[np.int64]) -> None:
        """Restore the accumulators of slots and the emitted values of standing entries from columns of kernels."""
        if self.kernels is not None and not self.kernels.restore_columns(columns, slots, entries):
            self._leave_arrays()
        if self.kernels is None:
            accumulators = zip(slots.tolist(), columns.accumulators(), strict=True)
            self.fold.restore(dict(accumulators), dict(zip(entries.tolist(), columns.standing_values(), strict=True)))

    def _live(self) -> dict[int, int]:
        """Return the key of each slot in use, if equal keys may have different representations."""
        if not self.keys.varied:
            return {}
        keys = leading(self.machine.cells.key, self.machine.cells.used)
        return {slot: key for slot, key in enumerate(keys.tolist()) if key >= 0}

    def _panes(self, chunk: CoreChunk, live: dict[int, int], hold: NDArray[np.int64]) -> EmittedPanes:
        """Return the panes of the chunk that has been run.

        Args:
            chunk: the chunk.
            live: the key of each slot that was in use before, if equal keys may have different representations.
            hold: by instant, the earliest event time of pending output.
        """
        panes = leading(self.machine.emission.panes.key, self.machine.emission.panes.count)
        shown = None
        if self.keys.varied:
            looks = chunk.keys.tolist() if isinstance(chunk.keys, np.ndarray) else chunk.keys
            shown = self.keys.shown_by_pane(self.machine.log, self.numbers, looks, live, panes)
        self._fold()
        values = self.fold.emitted if self.kernels is None else self.kernels.values()
        self.machine.shrink()  # before the panes are put in order, which takes as much memory again
        return self._ordered(values, shown, hold)

    def peek(self, slot: int) -> Any:
        """Return the value of a pane of a cell if it were emitted now."""
        self._fold()
        return self._combine.extract_output(self.accumulators([slot])[0])

    def _keeps(self, slot: int) -> bool:
        """Return whether a combiner that keeps its inputs has an input of a cell."""
        self._fold()
        return bool(self.fold.accumulator(slot))

    def _fold(self) -> None:
        """Fold what has been logged since the last call."""
        if self.kernels is not None:
            self.kernels.fold()
            return
        values: Any = self._values
        if isinstance(values, np.ndarray):
            values = self._values = values.tolist()
        self.fold.fold(self.machine.log, values, self.machine.emission.panes.count)

    def _leave_arrays(self) -> None:
        """Continue with Python's numbers, which have no bound and may be of any type."""
        assert self.kernels is not None  # noqa: S101 - called only where there are arrays
        self.fold.restore(*self.kernels.everything())
        self.kernels = self.row = None

    def _ordered(
        self,
        values: Sequence[Any] | NDArray[Any] | pa.StructArray,
        shown: list[Any] | None,
        hold: NDArray[np.int64],
    ) -> EmittedPanes:
        """Return the panes in the total order of events, those of one event in the order of their causes."""
        panes, causes = self.machine.emission.panes, self.machine.emission.causes
        cause = leading(panes.cause, panes.count)
        phase = leading(causes.phase, causes.count)
        order: NDArray[np.int64] | None = None
        if (phase != ELEMENT).any():
            order = self._order_of_causes()
            if len(order) < len(cause):  # some have several panes, which are together
                ranks = np.empty(len(order), np.int64)
                ranks[order] = np.arange(len(order))
                order = in_order_of(ranks[cause])
            cause = cause[order]
            values = _selected(values, order)
            shown = None if shown is None else _selected(shown, order)

        def by_pane(values: Any) -> NDArray[np.int64]:
            taken = leading(values, panes.count)
            return taken.copy() if order is None else taken[order]

        number, emission = by_pane(panes.number), by_pane(panes.emission)
        if self._several_signals:
            further = self._counted_on(cause, number)
            number, emission = number + further, np.where(emission < 0, emission, emission + further)

        def by_cause(values: Any) -> NDArray[np.int64]:
            of_cause: NDArray[np.int64] = leading(values, causes.count)[cause]
            return of_cause

        return EmittedPanes(
            values=values,
            instant=by_cause(causes.instant),
            watermark=by_cause(causes.watermark),
            phase=phase[cause],
            at=by_cause(causes.at),
            number=number,
            cause_start=by_cause(causes.start),
            cause_end=by_cause(causes.end),
            cause_kind=by_cause(causes.kind),
            emission=emission,
            key=by_pane(panes.key),
            start=by_pane(panes.start),
            end=by_pane(panes.end),
            kind=by_pane(panes.kind),
            index=by_pane(panes.index),
            on_time_index=by_pane(panes.on_time_index),
            flags=by_pane(panes.flags),
            time=by_pane(panes.time),
            produced=by_pane(panes.produced),
            hold=hold,
            shown=shown,
        )

    def _counted_on(self, cause: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of earlier emissions of each pane's cause; a window sees two signals of an instant as one.

        Args:
            cause: the cause of each pane, in order.
            number: the number of each pane among those of its cause.
        """
        causes = self.machine.emission.causes
        columns = (causes.instant, causes.phase, causes.at, causes.key, causes.start, causes.end, causes.kind)
        same = [leading(column, causes.count) for column in columns]
        further = np.zeros(len(cause), np.int64)
        ends = np.flatnonzero(np.diff(cause)) + 1
        bounds = [0, *ends.tolist(), len(cause)]
        for (begin, until), (_, end) in itertools.pairwise(itertools.pairwise(bounds)):
            one, other = cause[begin], cause[until]
            if all(column[one] == column[other] for column in same) and same[1][one] != ELEMENT:
                further[until:end] = further[begin] + number[until - 1] + 1
        return further

    def _order_of_causes(self) -> NDArray[np.int64]:
        """Return the causes in order: by event, deadline, window end, start, encoded window and encoded key."""
        causes = self.machine.emission.causes
        count = causes.count
        key, start, end, kind = (leading(of, count) for of in (causes.key, causes.start, causes.end, causes.kind))
        if self._windows:
            windows = zip(start.tolist(), end.tolist(), kind.tolist(), strict=True)
            encoded = [encode_window(self.window(*window)) for window in windows]
            _, kind = np.unique(np.array(encoded, object), return_inverse=True)
        event, at = leading(causes.event, count), leading(causes.at, count)
        return in_order_of(self.keys.ranks()[key], dense_ranks([kind, start, end, at, event]))


def _selected(values: Any, order: NDArray[np.int64]) -> Any:
    """Return values in another order."""
    if isinstance(values, pa.Array):
        return values.take(pa.array(order))
    return values[order] if isinstance(values, np.ndarray) else [values[index] for index in order.tolist()]
