"""The context of one event: the evaluator's implementation of `TriggerContext`."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.triggers.contexts import LOW_WATERMARK, FiringMode, TimeDomain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.time import Instant
    from dataflow_model.triggers.contexts import ChildResult, PaneView
    from dataflow_model.triggers.evaluator import TriggerMachine
    from dataflow_model.triggers.state import TreeState
    from dataflow_model.values import PaneInfo, Window


class Event(enum.Enum):
    """The kinds of events, by the callback that handles them."""

    ELEMENT = "on_element"
    RETRACTION = "on_retraction"
    TIMER = "on_timer"
    SIGNAL = "on_signal"
    MERGE = "on_merge"
    RESET = "reset"

    __hash__ = object.__hash__  # the hash of Enum runs in Python, and members are hashed at every event


_SILENT = frozenset({Event.MERGE, Event.RESET})
"""Callbacks that only build state and cannot emit a pane."""
_INSTANTS: Final = {TimeDomain.EVENT_TIME: EventTime, TimeDomain.PROCESSING_TIME: ProcessingTime}
_NO_TIMERS: Final[Mapping[int, Sequence[tuple[int, str]]]] = MappingProxyType({})
_NO_SOURCES: Final[Mapping[Window, TreeState]] = MappingProxyType({})


class EventContext:
    """The context of one event; `number` is the place whose callback is running.

    Attributes:
        due: the timers that are due in the event: (time, tag) pairs by place.
        fired_at: the deadline that made each place fire in this event, by place.
    """

    __slots__ = (
        "_event_time",
        "_view",
        "cleared",
        "due",
        "element",
        "event",
        "finished",
        "fired",
        "fired_at",
        "machine",
        "number",
        "signal",
        "source_states",
        "state",
        "window",
    )

    def __init__(
        self,
        machine: TriggerMachine,
        state: TreeState,
        window: Window,
        event: Event,
        view: PaneView | None = None,
        element: Any = None,
        event_time: int | None = None,
    ) -> None:
        self.machine = machine
        self.state = state
        self.window = window
        self.event = event
        self.element = element
        self.due: Mapping[int, Sequence[tuple[int, str]]] = _NO_TIMERS
        self.fired_at: dict[int, int] = {}
        self.signal = ""
        self.source_states = _NO_SOURCES
        self.number = 0
        self.fired: FiringMode | None = None
        self.finished = False
        self.cleared = False
        self._event_time = event_time
        self._view = view

    def enter(self, number: int) -> tuple[int, FiringMode | None, bool]:
        """Enter a place; return the previous place's values for `leave`."""
        outer = (self.number, self.fired, self.finished)
        self.number, self.fired, self.finished = number, None, False
        return outer

    def leave(self, outer: tuple[int, FiringMode | None, bool]) -> None:
        """Return to the previous place."""
        self.number, self.fired, self.finished = outer

    # What callbacks read -------------------------------------------------------------------------------------------

    @property
    def event_time(self) -> EventTime:
        """The event time of the current element."""
        if self._event_time is None:
            raise self._misuse("event_time", "there is no element with an event time here", "use it in on_element")
        return EventTime(self._event_time)

    @property
    def is_retraction(self) -> bool:
        """Whether the event retracts an element."""
        return self.event is Event.RETRACTION

    @property
    def sources(self) -> Sequence[Window]:
        """The windows that have merged."""
        return tuple(self.source_states)

    def now(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> Instant:
        """Return the current time of a domain's clock."""
        _check_domain(domain)
        return self.machine.now(domain, percentile)

    def peek_value(self) -> Any:
        """Return the value of a pane if it were emitted now."""
        if self._view is None:
            raise self._misuse("peek_value()", "there is no value here", "call it in on_element or on_timer")
        return self._view.peek_value()

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the `PaneInfo` of the panes so far."""
        if not self.machine.trigger_at(self.number).reads_history:
            raise self._misuse(
                "trigger_history()", "its panes are not kept", "set reads_history: ClassVar[bool] = True in its class"
            )
        if self._view is None:
            raise self._misuse("trigger_history()", "there are no panes here", "call it in on_element or on_timer")
        return self._view.trigger_history()

    # State and timers ----------------------------------------------------------------------------------------------

    def lookup_state(self, tag: str, default: Any = None) -> Any:
        """Return a stored value."""
        return self.state.store.get((self.number, tag), default)

    def store_state(self, tag: str, value: Any) -> None:
        """Store a value."""
        self.state.store[self.number, tag] = value

    def lookup_source_state(self, window: Window, tag: str, default: Any = None) -> Any:
        """Return a value stored for a merged window."""
        return self.source_states[window].store.get((self.number, tag), default)

    def is_source_finished(self, window: Window) -> bool:
        """Return whether the trigger had finished in a merged window."""
        return bool(self.source_states[window].finished >> self.number & 1)

    def set_timer(self, tag: str, time: Instant, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> None:
        """Set a timer."""
        _check_domain(domain)
        if not isinstance(time, _INSTANTS[domain]):
            raise self._wrong_time(time, domain)
        if percentile != LOW_WATERMARK:
            self.machine.check_percentile(percentile)
        self.state.timers[self.number, tag] = (domain, percentile, time)

    def get_timer(self, tag: str) -> Instant | None:
        """Return when a timer is due."""
        timer = self.state.timers.get((self.number, tag))
        return None if timer is None else timer[2]

    def delete_timer(self, tag: str) -> None:
        """Delete a timer."""
        self.state.timers.pop((self.number, tag), None)

    # What callbacks do ---------------------------------------------------------------------------------------------

    def trigger(self, mode: FiringMode = FiringMode.DEFAULT, at: int | None = None) -> None:
        """Fire."""
        if not isinstance(mode, FiringMode):
            raise InvalidType(f"trigger() takes a FiringMode, got {mode!r}", hint="use dm.FiringMode.CLEAR, say")
        if self.event in _SILENT:
            raise self._misuse(f"trigger() in {self.event.value}", "no pane is emitted there", "set a timer instead")
        if self.fired is None or mode is not FiringMode.DEFAULT:
            self.fired = mode
        if at is not None:
            self.fired_at[self.number] = at

    def clear(self) -> None:
        """Clear what the window has accumulated."""
        if self.event in _SILENT:
            raise self._misuse(f"clear() in {self.event.value}", "it would have no effect", "set a timer instead")
        self.cleared = True

    def done(self) -> None:
        """Finish."""
        self.finished = True

    def is_finished(self, child: int | None = None) -> bool:
        """Return whether this place or a child has finished."""
        number = self.number if child is None else self._place_of(child)
        return bool(self.state.finished >> number & 1)

    def invoke_child(self, child: int) -> ChildResult:
        """Pass the event to a child."""
        if self.event in _SILENT:
            raise self._misuse(
                f"invoke_child() in {self.event.value}", "there is no event to pass on", "leave the call out"
            )
        return self.machine.invoke(self._place_of(child), self)

    def reset_child(self, child: int) -> None:
        """Begin a new turn of a child."""
        self.machine.reset(self._place_of(child), self)

    def finish_child(self, child: int) -> None:
        """Mark a child as finished."""
        self.machine.finish(self._place_of(child), self)

    def reopen(self) -> None:
        """Mark this place as unfinished."""
        self.state.finished &= ~(1 << self.number)

    def _place_of(self, child: int) -> int:
        """Return the number of a child's place in the tree."""
        places = self.machine.children_of(self.number)
        if child not in range(len(places)):
            trigger = self.machine.trigger_at(self.number)
            raise InvalidArgument(
                f"{trigger!r} asked for child {child!r}, but it has {len(places)} children",
                hint="a child is identified by its index in `children`, from 0",
            )
        return places[child]

    def _wrong_time(self, time: object, domain: TimeDomain) -> InvalidType:
        trigger = self.machine.trigger_at(self.number)
        return InvalidType(
            f"{trigger!r} set a timer in {domain.value}, whose time must be of type {_INSTANTS[domain].__name__}, "
            f"got {time!r} of type {type(time).__name__}",
            hint=f"compute it from an instant of that clock: context.now(dm.{domain}) + dm.duration('1 minute')",
        )

    def _misuse(self, request: str, problem: str, way_out: str) -> InvalidArgument:
        trigger = self.machine.trigger_at(self.number)
        return InvalidArgument(f"{trigger!r} asked for {request}: {problem}", hint=way_out)


def _check_domain(domain: TimeDomain) -> None:
    if not isinstance(domain, TimeDomain):
        raise InvalidType(
            f"the domain of a timer or a clock must be a TimeDomain, got {domain!r}",
            hint="use dm.TimeDomain.EVENT_TIME or dm.TimeDomain.PROCESSING_TIME",
        )
