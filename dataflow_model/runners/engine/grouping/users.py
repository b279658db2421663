"""Users' triggers at their places in a compiled tree: their callbacks, and what they keep of each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from dataflow_model.runners.engine.core.operations import (
    ACCUMULATES,
    CLEARS,
    DONE,
    ELEMENT,
    EVENT_ELEMENT,
    EVENT_MERGE,
    EVENT_RETRACTION,
    EVENT_SIGNAL,
    EVENT_TIMER,
    FINISHED,
    FIRED,
    SET,
)
from dataflow_model.runners.engine.functions.user_code import at_window
from dataflow_model.runners.engine.grouping.pane_lanes import info_of_pane
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.triggers import FiringMode, TimeDomain, TreeState, TriggerMachine
from dataflow_model.triggers.composites import CONDITIONS_MET
from dataflow_model.triggers.event_context import Event, EventContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
    from dataflow_model.triggers import Trigger
    from dataflow_model.values import PaneInfo, Window

_EVENTS: Final = {
    EVENT_ELEMENT: Event.ELEMENT,
    EVENT_TIMER: Event.TIMER,
    EVENT_SIGNAL: Event.SIGNAL,
    EVENT_RETRACTION: Event.RETRACTION,
    EVENT_MERGE: Event.MERGE,
}
_WITH_ELEMENT: Final = frozenset({Event.ELEMENT, Event.RETRACTION})
_BITS: Final = {FiringMode.DEFAULT: 0, FiringMode.ACCUMULATE: ACCUMULATES, FiringMode.CLEAR: CLEARS}
_MODES: Final = {bits: mode for mode, bits in _BITS.items()}
_NEVER: Final = int(MAX_TIMESTAMP)


class UserTriggers:
    """The triggers of one tree that are the user's own; the evaluator calls it for their places only.

    A composite of the user's runs with all that is below it, on the `TriggerMachine`. What these triggers store, and
    their timers, are in a `TreeState` for each cell; so are the firing modes of the conditions that an `AfterAll` has
    met. Which places have finished is in the cell's columns.

    Args:
        core: the grouping.
        trigger: the tree.
        label: the label of the grouping.

    Attributes:
        states: by slot, what is kept of a cell.
        histories: by slot, the panes so far, if a trigger reads them.
        fired_at: the deadline that made a place fire in its last call.
    """

    def __init__(self, core: CoreGrouping, trigger: Trigger, label: str) -> None:
        self.states: dict[int, TreeState] = {}
        self.histories: dict[int, tuple[PaneInfo, ...]] = {}
        self.fired_at = 0
        self._core = core
        self._label = label
        self._program = core.program
        self._machine = TriggerMachine(trigger)
        self._owner = core.program.owner
        self._last = core.program.last.tolist()
        self._signals = core.program.signals
        self._windows: dict[int, Window] = {}
        self._timed: set[tuple[int, int]] = set()
        self._due: dict[int, dict[int, list[tuple[int, str]]]] = {}
        self._view = _PaneView(self, core)

    # Events --------------------------------------------------------------------------------------------------------

    def set_clocks(self, now: Sequence[int]) -> None:
        """Set the clocks, by time domain."""
        low, clock, *further = list(now)
        percentiles = dict(zip(self._program.percentiles, further, strict=True))
        self._machine.clocks(watermark=low, processing_time=clock, percentiles=percentiles)

    def run(self, number: int, place: int, slot: int, row: int, event_time: int) -> int:
        """Show an event to the trigger at a place; return 1 if it fired, plus 2 if it finished, plus the mode."""
        event = _EVENTS[number]
        context = self._context(event, place, slot, row, event_time)
        if event is Event.TIMER:
            context.due = self._due.pop(place)
        elif event is Event.SIGNAL:
            context.signal = self._signals[self._core.machine.trees.signal]
        try:
            result = self._machine.invoke(place, context)
        except BaseException as error:  # noqa: BLE001 - it is reported
            self._report(slot, error)
        self._leave(place, slot, context.state)
        if context.cleared:
            self._core.machine.trees.cleared = True
        finished = FINISHED if result.finished else 0
        if not result.fired:
            return finished
        self.fired_at = result.at or 0
        return FIRED | _BITS[result.mode] | finished

    def collect(self, place: int, slot: int, clock: bool, until: int) -> bool:
        """Take the timers of a place that are due out of its cell; return whether there are any."""
        state = self._state(slot)
        domain = TimeDomain.PROCESSING_TIME if clock else TimeDomain.EVENT_TIME
        now = self._core.machine.trees.now
        due: dict[int, list[tuple[int, str]]] = {}
        for (number, tag), (of, percentile, time) in state.timers.items():
            if self._owner[number] == place and of is domain:
                reached = until if clock else now[self._program.domain_index(of, percentile)]
                if int(time) <= reached:
                    due.setdefault(number, []).append((int(time), tag))
        for number, timers in due.items():
            timers.sort()
            for _, tag in timers:
                del state.timers[number, tag]
        self._due[place] = due
        self._note_timers(place, slot, state)
        return bool(due)

    def reset(self, number: int, place: int, slot: int, row: int, event_time: int) -> None:
        """Let the trigger at a place begin a new turn."""
        context = self._context(_EVENTS[number], place, slot, row, event_time)
        try:
            self._machine.reset(place, context)
        except BaseException as error:  # noqa: BLE001 - it is reported
            self._report(slot, error)
        self._leave(place, slot, context.state)

    def merge(self, place: int, target: int, slots: Sequence[int]) -> bool:
        """Let the trigger at a place build its state for a merged window; return whether it has finished.

        Args:
            place: the place.
            target: the merged cell.
            slots: the sources, in the order in which they merge.
        """
        context = self._context(Event.MERGE, place, target, 0, 0)
        sources = [(self._window(slot), self._with_finished(place, slot)) for slot in slots]
        self._machine.merge_place(place, context, sources)
        done = bool(context.state.finished >> place & 1)
        self._leave(place, target, context.state)
        return done

    def _context(self, event: Event, place: int, slot: int, row: int, event_time: int) -> EventContext:
        """Return the context of an event at a place, after noting in the cell's state what has finished below it."""
        state, window = self._state(slot), self._window(slot)
        if place < self._last[place]:
            state.finished = self._finished(range(place + 1, self._last[place] + 1), slot)
        if event is Event.MERGE:
            return EventContext(self._machine, state, window, event)
        self._view.slot = slot
        if event not in _WITH_ELEMENT:
            return EventContext(self._machine, state, window, event, self._view)
        element = self._core.machine.trees.values[row]
        return EventContext(self._machine, state, window, event, self._view, element, event_time)

    def _leave(self, place: int, slot: int, state: TreeState) -> None:
        """Copy the changes of a place and all below it to a cell's columns: the finished places, and the timers."""
        trees = self._core.machine.trees
        for number in range(place + 1, self._last[place] + 1):
            if state.finished >> number & 1:
                trees.put(slot, DONE, number)
            else:
                trees.take(slot, DONE, number)
        state.finished = 0
        self._note_timers(place, slot, state)

    def _finished(self, places: Iterable[int], slot: int) -> int:
        """Return which of some places have finished, a bit for each."""
        trees = self._core.machine.trees
        return sum(1 << place for place in places if trees.has(slot, DONE, place))

    def _with_finished(self, place: int, slot: int) -> TreeState:
        """Return the state of a cell, with the finished ones of a place and all places below it."""
        state = self._state(slot)
        return TreeState(state.store, state.timers, self._finished(range(place, self._last[place] + 1), slot))

    # What `AfterAll` has met ---------------------------------------------------------------------------------------

    def meet(self, place: int, slot: int, child: int, mode: int) -> None:
        """Note the mode in which a child of an `AfterAll` has fired."""
        self._state(slot).store.setdefault((place, CONDITIONS_MET), {})[child] = _MODES[mode]

    def take_met(self, place: int, slot: int) -> int:
        """Forget the met conditions; return the mode of the firing: the last one that is not the default."""
        met = self._state(slot).store.pop((place, CONDITIONS_MET), {})
        return next((_BITS[mode] for mode in reversed(met.values()) if mode is not FiringMode.DEFAULT), 0)

    def merge_met(self, place: int, target: int, slots: Sequence[int]) -> None:
        """Unite the met conditions of several cells."""
        met: dict[int, FiringMode] = {}
        for slot in slots:
            met |= self._state(slot).store.get((place, CONDITIONS_MET), {})
        if met:
            self._state(target).store[place, CONDITIONS_MET] = met

    # Cells ---------------------------------------------------------------------------------------------------------

    def clear(self, place: int, slot: int) -> None:
        """Forget what a place and all below it have stored, and their timers."""
        state = self.states.get(slot)
        if state is not None:
            self._machine.clear(state, place)

    def forget(self, slot: int) -> None:
        """Forget a cell."""
        self.states.pop(slot, None)
        self._windows.pop(slot, None)
        self.histories.pop(slot, None)
        if self._timed:
            self._timed.difference_update([(slot, place) for place in range(len(self._program.operation))])

    def restore(self, slot: int, state: TreeState, history: tuple[PaneInfo, ...]) -> None:
        """Restore the state and history of a cell from durable state; its columns are filled in elsewhere."""
        self.states[slot] = state
        self._timed.update((slot, self._owner[place]) for place, _ in state.timers)
        if history:
            self.histories[slot] = history

    def remember(self, slot: int, flags: int, index: int, on_time_index: int) -> None:
        """Note a pane of a cell, if a trigger reads them."""
        if self._machine.reads_history:
            info = info_of_pane(flags, index, on_time_index, self._core.trigger)
            self.histories[slot] = (*self.histories.get(slot, ()), info)

    def has_timer(self, slot: int, place: int, domain: int) -> bool:
        """Return whether a place, or one below it, has a timer in a time domain."""
        timers = self.states[slot].timers if slot in self.states else {}
        return any(
            self._owner[number] == place and self._program.domain_index(of_timer, percentile) == domain
            for (number, _), (of_timer, percentile, _) in timers.items()
        )

    def _state(self, slot: int) -> TreeState:
        state = self.states.get(slot)
        if state is None:
            state = self.states[slot] = TreeState()
        return state

    def _window(self, slot: int) -> Window:
        window = self._windows.get(slot)
        if window is None:
            cells = self._core.machine.cells
            window = self._windows[slot] = self._core.window(cells.start[slot], cells.end[slot], cells.kind[slot])
        return window

    def _note_timers(self, place: int, slot: int, state: TreeState) -> None:
        """Let the cell's columns have the earliest timers of a place and all below it, by time domain."""
        if not state.timers and (slot, place) not in self._timed:
            return
        earliest = [_NEVER] * self._program.domains
        is_set = False
        for (number, _), (domain, percentile, time) in state.timers.items():
            if self._owner[number] == place:
                index = self._program.domain_index(domain, percentile)
                earliest[index] = min(earliest[index], int(time))
                is_set = True
        machine = self._core.machine
        base = slot * machine.cells.width + self._program.deadline[place]
        for index, due in enumerate(earliest):
            machine.cells.deadlines[base + index] = due
        if is_set:
            self._timed.add((slot, place))
            machine.trees.put(slot, SET, place)
        else:
            self._timed.discard((slot, place))
            machine.trees.take(slot, SET, place)

    def _report(self, slot: int, error: BaseException) -> NoReturn:
        """Raise what a callback has raised, with key and window where no element is at hand."""
        core = self._core
        if core.machine.emission.phase != ELEMENT and core.fold.failed < 0:
            key = core.keys.shown[core.machine.cells.key[slot]]
            with at_window(self._label, key, self._window(slot)):
                raise error
        raise error


class _PaneView:
    """What a trigger can read of the current window."""

    __slots__ = ("_core", "_users", "slot")

    def __init__(self, users: UserTriggers, core: CoreGrouping) -> None:
        self._users = users
        self._core = core
        self.slot = 0

    def peek_value(self) -> Any:
        """Return the value of a pane if it were emitted now."""
        return self._core.peek(self.slot)

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the window's panes so far."""
        return self._users.histories.get(self.slot, ())
