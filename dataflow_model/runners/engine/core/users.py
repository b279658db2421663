"""Users' triggers at their places in a compiled tree: their callbacks, and what they keep of each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from dataflow_model.runners.engine.core.operations import ACCUMULATES, CLEARS, SET
from dataflow_model.runners.engine.core.pane_lanes import info_of_pane
from dataflow_model.runners.engine.order import ELEMENT
from dataflow_model.runners.engine.user_code import at_window
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.triggers import FiringMode, TimeDomain, TreeState, TriggerMachine
from dataflow_model.triggers.composites import MET
from dataflow_model.triggers.event_context import Event, EventContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.runners.engine.core.grouping import CoreGrouping
    from dataflow_model.triggers import Trigger
    from dataflow_model.values import PaneInfo, Window

__all__ = ["UserTriggers"]

_EVENTS: Final = (Event.ELEMENT, Event.TIMER, Event.SIGNAL, Event.RETRACTION, Event.MERGE)
"""By the number that the evaluator has for each."""
_WITH_ELEMENT: Final = frozenset({Event.ELEMENT, Event.RETRACTION})
_FIRED: Final = 1
_FINISHED: Final = 2
_BITS: Final = {FiringMode.DEFAULT: 0, FiringMode.ACCUMULATE: ACCUMULATES, FiringMode.CLEAR: CLEARS}
_MODES: Final = {bits: mode for mode, bits in _BITS.items()}
_NEVER: Final = int(MAX_TIMESTAMP)


class UserTriggers:
    """The triggers of one tree that are the user's own; the evaluator calls it for their places only.

    What they store, and their timers, are in a `TreeState` for each cell; so are the firing modes of the conditions
    that an `AfterAll` has met. Which places have finished is known to the evaluator alone.

    Args:
        core: the grouping.
        trigger: the tree.
        label: the grouping's.

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
        self._signals = core.program.signals
        self._windows: dict[int, Window] = {}
        self._timed: set[tuple[int, int]] = set()
        self._due: dict[int, list[tuple[int, str]]] = {}
        self._sight = _Sight(self, core)

    # Events --------------------------------------------------------------------------------------------------------

    def set_clocks(self, now: Sequence[int]) -> None:
        """Set the clocks, by line."""
        low, clock, *further = list(now)
        percentiles = dict(zip(self._program.percentiles, further, strict=True))
        self._machine.clocks(watermark=low, processing_time=clock, percentiles=percentiles)

    def run(self, number: int, place: int, slot: int, row: int, event_time: int) -> int:
        """Show an event to the trigger at a place; return 1 if it fired, plus 2 if it finished, plus the mode."""
        event = _EVENTS[number]
        context = self._context(event, place, slot, row, event_time)
        trigger = self._machine.trigger_at(place)
        try:
            if event is Event.ELEMENT:
                trigger.on_element(context)
            elif event is Event.TIMER:
                self._run_timers(trigger, place, context)
            elif event is Event.RETRACTION:
                trigger.on_retraction(context)
            else:
                context.signal = self._signals[self._core.machine.trees.signal]
                trigger.on_signal(context, context.signal)
        except Exception as error:  # noqa: BLE001 - it is reported
            self._report(slot, error)
        self._note_timers(place, slot, context.state)
        if context.cleared:
            self._core.machine.trees.cleared = True
        if context.fired is None:
            return _FINISHED if context.finished else 0
        return _FIRED | _BITS[context.fired] | (_FINISHED if context.finished else 0)

    def collect(self, place: int, slot: int, clock: bool, until: int) -> bool:
        """Take the timers of a place that are due out of its cell; return whether there are any."""
        state = self._state(slot)
        domain = TimeDomain.PROCESSING_TIME if clock else TimeDomain.EVENT_TIME
        now = self._core.machine.trees.now
        due: list[tuple[int, str]] = []
        for (number, tag), (of, percentile, time) in state.timers.items():
            if number == place and of is domain:
                reached = until if clock else now[self._program.line_of(of, percentile)]
                if int(time) <= reached:
                    due.append((int(time), tag))
        self._due[place] = sorted(due)
        for _, tag in due:
            del state.timers[place, tag]
        self._note_timers(place, slot, state)
        return bool(due)

    def reset(self, number: int, place: int, slot: int, row: int, event_time: int) -> None:
        """Let the trigger at a place begin a new turn."""
        event = _EVENTS[number]
        context = self._context(event, place, slot, row, event_time)
        context.event = Event.RESET
        try:
            self._machine.trigger_at(place).reset(context)
        except Exception as error:  # noqa: BLE001 - it is reported
            self._report(slot, error)
        self._note_timers(place, slot, context.state)

    def merge(self, place: int, target: int, is_finished: bool, slots: Sequence[int], finished: Sequence[bool]) -> bool:
        """Let the trigger at a place build its state for a merged window; return whether it has finished.

        Args:
            place: the place.
            target: the merged cell.
            is_finished: whether the place has finished in all sources.
            slots: the sources, in the order of their windows.
            finished: of each, whether the place has finished in it.
        """
        context = self._context(Event.MERGE, place, target, 0, 0)
        context.state.finished = is_finished << place
        context.source_states = {
            self._window(slot): TreeState(self._state(slot).store, self._state(slot).timers, done << place)
            for slot, done in zip(slots, finished, strict=True)
        }
        self._machine.trigger_at(place).on_merge(context)
        done = context.finished or bool(context.state.finished)
        context.state.finished = 0
        self._note_timers(place, target, context.state)
        return done

    def _context(self, event: Event, place: int, slot: int, row: int, event_time: int) -> EventContext:
        """Return the context of an event at a place."""
        if event is Event.MERGE:
            context = EventContext(self._machine, self._state(slot), self._window(slot), event)
        elif event in _WITH_ELEMENT:
            element = self._core.machine.trees.values[row]
            self._sight.slot = slot
            context = EventContext(
                self._machine, self._state(slot), self._window(slot), event, self._sight, element, event_time
            )
        else:
            self._sight.slot = slot
            context = EventContext(self._machine, self._state(slot), self._window(slot), event, self._sight)
        context.number = place
        return context

    def _run_timers(self, trigger: Trigger, place: int, context: EventContext) -> None:
        for time, tag in self._due[place]:
            trigger.on_timer(context, tag)
            if context.fired is not None:
                context.fired_at.setdefault(place, time)
            if context.finished:
                break
        self.fired_at = context.fired_at.get(place, 0)

    # What `AfterAll` has met ---------------------------------------------------------------------------------------

    def meet(self, place: int, slot: int, child: int, mode: int) -> None:
        """Note the mode in which a child of an `AfterAll` has fired."""
        self._state(slot).store.setdefault((place, MET), {})[child] = _MODES[mode]

    def take_met(self, place: int, slot: int) -> int:
        """Forget what has been met; return the mode of the firing: the last one that is not the default."""
        met = self._state(slot).store.pop((place, MET), {})
        return next((_BITS[mode] for mode in reversed(met.values()) if mode is not FiringMode.DEFAULT), 0)

    def merge_met(self, place: int, target: int, slots: Sequence[int]) -> None:
        """Unite what has been met in several cells."""
        met: dict[int, FiringMode] = {}
        for slot in slots:
            met |= self._state(slot).store.get((place, MET), {})
        if met:
            self._state(target).store[place, MET] = met

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
        """Take in what durable state has of a cell, whose columns are filled in elsewhere."""
        self.states[slot] = state
        self._timed.update((slot, place) for place, _ in state.timers)
        if history:
            self.histories[slot] = history

    def remember(self, slot: int, flags: int, index: int, on_time_index: int) -> None:
        """Note a pane of a cell, if a trigger reads them."""
        if self._machine.reads_history:
            info = info_of_pane(flags, index, on_time_index, self._core.trigger)
            self.histories[slot] = (*self.histories.get(slot, ()), info)

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
        """Let the cell's columns have the earliest timers of a place, by line."""
        if not state.timers and (slot, place) not in self._timed:
            return
        earliest = [_NEVER] * self._program.lines
        is_set = False
        for (number, _), (domain, percentile, time) in state.timers.items():
            if number == place:
                line = self._program.line_of(domain, percentile)
                earliest[line] = min(earliest[line], int(time))
                is_set = True
        machine = self._core.machine
        base = slot * machine.cells.width + self._program.deadline[place]
        for line, due in enumerate(earliest):
            machine.cells.deadlines[base + line] = due
        if is_set:
            self._timed.add((slot, place))
            machine.trees.put(slot, SET, place)
        else:
            self._timed.discard((slot, place))
            machine.trees.take(slot, SET, place)

    def _report(self, slot: int, error: Exception) -> NoReturn:
        """Raise what a callback has raised, with key and window where no element is at hand."""
        core = self._core
        if core.machine.phase != ELEMENT and not core.fold.place:
            key = core.keys.shown[core.machine.cells.key[slot]]
            with at_window(self._label, key, self._window(slot)):
                raise error
        raise error


class _Sight:
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
