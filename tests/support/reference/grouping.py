"""GroupByKeyAndWindow for one shard on objects: the reference that defines what the compiled core has to compute.

It processes each element, and runs any trigger tree and any window function. The events of
one instant are calls; `take_output` returns the panes. State is in a store by encoded key.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.plan.logical.strategy import ClosingBehavior, LateData, OnTimeBehavior
from dataflow_model.runners.engine.core.operations import AT, BEFORE, WATERMARK
from dataflow_model.runners.engine.functions.lifetimes import Lifetime
from dataflow_model.runners.engine.functions.uncombining import subtracting
from dataflow_model.runners.engine.functions.user_code import at_window
from dataflow_model.runners.engine.lanes.order import by_window, timer_cause
from dataflow_model.runners.engine.protocol.by_key import run_by_key
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.state.key_store import CLOCK, EVENT_TIME
from dataflow_model.runners.engine.state.stateful_cells import expiry_of
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import FiringMode, TimeDomain, TriggerMachine
from dataflow_model.values import encode_key
from tests.support.reference.cells import CellsByKey, incorporate, owes, take_back
from tests.support.reference.emission import Emitter, Firing
from tests.support.reference.feeding import feed_pairs
from tests.support.reference.key_states import Cell, KeyState
from tests.support.reference.merging import merge_windows
from tests.support.reference.states import key_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Produced
    from dataflow_model.runners.engine.lanes.order import Cause, Order
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.triggers import Outcome
    from dataflow_model.values import PaneInfo, Window

_EVENT: Final = TimeDomain.EVENT_TIME
_CLOCK: Final = TimeDomain.PROCESSING_TIME
_NONE: Final[dict[Window, list[Any]]] = {}
_UNCHANGED: Final[tuple[Window, ...]] = ()


class _PaneView:
    """What a trigger can read of the current window."""

    __slots__ = ("_engine", "cell")

    def __init__(self, engine: GroupingEngine) -> None:
        self._engine = engine
        self.cell: Cell | None = None

    def peek_value(self) -> Any:
        """Return the value of a pane if it were emitted now."""
        assert self.cell is not None
        return self._engine.combine.extract_output(self.cell.accumulator)

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the window's panes so far."""
        assert self.cell is not None
        return self.cell.history


class GroupingEngine(StoreMachine):
    """One grouping on one shard.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        percentiles: the percentiles below 100 that the plan uses, in order.
        takes_back: whether its input may contain retractions.
        records_percentile: whether a function downstream requests `watermark_percentile`.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData = LateData.DROP,
        percentiles: tuple[float, ...] = (),
        *,
        takes_back: bool = False,
        records_percentile: bool = False,
    ) -> None:
        self.machine = TriggerMachine(node.strategy.trigger)
        read = functools.partial(key_state, node, takes_back=takes_back)
        self.state = CellsByKey(node.strategy, read, self.machine.percentiles)
        super().__init__(node.label, self.state, tuple(dict.fromkeys((*percentiles, *self.machine.percentiles))))
        self.strategy = node.strategy
        self.combine = subtracting(node) if takes_back else node.combine
        self.late_data = node.strategy.late_data or late_data
        self.lateness = int(node.strategy.allowed_lateness)
        self._must_close = node.strategy.closing is ClosingBehavior.FIRE_ALWAYS
        self._awaited = self.machine.percentiles
        self._view = _PaneView(self)
        self._lifetime = Lifetime(node.label, node.combine)
        self._emitter = Emitter(
            node.label,
            node.strategy,
            self.combine,
            self.machine.name,
            self.counters,
            keeps_history=self.machine.reads_history,
            percentile_of=self.percentile_of if records_percentile else None,
        )

    def set_up(self) -> None:
        """Set up the combiner before its first call, unless that has been done."""
        self._lifetime.set_up()

    def tear_down(self) -> None:
        """Tear down the combiner."""
        self._lifetime.tear_down()

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket's keys one after the other."""
        return run_by_key(self, bucket.elements)

    def follow(self, elements: Bundle) -> None:
        """Process the elements of one key in order; the watermark follows their event times."""
        feed_pairs(self, elements, follow=True)

    def take_outputs(self) -> dict[str, Bundle]:
        """Return the panes emitted since the last call."""
        return {MAIN: self.take_output()}

    # The events of one instant -------------------------------------------------------------------------------------

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        instants = chunk.instants
        clock, watermarks, signals = instants.clocks[index], chunk.watermarks[index], instants.signals.get(index)
        if inbox is None and not signals and self.pass_by(clock, watermarks):
            return {}
        self.advance_clock(clock)
        if signals:
            self.signal(signals)
        if inbox is not None:
            feed_pairs(self, inbox)
        self.advance_watermarks(watermarks)
        if instants.closes[index]:
            self.leave_instant()
        return self.take_outputs()

    def advance_clock(self, processing_time: int) -> None:
        """Advance the processing clock: run the timers before `processing_time`, then set the clock to it."""
        if processing_time <= self.clock:
            return
        self._run_clock(processing_time - 1, processing_time, BEFORE)
        self.clock = processing_time

    def pass_by(self, processing_time: int, watermarks: Watermarks) -> bool:
        """Advance all clocks if nothing is due on the way and nothing has changed; return whether that was so."""
        if self.percentiles or self.state.is_due(self._clocks(watermarks.low, processing_time)):
            return False
        self.clock = max(self.clock, processing_time)
        self.reach(watermarks)
        return True

    def leave_instant(self) -> None:
        """End the instant: run the timers that are due at the clock's own time."""
        self._run_clock(self.clock, self.clock, AT)

    def signal(self, names: Collection[str]) -> None:
        """Send signals to every open window, before the elements of the instant."""
        for name in sorted(self.machine.signals.intersection(names)):
            windows = self.state.every_window()
            open_cells = [
                (self.clock, window, state, encoded) for encoded, window, state in windows if window in state.cells
            ]
            if open_cells:
                self.set_up()
            for at, window, state, encoded in sorted(open_cells, key=_by_deadline):
                cell = state.cells[window]
                with at_window(self.label, state.key, window):
                    self._set_clocks()
                    outcome = self.machine.signal(cell.tree, window, name, self._see(cell))
                    self._emitter.emissions.of_timer(BEFORE, timer_cause(at, by_window(window), encoded))
                    self._act(state, window, cell, outcome)
                self.state.mark(encoded, window)

    def element(
        self,
        key: Any,
        value: Any,
        event_time: int,
        windows: Iterable[Window],
        order: Order,
        replaced: Mapping[Window, list[Any]] = _NONE,
    ) -> None:
        """Incorporate an element.

        Args:
            key: the key of the group.
            value: the value to combine.
            event_time: its event time.
            windows: its windows.
            order: its order within the instant.
            replaced: the values that it replaces, by window; both are one event for the trigger.
        """
        self._emitter.emissions.of_element(order)
        encoded = encode_key(key)
        state = self.state.open(encoded, key)
        merges = self.strategy.merges
        self.counters["elements_in"] += 1
        for window in windows:
            replaced_values = replaced.get(window, ()) if replaced else ()
            if self.watermark >= expiry_of(window, self.lateness):
                self._expired(state, encoded, window, value, event_time, reopens=not replaced_values)
                self._drop_retractions(len(replaced_values))
                continue
            target, changed = self._merge(state, encoded, window) if merges else (window, _UNCHANGED)
            cell = state.cells.get(target)
            if cell is None:
                cell = state.cells[target] = Cell(self.combine.create_accumulator())
            if cell.tree.is_finished():
                self.counters["dropped_because_closed"] += 1
                self._drop_retractions(len(replaced_values))
                self._catch_up(state, encoded, changed)
                continue
            if merges and target.start == window.start and self.watermark > self._would_expire(int(window.start)):
                self.counters["possible_session_splits"] += 1
            on_time = self.watermark < int(target.end)
            for old in replaced_values:
                self._take_back(cell, old, on_time=on_time)
            cell.accumulator = self.combine.add_input(cell.accumulator, value)
            incorporate(cell, event_time, watermark=self.watermark, on_time=on_time)
            self._set_clocks()
            outcome = self.machine.element(cell.tree, target, value, self._see(cell), event_time=event_time)
            self._act(state, target, cell, outcome)
            self.state.mark(encoded, target)
            self._catch_up(state, encoded, {*changed, target})
        if not state.cells and not state.reopened:
            self.state.keys.pop(encoded, None)  # everything was dropped

    def retraction(self, key: Any, value: Any, event_time: int, windows: Iterable[Window], order: Order) -> None:
        """Retract an element that nothing replaces; only triggers that wait for a clock react to it."""
        self._emitter.emissions.of_element(order)
        encoded = encode_key(key)
        state = self.state.open(encoded, key)
        for window in windows:
            cell = state.cells.get(window)
            if self.watermark >= expiry_of(window, self.lateness) or (cell is not None and cell.tree.is_finished()):
                self._drop_retractions(1)
                continue
            if cell is None:
                cell = state.cells[window] = Cell(self.combine.create_accumulator())
            self._take_back(cell, value, on_time=self.watermark < int(window.end))
            self._set_clocks()
            outcome = self.machine.element(
                cell.tree, window, value, self._see(cell), retraction=True, event_time=event_time
            )
            self._act(state, window, cell, outcome)
            self.state.mark(encoded, window)
            self._catch_up(state, encoded, (window,))
        if not state.cells and not state.reopened:
            self.state.keys.pop(encoded, None)

    def advance_watermarks(self, watermarks: Watermarks) -> None:
        """Apply the input's watermarks: run the event-time timers that they reach, and close or expire windows."""
        previous, before = self.watermark, self._clocks(self.watermark, self.clock)
        self.reach(watermarks)
        clocks = self._clocks(self.watermark, self.clock)
        if clocks == before:  # nothing has moved that the trigger waits for
            return
        due_timers = self.state.take_due({line: until for line, until in enumerate(clocks) if line != CLOCK})
        if not due_timers:
            return
        self.set_up()
        fired: dict[tuple[bytes, Window], Outcome] = {}
        due = []
        for encoded, window, state in due_timers:
            if window in state.reopened and self.watermark > previous:
                due.append((int(MIN_TIMESTAMP), window, state, encoded))
            if window in state.cells:
                with at_window(self.label, state.key, window):
                    outcome = self._run_event_timers(state.cells[window], window)
                if outcome.fired or outcome.cleared:
                    fired[encoded, window] = outcome
                at = expiry_of(window, self.lateness) if outcome.at is None else outcome.at
                due.append((at, window, state, encoded))
        for deadline, window, state, encoded in sorted(due, key=_by_deadline):
            self._emitter.emissions.of_timer(WATERMARK, timer_cause(deadline, by_window(window), encoded))
            with at_window(self.label, state.key, window):
                if window in state.reopened:
                    self._reopened(state, window)
                else:
                    self._watermark_reaches(state, window, previous, fired.get((encoded, window)))
            self.state.mark(encoded, window)

    # What a runner reads -------------------------------------------------------------------------------------------

    def next_due(self, domain: TimeDomain) -> int | None:
        """Return when the next timer, or for the low watermark the next expiry, is due in a domain."""
        return self.state.next_dues()[EVENT_TIME if domain is _EVENT else CLOCK]

    def take_output(self) -> Bundle:
        """Return the panes emitted since the last call, in order of emission."""
        return self._emitter.take()

    def live_windows(self) -> int:
        """Return the number of windows with state in memory."""
        return sum(len(state.cells) for state in self.state.keys.values())

    # Firing --------------------------------------------------------------------------------------------------------

    def _clocks(self, watermark: int, processing_time: int) -> tuple[int, ...]:
        if not self._awaited:
            return watermark, processing_time
        return watermark, processing_time, *(self.percentiles[percentile] for percentile in self._awaited)

    def _set_clocks(self, processing_time: int | None = None) -> None:
        now = self.clock if processing_time is None else processing_time
        self.machine.clocks(watermark=self.watermark, processing_time=now, percentiles=self.percentiles)

    def _see(self, cell: Cell) -> _PaneView:
        self._view.cell = cell
        return self._view

    def _run_event_timers(self, cell: Cell, window: Window) -> Outcome:
        """Run a window's event-time timers up to the watermark, as one event."""
        self._set_clocks()
        return self.machine.due(cell.tree, window, _EVENT, self.watermark, self._see(cell))

    def _act(self, state: KeyState, window: Window, cell: Cell, outcome: Outcome, at: int | None = None) -> None:
        """Apply the trigger's outcome of an event other than a watermark."""
        if outcome.fired:
            produced = self.clock if at is None else at
            forced = self._must_close and cell.tree.is_finished()
            firing = Firing(
                watermark=self.watermark,
                produced=produced,
                forced=forced,
                last=self.watermark >= expiry_of(window, self.lateness),
                mode=outcome.mode,
            )
            self._emitter.fire(state, window, cell, firing)
        if outcome.cleared:
            self._emitter.clear(cell)

    def _watermark_reaches(self, state: KeyState, window: Window, previous: int, outcome: Outcome | None) -> None:
        """Apply a new watermark to one window: firing, passing and expiry, as one event."""
        cell = state.cells[window]
        fired = outcome is not None and outcome.fired
        passing = previous < int(window.end) <= self.watermark
        expiring = self.watermark >= expiry_of(window, self.lateness)
        forced = fired and passing and self.strategy.on_time is OnTimeBehavior.FIRE_ALWAYS
        if expiring or (fired and cell.tree.is_finished()):
            forced = forced or (self._must_close and not cell.has_closed)
        must = cell.pending or forced or (owes(cell, window) and not cell.tree.is_finished())
        if fired or (expiring and must):
            firing = Firing(
                watermark=self.watermark,
                produced=self.clock,
                by_trigger=fired,
                passing=passing,
                forced=forced,
                last=expiring,
                mode=FiringMode.DEFAULT if outcome is None else outcome.mode,
            )
            self._emitter.fire(state, window, cell, firing)
        if outcome is not None and outcome.cleared:
            self._emitter.clear(cell)
        if expiring:
            del state.cells[window]

    def _run_clock(self, until: int, now: int, phase: int) -> None:
        due_timers = self.state.take_due({CLOCK: until})
        if not due_timers:
            return
        self.set_up()
        due = []
        outcomes: dict[tuple[bytes, Window], Outcome] = {}
        for encoded, window, state in due_timers:
            cell = state.cells.get(window)
            if cell is not None:
                self._set_clocks(now)
                with at_window(self.label, state.key, window):
                    outcome = self.machine.due(cell.tree, window, _CLOCK, until, self._see(cell))
                if outcome.fired or outcome.cleared:
                    outcomes[encoded, window] = outcome
                    due.append((until if outcome.at is None else outcome.at, window, state, encoded))
        for at, window, state, encoded in sorted(due, key=_by_deadline):
            self._emitter.emissions.of_timer(phase, timer_cause(at, by_window(window), encoded))
            with at_window(self.label, state.key, window):
                self._act(state, window, state.cells[window], outcomes[encoded, window], at)

    def _would_expire(self, end: int) -> int:
        """Return when a window with this end would expire."""
        return min(end + self.lateness, int(MAX_TIMESTAMP))

    def _merge(self, state: KeyState, encoded: bytes, window: Window) -> tuple[Window, Collection[Window]]:
        """Merge an arriving window; return the element's window, and the windows that were created or removed."""
        target, changed = merge_windows(self, state, window)
        for changed_window in changed:
            self.state.mark(encoded, changed_window)
        return target, changed

    def _catch_up(self, state: KeyState, encoded: bytes, windows: Iterable[Window]) -> None:
        """Run the event-time timers that an element set at or behind the watermark, and expire windows it shortened.

        Only windows that the element changed can have such timers; those of all other windows have already run.
        """
        for window in sorted(windows, key=by_window):
            cell = state.cells.get(window)
            if cell is None:
                continue
            if self.watermark >= expiry_of(window, self.lateness) or self.machine.is_overdue(cell.tree):
                outcome = self._run_event_timers(cell, window)
                self._watermark_reaches(state, window, self.watermark, outcome)
                self.state.mark(encoded, window)

    # Retracted elements --------------------------------------------------------------------------------------------

    def _take_back(self, cell: Cell, value: Any, *, on_time: bool) -> None:
        cell.accumulator = self.combine.subtract_input(cell.accumulator, value)
        take_back(cell, on_time=on_time)

    def _drop_retractions(self, count: int) -> None:
        if count:
            self.counters["dropped_retractions"] += count

    # Expired windows -----------------------------------------------------------------------------------------------

    def _expired(
        self, state: KeyState, encoded: bytes, window: Window, value: Any, event_time: int, *, reopens: bool
    ) -> None:
        """Drop and count a late element, or reopen its window for one more pane."""
        if self.late_data is LateData.DROP or not reopens:
            self.counters["dropped_because_late"] += 1
            return
        cell = state.reopened.get(window)
        if cell is None:
            cell = state.reopened[window] = Cell(self.combine.create_accumulator())
        cell.accumulator = self.combine.add_input(cell.accumulator, value)
        incorporate(cell, event_time, watermark=self.watermark, on_time=False)
        if self.watermark == MAX_TIMESTAMP:  # there is no later watermark
            self._reopened(state, window)
        self.state.mark(encoded, window)

    def _reopened(self, state: KeyState, window: Window) -> None:
        self._emitter.reopened(state.key, window, state.reopened.pop(window), self.clock)


def _by_deadline(entry: tuple[int, Window, KeyState, bytes]) -> Cause:
    deadline, window, _, encoded = entry
    return timer_cause(deadline, by_window(window), encoded)
