"""The life of one window under a trigger, event by event and without an engine, which `check_trigger` compares."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import cloudpickle

from dataflow_model.micros import format_duration
from dataflow_model.triggers import Outcome, TimeDomain, TreeState, TriggerMachine
from dataflow_model.values import IntervalWindow, PaneInfo, PaneTiming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.triggers import Trigger

Event: TypeAlias = tuple[str, Any]
"""`("element", value)`, `("watermark", by)`, `("clock", by)` or `("signal", name)`; both clocks in microseconds."""


@attrs.define
class Life:
    """A window and the state of its trigger.

    Attributes:
        trigger: the trigger tree.
        window: the window.
        combine: the combiner of `peek_value`.
        pickles: whether the state is pickled and unpickled before each event.
        expires: the watermark at which the window expires; it does not advance further.
    """

    trigger: Trigger
    window: IntervalWindow
    combine: CombineFn[Any, Any, Any]
    expires: int
    pickles: bool = False
    watermark: int = 0
    clock: int = 0
    state: TreeState = attrs.field(factory=TreeState)
    elements: list[Any] = attrs.field(factory=list)
    history: list[PaneInfo] = attrs.field(factory=list)
    machine: TriggerMachine = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Compile the tree."""
        self.machine = TriggerMachine(self.trigger)

    def live(self, events: Sequence[Event]) -> list[tuple[Outcome, ...]]:
        """Process events and return the tree's outcomes at each; the last entry is for the end of the last instant."""
        return [*(self._event(event) for event in events), self._due(TimeDomain.PROCESSING_TIME, self.clock)]

    def merged(self, window: IntervalWindow, sources: Sequence[Life]) -> Life:
        """Return the life of the window into which others have merged; this one is not changed."""
        self._set_clocks()
        state = self.machine.merge(window, [(source.window, source.state) for source in sources])
        elements = sorted((value for source in sources for value in source.elements), key=repr)
        return attrs.evolve(self, window=window, state=state, elements=elements, history=[])

    def copied(self) -> Life:
        """Return a copy with its own state."""
        state: TreeState = pickle.loads(cloudpickle.dumps(self.state))
        return attrs.evolve(self, state=state, elements=list(self.elements), history=list(self.history))

    # What the tree can read ----------------------------------------------------------------------------------------

    def peek_value(self) -> Any:
        """Combine the elements so far."""
        accumulator = self.combine.create_accumulator()
        for value in self.elements:
            accumulator = self.combine.add_input(accumulator, value)
        return self.combine.extract_output(accumulator)

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the panes so far."""
        return self.history

    # Events --------------------------------------------------------------------------------------------------------

    def _event(self, event: Event) -> tuple[Outcome, ...]:
        if self.pickles:
            self.state = pickle.loads(cloudpickle.dumps(self.state))
        match event:
            case "element", value:
                return self._element(value)
            case "watermark", by:
                self.watermark = min(self.watermark + by, self.expires - 1)
                return self._due(TimeDomain.EVENT_TIME, self.watermark)
            case "clock", by if by:
                self.clock += by
                return self._due(TimeDomain.PROCESSING_TIME, self.clock - 1)
            case "signal", name:
                self._set_clocks()
                return self._seen(self.machine.signal(self.state, self.window, name, self))
        return ()

    def _element(self, value: Any) -> tuple[Outcome, ...]:
        if self.state.is_finished():
            return ()  # the engine drops it
        self.elements.append(value)
        self._set_clocks()
        time = int(self.window.start)
        outcome = self.machine.element(self.state, self.window, value, self, event_time=time)
        seen = self._seen(outcome)
        overdue = self.machine.is_overdue(self.state)
        return (*seen, *self._due(TimeDomain.EVENT_TIME, self.watermark)) if overdue else seen

    def _due(self, domain: TimeDomain, until: int) -> tuple[Outcome, ...]:
        self._set_clocks()
        due = self.state.next_due(domain)
        if due is None and not self.machine.percentiles:
            return ()  # the engine calls it only if a timer is due
        return self._seen(self.machine.due(self.state, self.window, domain, until, self))

    def _set_clocks(self) -> None:
        percentiles = dict.fromkeys(self.machine.percentiles, self.watermark)
        self.machine.clocks(watermark=self.watermark, processing_time=self.clock, percentiles=percentiles)

    def _seen(self, outcome: Outcome) -> tuple[Outcome, ...]:
        """Record a pane in the history if one was fired; return no outcome for an event that did nothing."""
        if outcome.fired:
            timing = PaneTiming.EARLY if self.watermark < int(self.window.end) else PaneTiming.LATE
            index = len(self.history)
            self.history.append(PaneInfo(index, -1, index == 0, False, timing, self.machine.name))
        if outcome.cleared:
            self.elements.clear()
        return (outcome,) if outcome.fired or outcome.cleared else ()


def events_text(events: Sequence[Event]) -> str:
    """Describe events in words.

    Example:
        >>> events_text([("element", 3), ("clock", 2_000_000)])
        'element 3, clock +2s'
    """
    words = []
    for kind, value in events:
        words.append(f"{kind} {value!r}" if kind in {"element", "signal"} else f"{kind} +{format_duration(value)}")
    return ", ".join(words) or "no event"
