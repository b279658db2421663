"""A second opinion: what a grouping does to a script, in plain lists and without any code of the engine.

Written from the semantics, not from the engine: every window is looked at after every event, one window at a time.
Only values (`PaneInfo`, windows), the window functions' `assign` and the fields of triggers are shared with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.sources import AddStep, ClockStep, WatermarkStep
from tests.laws.reference_triggers import AT_ONCE, Now, node

if TYPE_CHECKING:
    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

INFINITY = int(dm.MAX_TIMESTAMP)


@attrs.define
class Element:
    value: Any
    event_time: int
    on_time: bool  # for its window, when it came
    new: bool = True  # in no pane yet


@attrs.define(eq=False)
class State:
    """One window of one key."""

    key: Any
    window: Any
    tree: Any
    elements: list[Element] = attrs.field(factory=list)
    index: int = 0
    on_time_index: int = -1
    had_on_time: bool = False  # it, or a window that it was merged from
    closed: bool = False

    @property
    def place(self) -> tuple[int, int, Any]:
        return int(self.window.end), int(self.window.start), self.key


class Reference:
    """One grouping: run a script through it with `run`, then read `panes` and the counts of dropped elements."""

    def __init__(self, strategy: WindowingStrategy) -> None:
        self.strategy = strategy
        self.watermark = int(dm.MIN_TIMESTAMP)
        self.clock = 0
        self.states: list[State] = []
        self.reopened: dict[tuple[Any, Any], list[Element]] = {}
        self.panes: list[dm.Pane] = []
        self.late = self.lost = 0

    def run(self, script: TestStream) -> list[dm.Pane]:
        for step in script.steps:
            match step:
                case AddStep():
                    for (key, value), at in step.elements:
                        for window in self.strategy.window_fn.assign(at, (key, value)):
                            self.element(key, value, int(at), window)
                case WatermarkStep():
                    self.advance_watermark(int(step.watermark))
                case ClockStep():
                    self.advance_clock(int(step.processing_time))
        # After the last event the timers at the clock's own value run; then the input has ended.
        self.advance_clock(self.clock + 1)
        self.clock -= 1
        self.advance_watermark(INFINITY)
        return self.panes

    def expires(self, window: Any) -> int:
        return min(int(window.end) + int(self.strategy.allowed_lateness), INFINITY)

    def element(self, key: Any, value: Any, at: int, window: Any) -> None:
        if self.watermark >= self.expires(window):
            self.late += 1
            if self.strategy.late_data is dm.LateData.DUPLICATE_WINDOW:
                self.late -= 1
                self.reopened.setdefault((key, window), []).append(Element(value, at, on_time=False))
            return
        state = self.find(key, window)
        if state.closed:
            self.lost += 1
            return
        state.elements.append(Element(value, at, on_time=self.watermark < state.window.end))
        state.tree.tell(self.now("element", state))
        due = state.tree.due()
        if due is not None:
            self.fire(state, due, self.now("element", state))

    def find(self, key: Any, window: Any) -> State:
        """Return the state of the window, after merging."""
        mine = [state for state in self.states if state.key == key]
        sources = [state for state in mine if state.window == window]
        if self.strategy.window_fn.is_merging:
            sources = [state for state in mine if state.window.start < window.end and window.start < state.window.end]
            start = min([window.start, *(state.window.start for state in sources)])
            end = max([window.end, *(state.window.end for state in sources)])
            window = dm.IntervalWindow(start, end)
        if len(sources) == 1 and sources[0].window == window:
            return sources[0]
        state = State(key, window, node(self.strategy.trigger))
        if sources:
            state.tree.merge([source.tree for source in sources], self.now("element", state))
            state.closed = state.tree.finished
        for source in sources:
            state.elements += source.elements
            state.had_on_time |= source.had_on_time
            self.states.remove(source)
        self.states.append(state)
        return state

    def advance_watermark(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        again = [State(key, window, None, elements) for (key, window), elements in self.reopened.items()]
        self.reopened = {}
        fired, expired = [], []
        for state in self.states:
            now = self.now("watermark", state, passes=before < state.window.end <= watermark)
            if not state.closed:
                state.tree.tell(now)
            if not state.closed and state.tree.due() is not None:
                fired.append((int(state.window.end), *state.place, state, now))
            elif watermark >= self.expires(state.window):
                expired.append((self.expires(state.window), *state.place, state, now))
        expired += [(AT_ONCE - 1, *state.place, state, self.now("watermark", state)) for state in again]
        for *_, state, now in sorted([*fired, *expired], key=lambda entry: entry[:4]):
            last = watermark >= self.expires(state.window)
            if state.tree is not None and not state.closed and state.tree.due() is not None:
                self.fire(state, AT_ONCE, now, expires=last)
            elif state in again or (not state.closed and (self.news(state) or self.closes_always())):
                self.emit(state, None, now, last=True)
            if last and state not in again:
                self.states.remove(state)

    def advance_clock(self, clock: int) -> None:
        self.clock = clock
        ready = []
        for state in self.states:
            if not state.closed:
                state.tree.tell(self.now("clock", state))
                due = state.tree.due()
                if due is not None:
                    ready.append((due, *state.place, state))
        for due, *_, state in sorted(ready, key=lambda entry: entry[:4]):
            self.fire(state, due, self.now("clock", state))

    def now(self, kind: str, state: State, *, passes: bool = False) -> Now:
        return Now(kind, self.watermark, self.clock, int(state.window.end), passes)

    def news(self, state: State) -> bool:
        return any(element.new for element in state.elements)

    def closes_always(self) -> bool:
        return self.strategy.closing is dm.ClosingBehavior.FIRE_ALWAYS

    def fire(self, state: State, due: int, now: Now, *, expires: bool = False) -> None:
        state.tree.fire()
        state.closed = state.tree.finished
        forced = now.passes and self.strategy.on_time is dm.OnTimeBehavior.FIRE_ALWAYS
        if self.news(state) or forced or (expires and self.closes_always()):
            self.emit(state, repr(self.strategy.trigger), now, last=expires or state.closed, due=due)

    def emit(self, state: State, trigger: str | None, now: Now, *, last: bool, due: int = AT_ONCE) -> None:
        shown = [element for element in state.elements if element.new or self.strategy.accumulates]
        timing = self.timing(state, now)
        state.had_on_time |= timing is dm.PaneTiming.ON_TIME
        state.on_time_index += timing is not dm.PaneTiming.EARLY
        info = dm.PaneInfo(state.index, state.on_time_index, state.index == 0, last, timing, trigger)
        self.panes.append(
            dm.Pane(
                state.key,
                state.window,
                sum(element.value for element in shown),
                self.timestamp(state, shown),
                info,
                processing_time=dm.ProcessingTime(due if now.kind == "clock" else self.clock),
            )
        )
        state.index += 1
        for element in state.elements:
            element.new = False

    def timing(self, state: State, now: Now) -> dm.PaneTiming:
        if now.watermark < now.end:
            return dm.PaneTiming.EARLY
        punctual = now.passes or any(element.new and element.on_time for element in state.elements)
        first = state.on_time_index < 0 and not state.had_on_time
        return dm.PaneTiming.ON_TIME if first and punctual else dm.PaneTiming.LATE

    def timestamp(self, state: State, shown: list[Element]) -> dm.EventTime:
        times = [element.event_time for element in shown if element.on_time]
        end = int(state.window.max_timestamp)
        match self.strategy.timestamp_combiner:
            case dm.TimestampCombiner.EARLIEST:
                return dm.EventTime(min(times, default=end))
            case dm.TimestampCombiner.LATEST:
                return dm.EventTime(max(times, default=end))
            case _:
                return dm.EventTime(end)
