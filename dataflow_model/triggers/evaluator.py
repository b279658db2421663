"""The evaluator: a trigger tree as a machine over the events of one window.

`TriggerMachine` is the tree, compiled once; `TreeState` is what it remembers of one window. Each place of the tree has
a number (preorder); state and timers are filed under it. An event goes in at the root: composites hand it down with
`invoke_child`, and see there whether the child fired or finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.time import EventTime, Instant, ProcessingTime
from dataflow_model.triggers.base import ChildResult, CompositeTrigger, TimeDomain, Trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.values import Window

__all__ = ["TreeState", "TriggerMachine"]

_ROOT: Final = 0
_OUTCOMES: Final = {(fired, done): ChildResult(fired, done) for fired in (False, True) for done in (False, True)}


@attrs.define(eq=True)
class TreeState:
    """What a trigger tree remembers of one window; empty for a new one.

    Attributes:
        store: what callbacks have stored, by (place, tag).
        timers: when each timer is due, by (place, tag): (domain, time).
        finished: the set of finished places, one bit each.
        quiet: whether further elements change nothing until a timer runs or windows merge.
    """

    store: dict[tuple[int, str], Any] = attrs.field(factory=dict)
    timers: dict[tuple[int, str], tuple[TimeDomain, Instant]] = attrs.field(factory=dict)
    finished: int = 0
    quiet: bool = attrs.field(default=False, eq=False)

    def is_finished(self) -> bool:
        """Tell whether the root has finished."""
        return bool(self.finished & 1)

    def next_due(self, domain: TimeDomain) -> int | None:
        """Return when the earliest timer of a domain is due, or `None`."""
        due = [int(time) for timer_domain, time in self.timers.values() if timer_domain is domain]
        return min(due) if due else None


@attrs.frozen
class _Place:
    """A trigger at its place in the tree."""

    number: int
    trigger: Trigger
    parent: int | None
    children: tuple[int, ...]
    last: int
    """The greatest number below it."""


class TriggerMachine:
    """Runs a trigger tree; holds no state of any window.

    Args:
        trigger: the root as the user wrote it; its `repr` names the trigger in panes.

    Example:
        >>> from dataflow_model.triggers import AfterCount, Repeatedly
        >>> from dataflow_model.values import GLOBAL_WINDOW
        >>> machine = TriggerMachine(Repeatedly(AfterCount(2)))
        >>> state = TreeState()
        >>> machine.clocks(watermark=0, processing_time=0)
        >>> [machine.element(state, GLOBAL_WINDOW, x) for x in "abcd"]
        [False, True, False, True]
    """

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.name = repr(trigger)
        self._places: list[_Place] = []
        self._compile(trigger, None)
        self._watermark = EventTime(0)
        self._processing_time = ProcessingTime(0)

    def _compile(self, trigger: Trigger, parent: int | None) -> int:
        tree = trigger.lowered()
        number = len(self._places)
        self._places.append(_Place(number, tree, parent, (), number))
        children = tuple(self._compile(child, number) for child in tree.children)
        self._places[number] = _Place(number, tree, parent, children, len(self._places) - 1)
        return number

    def clocks(self, *, watermark: int, processing_time: int) -> None:
        """Set what `now` answers in the callbacks to come."""
        self._watermark = EventTime(watermark)
        self._processing_time = ProcessingTime(processing_time)

    def element(self, state: TreeState, window: Window, element: Any) -> bool:
        """Show an element to the tree; return whether it fired."""
        if state.quiet:
            return False
        context = _Context(self, state, window, element=element)
        result = self._invoke(_ROOT, context)
        state.quiet = not result.fired and self._is_quiet(_ROOT, state)
        return result.fired

    def _is_quiet(self, number: int, state: TreeState) -> bool:
        """Tell whether a place would take no notice of another element: it waits only for timers, and they are set."""
        if state.finished >> number & 1:
            return True
        place = self._places[number]
        if place.trigger.waits_for_timer:
            return (number, "") in state.timers
        if not place.trigger.passes_elements_on:
            return False
        return all(self._is_quiet(child, state) for child in place.trigger.in_turn(place.children, state.finished))

    def due(self, state: TreeState, window: Window, domain: TimeDomain, until: int) -> int | None:
        """Run the timers of a domain that are due at `until` or before, as one event.

        Returns:
            When the timer that first fired the tree was due, or `None` if the tree did not fire.
        """
        fired_at = None
        state.quiet = False
        asked: set[tuple[int, str]] = set()
        while not state.is_finished():
            due = [
                (int(time), place, tag)
                for (place, tag), (timer_domain, time) in state.timers.items()
                if timer_domain is domain and time <= until and (place, tag) not in asked
            ]
            if not due:
                break
            time, place, tag = min(due)
            asked.add((place, tag))  # a timer that its own firing sets again belongs to the next event
            del state.timers[place, tag]
            context = _Context(self, state, window, timer=(place, tag))
            if self._invoke(_ROOT, context).fired and fired_at is None:
                fired_at = time
        return fired_at

    def merge(self, window: Window, sources: Sequence[tuple[Window, TreeState]]) -> TreeState:
        """Return the state of a merged window."""
        state = TreeState()
        context = _Context(self, state, window, sources=dict(sources))
        self._merge(_ROOT, context, [source for _, source in sources])
        return state

    def _invoke(self, number: int, context: _Context) -> ChildResult:
        """Show the event in hand to one place."""
        state = context.state
        if state.finished >> number & 1:
            return _OUTCOMES[False, True]
        trigger = self._places[number].trigger
        outer = context.enter(number)
        timer = context.timer
        if timer is None:
            trigger.on_element(context)
        elif timer[0] == number:
            trigger.on_timer(context, timer[1])
        else:
            assert isinstance(trigger, CompositeTrigger)  # noqa: S101 - only composites have places below them
            trigger.on_child_timer(context, self._toward(number, timer[0]))
        result = _OUTCOMES[context.fired, context.finished]
        context.leave(outer)
        if result.finished:
            self.clear(state, number)
            state.finished |= 1 << number
        return result

    def _toward(self, number: int, target: int) -> int:
        for child, place in enumerate(self._places[number].children):
            if place <= target <= self._places[place].last:
                return child
        raise AssertionError(f"place {target} is not below {number}")

    def _merge(self, number: int, context: _Context, sources: Sequence[TreeState]) -> None:
        """Merge one place: a leaf is finished if it is in every source, a composite if its children say so.

        Where the composite above has finished in a source, that source counts only for children that have finished.
        """
        place, state = self._places[number], context.state
        for child in place.children:
            counting = [one for one in sources if not one.finished >> number & 1 or one.finished >> child & 1]
            self._merge(child, context, counting)
        if isinstance(place.trigger, CompositeTrigger):
            finished = place.trigger.finished_from([bool(state.finished >> child & 1) for child in place.children])
        else:
            finished = bool(sources) and all(source.finished >> number & 1 for source in sources)
        context.state.finished |= finished << number
        outer = context.enter(number)
        place.trigger.on_merge(context)
        context.leave(outer)
        if context.state.finished >> number & 1:
            self.clear(context.state, number)

    def clear(self, state: TreeState, number: int) -> None:
        """Forget the state and timers of a place and all below it; who has finished stays known."""
        last = self._places[number].last
        if state.store:
            state.store = {key: value for key, value in state.store.items() if not number <= key[0] <= last}
        if state.timers:
            state.timers = {key: timer for key, timer in state.timers.items() if not number <= key[0] <= last}

    def reset(self, state: TreeState, number: int, context: _Context) -> None:
        """Begin a new turn of a place and all below it."""
        self.clear(state, number)
        last = self._places[number].last
        state.finished &= ~(((1 << (last - number + 1)) - 1) << number)
        for place in self._places[number : last + 1]:
            outer = context.enter(place.number)
            place.trigger.reset(context)
            context.leave(outer)

    def child_of(self, number: int, child: int) -> int:
        """Return the number of a child."""
        return self._places[number].children[child]

    def now(self, domain: TimeDomain) -> Instant:
        """Return the clock of a domain."""
        return self._watermark if domain is TimeDomain.EVENT_TIME else self._processing_time


class _Context:
    """The context of one event; `number` is the place whose callback runs."""

    __slots__ = ("element", "finished", "fired", "machine", "number", "source_states", "state", "timer", "window")

    def __init__(
        self,
        machine: TriggerMachine,
        state: TreeState,
        window: Window,
        *,
        element: Any = None,
        timer: tuple[int, str] | None = None,
        sources: dict[Window, TreeState] | None = None,
    ) -> None:
        self.machine = machine
        self.state = state
        self.window = window
        self.element = element
        self.timer = timer
        self.source_states = sources or {}
        self.number = _ROOT
        self.fired = False
        self.finished = False

    def enter(self, number: int) -> tuple[int, bool, bool]:
        outer = (self.number, self.fired, self.finished)
        self.number, self.fired, self.finished = number, False, False
        return outer

    def leave(self, outer: tuple[int, bool, bool]) -> None:
        self.number, self.fired, self.finished = outer

    @property
    def sources(self) -> Sequence[Window]:
        return tuple(self.source_states)

    def now(self, domain: TimeDomain) -> Instant:
        return self.machine.now(domain)

    def lookup_state(self, tag: str, default: Any = None) -> Any:
        return self.state.store.get((self.number, tag), default)

    def store_state(self, tag: str, value: Any) -> None:
        self.state.store[self.number, tag] = value

    def lookup_source_state(self, window: Window, tag: str, default: Any = None) -> Any:
        return self.source_states[window].store.get((self.number, tag), default)

    def set_timer(self, tag: str, time: Instant, domain: TimeDomain) -> None:
        self.state.timers[self.number, tag] = (domain, time)

    def get_timer(self, tag: str) -> Instant | None:
        found = self.state.timers.get((self.number, tag))
        return None if found is None else found[1]

    def delete_timer(self, tag: str) -> None:
        self.state.timers.pop((self.number, tag), None)

    def trigger(self) -> None:
        self.fired = True

    def done(self) -> None:
        self.finished = True

    def is_finished(self, child: int | None = None) -> bool:
        number = self.number if child is None else self.machine.child_of(self.number, child)
        return bool(self.state.finished >> number & 1)

    def invoke_child(self, child: int) -> ChildResult:
        return self.machine._invoke(self.machine.child_of(self.number, child), self)  # noqa: SLF001 - one class in two parts

    def reset_child(self, child: int) -> None:
        self.machine.reset(self.state, self.machine.child_of(self.number, child), self)

    def reopen(self) -> None:
        self.state.finished &= ~(1 << self.number)
