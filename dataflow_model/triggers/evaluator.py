"""The evaluator: a trigger tree as a machine over the events of one window.

`TriggerMachine` is the tree, compiled once; `TreeState` is what it remembers about one window. Each place in the tree
has a number (in preorder), under which its state and timers are kept. An event enters at the root; composites pass it
on with `invoke_child`, whose result says whether the child fired or finished.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import EventTime, Instant, ProcessingTime
from dataflow_model.triggers.base import CompositeTrigger, Trigger
from dataflow_model.triggers.contexts import LOW_WATERMARK, ChildResult, FiringMode, Outcome, TimeDomain
from dataflow_model.triggers.event_context import Event, EventContext
from dataflow_model.triggers.state import TreeState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.triggers.contexts import PaneView
    from dataflow_model.values import Window

_ROOT: Final = 0
_ELEMENT: Final = Event.ELEMENT
_TIMER: Final = Event.TIMER
# Created once, since they are needed for each element.
_NEITHER: Final = ChildResult(fired=False, finished=False)
_FINISHED: Final = ChildResult(fired=False, finished=True)
_FIRED_ONLY: Final = {mode: ChildResult(fired=True, finished=False, mode=mode) for mode in FiringMode}
_FIRED_AND_FINISHED: Final = {mode: ChildResult(fired=True, finished=True, mode=mode) for mode in FiringMode}
_NOTHING: Final = Outcome()
_FIRED: Final = Outcome(fired=True)
_NO_PERCENTILES: Final[Mapping[float, int]] = MappingProxyType({})


@attrs.frozen
class _Place:
    """A trigger at its place in the tree."""

    number: int
    trigger: Trigger
    parent: int | None
    children: tuple[int, ...]
    last: int
    """The greatest number in its subtree."""
    resets: bool
    """Whether its trigger overrides `reset`."""


class TriggerMachine:
    """Runs a trigger tree; it holds no state of any window.

    Args:
        trigger: the root, as the user wrote it; panes name the trigger by its `repr`.

    Attributes:
        percentiles: the percentiles of the watermark below 100 that the tree uses, in order.
        signals: the names of the signals that the tree waits for.
        reads_history: whether any trigger in the tree reads the panes so far.

    Example:
        >>> from dataflow_model.triggers import AfterCount, Repeatedly
        >>> from dataflow_model.values import GLOBAL_WINDOW
        >>> machine = TriggerMachine(Repeatedly(AfterCount(2)))
        >>> state = TreeState()
        >>> machine.clocks(watermark=0, processing_time=0)
        >>> [machine.element(state, GLOBAL_WINDOW, x).fired for x in "abcd"]
        [False, True, False, True]
    """

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.name = repr(trigger)
        self._places: list[_Place] = []
        self._compile(trigger, None)
        triggers = [place.trigger for place in self._places]
        named = {float(percentile) for part in triggers for percentile in part.percentiles}
        self.percentiles = tuple(sorted(named - {LOW_WATERMARK}))
        self.signals = frozenset[str]().union(*(part.signals for part in triggers))
        self.reads_history = any(part.reads_history for part in triggers)
        self._watermark = EventTime(0)
        self._processing_time = ProcessingTime(0)
        self._percentile_watermarks = _NO_PERCENTILES

    def _compile(self, trigger: Trigger, parent: int | None) -> int:
        tree = trigger.lowered()
        number = len(self._places)
        resets = type(tree).reset is not Trigger.reset
        self._places.append(_Place(number, tree, parent, (), number, resets))
        children = tuple(self._compile(child, number) for child in tree.children)
        self._places[number] = _Place(number, tree, parent, children, len(self._places) - 1, resets)
        return number

    # The events of one window --------------------------------------------------------------------------------------

    def clocks(
        self, *, watermark: int, processing_time: int, percentiles: Mapping[float, int] = _NO_PERCENTILES
    ) -> None:
        """Set the values that `now` returns in subsequent callbacks.

        Args:
            watermark: the low watermark.
            processing_time: the processing clock.
            percentiles: the watermark of each percentile below 100; a missing percentile has the low watermark.
        """
        self._watermark = EventTime(watermark)
        self._processing_time = ProcessingTime(processing_time)
        self._percentile_watermarks = percentiles

    def element(
        self,
        state: TreeState,
        window: Window,
        element: Any,
        view: PaneView | None = None,
        *,
        retraction: bool = False,
        event_time: int | None = None,
    ) -> Outcome:
        """Process an element; with `retraction`, an element that retracts a value without a replacement."""
        event = Event.RETRACTION if retraction else _ELEMENT
        context = EventContext(self, state, window, event, view, element, event_time)
        return _outcome(self.invoke(_ROOT, context), cleared=context.cleared)

    def signal(self, state: TreeState, window: Window, name: str, view: PaneView | None = None) -> Outcome:
        """Process a signal from outside."""
        context = EventContext(self, state, window, Event.SIGNAL, view)
        context.signal = name
        return _outcome(self.invoke(_ROOT, context), cleared=context.cleared)

    def due(
        self, state: TreeState, window: Window, domain: TimeDomain, until: int, view: PaneView | None = None
    ) -> Outcome:
        """Run the timers of a domain that are due at `until` or before, as one event.

        In event time `until` is the low watermark; a timer of another percentile is due by the watermark of that
        percentile.
        """
        due: dict[int, list[tuple[int, str]]] = {}
        for (place, tag), (timer_domain, percentile, time) in state.timers.items():
            now = until if percentile == LOW_WATERMARK else int(self.now(domain, percentile))
            if timer_domain is domain and int(time) <= now:
                due.setdefault(place, []).append((int(time), tag))
        if not due or state.is_finished():
            return _NOTHING
        for place, timers in due.items():
            timers.sort()
            for _, tag in timers:  # timers that callbacks set now belong to the next event
                del state.timers[place, tag]
        context = EventContext(self, state, window, _TIMER, view)
        context.due = due
        return _outcome(self.invoke(_ROOT, context), cleared=context.cleared)

    def merge(self, window: Window, sources: Sequence[tuple[Window, TreeState]]) -> TreeState:
        """Return the state of a merged window."""
        state = TreeState()
        context = EventContext(self, state, window, Event.MERGE)
        self.merge_place(_ROOT, context, sources)
        return state

    def is_overdue(self, state: TreeState) -> bool:
        """Return whether an event-time timer is at or behind its watermark, so that `due` would run it now."""
        event_time = TimeDomain.EVENT_TIME
        return any(
            timer_domain is event_time and int(time) <= int(self.now(event_time, percentile))
            for timer_domain, percentile, time in state.timers.values()
        )

    def merge_place(self, number: int, context: EventContext, sources: Sequence[tuple[Window, TreeState]]) -> None:
        """Merge one place: a leaf is finished if it is in every source, a composite if `finished_from` says so.

        A source in which the composite above has finished counts only for children that have finished in it.
        """
        place, state = self._places[number], context.state
        for child in place.children:
            counted_sources = [
                (window, source_state)
                for window, source_state in sources
                if not source_state.finished >> number & 1 or source_state.finished >> child & 1
            ]
            self.merge_place(child, context, counted_sources)
        if isinstance(place.trigger, CompositeTrigger):
            finished = place.trigger.finished_from([bool(state.finished >> child & 1) for child in place.children])
        else:
            finished = bool(sources) and all(source.finished >> number & 1 for _, source in sources)
        state.finished |= finished << number
        context.source_states = dict(sources)
        outer = context.enter(number)
        place.trigger.on_merge(context)
        if context.finished:
            state.finished |= 1 << number
        context.leave(outer)
        if state.finished >> number & 1:
            self.clear(state, number)

    # Called by the callbacks' context, to change the tree's state --------------------------------------------------

    def invoke(self, number: int, context: EventContext) -> ChildResult:
        """Pass the current event to a place."""
        state = context.state
        if state.finished >> number & 1:
            return _FINISHED
        trigger = self._places[number].trigger
        outer = context.enter(number)
        event = context.event
        if event is _ELEMENT:
            trigger.on_element(context)
        elif event is _TIMER:
            self._run_timers(number, context)
        elif event is Event.RETRACTION:
            trigger.on_retraction(context)
        else:
            trigger.on_signal(context, context.signal)
        mode, finished = context.fired, context.finished
        context.leave(outer)
        if finished:
            self.clear(state, number)
            state.finished |= 1 << number
        if mode is not None and event is _TIMER:
            return ChildResult(fired=True, finished=finished, mode=mode, at=context.fired_at.get(number))
        if finished:
            return _FINISHED if mode is None else _FIRED_AND_FINISHED[mode]
        return _NEITHER if mode is None else _FIRED_ONLY[mode]

    def reset(self, number: int, context: EventContext) -> None:
        """Begin a new turn of a place and its descendants."""
        state, last = context.state, self._places[number].last
        self.clear(state, number)
        state.finished &= ~self._bits_below(number)
        event, context.event = context.event, Event.RESET
        for place in self._places[number : last + 1]:
            if place.resets:
                outer = context.enter(place.number)
                place.trigger.reset(context)
                context.leave(outer)
        context.event = event

    def finish(self, number: int, context: EventContext) -> None:
        """Mark a place and its descendants as finished."""
        self.clear(context.state, number)
        context.state.finished |= self._bits_below(number)

    def clear(self, state: TreeState, number: int) -> None:
        """Delete the state and timers of a place and its descendants, but keep which of them have finished."""
        last = self._places[number].last
        if state.store:
            state.store = {key: value for key, value in state.store.items() if not number <= key[0] <= last}
        if state.timers:
            state.timers = {key: timer for key, timer in state.timers.items() if not number <= key[0] <= last}

    # Called by the callbacks' context, to read ---------------------------------------------------------------------

    def trigger_at(self, number: int) -> Trigger:
        """Return the trigger at a place."""
        return self._places[number].trigger

    def children_of(self, number: int) -> Sequence[int]:
        """Return the numbers of the children of a place."""
        return self._places[number].children

    def now(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> Instant:
        """Return the current time of a domain's clock."""
        if domain is TimeDomain.PROCESSING_TIME:
            return self._processing_time
        if percentile == LOW_WATERMARK:
            return self._watermark
        self.check_percentile(percentile)
        return EventTime(self._percentile_watermarks.get(percentile, self._watermark))

    def check_percentile(self, percentile: float) -> None:
        """Reject a percentile that no trigger in the tree declares, since its watermark is not tracked."""
        if percentile != LOW_WATERMARK and percentile not in self.percentiles:
            raise InvalidArgument(
                f"{self.name} asks for percentile {percentile!r} of the watermark, which none of its triggers declares",
                hint=f"declare it in the class: percentiles: ClassVar = ({percentile!r},)",
            )

    # Internals -----------------------------------------------------------------------------------------------------

    def _run_timers(self, number: int, context: EventContext) -> None:
        """Run the due timers of a place, then those of its descendants."""
        trigger = self._places[number].trigger
        for time, tag in context.due.get(number, ()):
            trigger.on_timer(context, tag)
            if context.fired is not None:
                context.fired_at.setdefault(number, time)
            if context.finished:
                return
        children = self._places[number].children
        due_children = [
            index
            for index, child in enumerate(children)
            if any(child <= place <= self._places[child].last for place in context.due)
        ]
        if not due_children:
            return
        assert isinstance(trigger, CompositeTrigger)  # noqa: S101 - only composites have descendants
        trigger.on_child_timers(context, due_children)
        deadlines = [context.fired_at[child] for child in children if child in context.fired_at]
        if context.fired is not None and deadlines:
            context.fired_at.setdefault(number, min(deadlines))

    def _bits_below(self, number: int) -> int:
        return ((1 << (self._places[number].last - number + 1)) - 1) << number


def _outcome(result: ChildResult, *, cleared: bool) -> Outcome:
    if not cleared and result.mode is FiringMode.DEFAULT and result.at is None:
        return _FIRED if result.fired else _NOTHING
    return Outcome(result.fired, result.at, result.mode, cleared)
