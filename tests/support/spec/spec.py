"""Where, when and how: what a grouping makes of a script, in plain lists, one window at a time.

To be read beside the paper. A window keeps its rows, and every pane is made of them anew. Of the package only values
are used: windows and window functions, strategies, panes, combiners. What triggers do is in `spec_triggers`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, SignalStep, WatermarkStep, events_of
from dataflow_model.values.keys import encode_key
from tests.support.spec.spec_triggers import BEFORE_ALL, INFINITY, Event, Node, Watermark, begin, merge, see

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

    Emit = Callable[[list[dm.Pane]], object]

MODE = dm.AccumulationMode
OBEDIENT = {MODE.CLEAR_BY_DEFAULT, MODE.ACCUMULATE_BY_DEFAULT}  # to what a user's trigger asks for
CLEARS: dict[Any, bool] = {dm.FiringMode.CLEAR: True, dm.FiringMode.ACCUMULATE: False}


@attrs.frozen
class Row:
    """A value that came to a window; or one that was taken back, which may have been cleared away by then."""

    value: Any
    event_time: int
    on_time: bool  # for its window, when it came
    late: bool  # behind the watermark, when it came
    taken_back: bool = False


@attrs.define(eq=False)
class Live:
    """One window of one key that has not expired."""

    key: Any
    window: Any
    tree: Node
    rows: list[Row] = attrs.field(factory=list)  # what a pane would hold
    news: list[Row] = attrs.field(factory=list)  # what came since the last pane
    standing: list[dm.Pane] = attrs.field(factory=list)  # emitted and not taken back; the merged windows' included
    history: list[dm.PaneInfo] = attrs.field(factory=list)
    had_on_time: bool = False  # it, or a window that it was merged from

    @property
    def place(self) -> tuple[int, int, bytes]:
        return int(self.window.end), int(self.window.start), encode_key(self.key)

    @property
    def contents(self) -> tuple[list[Any], list[Any]]:
        """What is there, and what was taken back without being there."""
        sides: tuple[list[Any], list[Any]] = ([], [])
        for row in self.rows:
            mine, other = sides[row.taken_back], sides[not row.taken_back]
            if row.value in other:
                other.remove(row.value)
            else:
                mine.append(row.value)
        return sides


@attrs.define(eq=False)
class Grouping:
    """One grouping: what it is to do, and what it knows."""

    strategy: WindowingStrategy
    combine: dm.CombineFn[Any, Any, Any] | None  # without one a value is the list of elements
    emit: Emit  # is given the rows of each firing: retractions, then the new value if any
    watermark: Watermark = attrs.field(factory=Watermark)
    clock: int = 0
    live: list[Live] = attrs.field(factory=list)
    reopened: dict[Any, Live] = attrs.field(factory=dict)
    dropped: Counter[str] = attrs.field(factory=Counter)

    def incorporate(self, key: Any, window: Any, at: int, new: list[Any], old: Sequence[tuple[Any, int]] = ()) -> None:
        """Take an element, which may come in the place of `old` (value, event time)s; or just take those back."""
        reopens = self.strategy.late_data is dm.LateData.DUPLICATE_WINDOW and not old
        live = None if self.expired(window) else self.find(key, window)
        if live is None and reopens:
            live = self.reopened.setdefault((key, window), Live(key, window, begin(self.strategy.trigger, window)))
        elif live is None or live.tree.finished:
            self.dropped["dropped_because_closed" if live else "dropped_because_late"] += len(new)
            self.dropped["dropped_retractions"] += len(old)
            return
        now = self.watermark.at()
        on_time = now < int(live.window.end)
        came = [Row(value, time, on_time, time < now, taken_back=True) for value, time in old]
        came += [Row(value, at, on_time, at < now) for value in new]
        live.rows += came
        live.news += came
        if not self.expired(window):
            self.show("element" if new else "retraction", [live], element=next(iter(new), None), event_time=at)
            self.show("right after", [live])  # the event-time timers that it has set at or behind the watermark

    def advance_watermark(self, to: Watermark) -> None:
        """Let the watermark and its percentiles reach `to`, where they are behind it."""
        before, self.watermark = self.watermark, self.watermark.advanced(to)
        if self.watermark != before:
            if self.watermark.at() > before.at():
                for again in sorted(self.reopened.values(), key=lambda live: live.place):
                    self.send(again, None, self.clock)
                self.reopened = {}
            self.show("watermark", self.live, before=before)
            self.live = [live for live in self.live if not self.expired(live.window)]

    def show(self, kind: str, to: list[Live], **fields: Any) -> None:
        """Show an event to windows. Those that fire, and those that expire, go by deadline, end, start, key."""
        going: list[tuple[Any, ...]] = []
        events = [self.event(kind, live, **fields) for live in to]
        for live, event in zip(to, events, strict=True):
            fired = None if live.tree.finished else see(live.tree, event)
            if fired is not None or (kind == "watermark" and self.expired(live.window)):
                deadline = self.expiry(live.window) if fired is None else fired[0]
                going.append((deadline, *live.place, live, event, fired))
        for deadline, *_, live, event, fired in sorted(going, key=lambda entry: entry[:4]):
            at = deadline if kind == "clock" and deadline != BEFORE_ALL else self.clock
            self.go(live, event, at, None if fired is None else fired[1])
        for live, event in zip(to, events, strict=True):
            if event.clears and self.strategy.accumulation_mode in OBEDIENT:
                live.rows, live.news = [], []

    def event(self, kind: str, live: Live, **fields: Any) -> Event:
        before, due = fields.pop("before", self.watermark), fields.pop("due", self.clock)
        fields |= {"peek": lambda: self.value(live), "history": live.history}
        return Event(kind, self.watermark, before, self.clock, due, **fields)

    def expiry(self, window: Any) -> int:
        return min(int(window.end) + int(self.strategy.allowed_lateness), INFINITY)

    def expired(self, window: Any) -> bool:
        return self.watermark.at() >= self.expiry(window)

    def find(self, key: Any, own: Any) -> Live:
        """Return the window that an element's own window belongs to, after merging."""
        mine = sorted((live for live in self.live if live.key == key), key=lambda live: live.place)
        target = {window: window for window in [*(live.window for live in mine), own]}
        if self.strategy.merges:
            by_start = sorted(target, key=lambda window: (window.start, window.end))
            for group, merged in self.strategy.window_fn.merge(by_start):
                target |= dict.fromkeys(group, merged)
        for window in set(target.values()):
            sources = [live for live in mine if target[live.window] == window]
            if [source.window for source in sources] != [window]:  # its bounds change: it is a new window
                self.live = [live for live in self.live if live not in sources]
                self.live.append(self.merged(key, window, sources))
        return next(live for live in self.live if live.key == key and live.window == target[own])

    def merged(self, key: Any, window: Any, sources: list[Live]) -> Live:
        """Make a new window of its sources, among which the window of the arriving element is not."""
        new = Live(key, window, begin(self.strategy.trigger, window))
        if sources:
            merge(new.tree, [source.tree for source in sources], self.event("merge", new))
        new.rows = [row for source in sources for row in source.rows]
        new.news = [row for source in sources for row in source.news]
        ends = [int(source.window.end) for source in sources]
        if int(window.end) <= self.watermark.at() and int(window.end) < max(ends, default=int(window.end)):
            new.news = [attrs.evolve(row, on_time=False) for row in new.news]  # the end has moved to or behind it
        new.standing = [pane for source in sources for pane in source.standing]
        new.standing.sort(key=lambda pane: (pane.window.end, pane.window.start))
        new.had_on_time = any(source.had_on_time for source in sources)
        return new

    def go(self, live: Live, event: Event, at: int, firing_mode: dm.FiringMode | None) -> None:
        """Emit as the tree fired, with a firing mode, or the window expires; with nothing new only where wanted."""
        fired, passes, mode = firing_mode is not None, event.passes(live.window), self.strategy.accumulation_mode
        closes = self.expired(live.window) or (fired and live.tree.finished)
        closes &= not any(info.is_last for info in live.history)
        forced = closes and self.strategy.closing is dm.ClosingBehavior.FIRE_ALWAYS
        forced |= fired and passes and self.strategy.on_time is dm.OnTimeBehavior.FIRE_ALWAYS
        if live.news or forced or (self.owes(live) and (fired or not live.tree.finished)):
            self.send(live, repr(self.strategy.trigger) if fired else None, at, passes=passes)
        clears = mode in {MODE.CLEAR_ALWAYS, MODE.CLEAR_BY_DEFAULT}
        clears = CLEARS.get(firing_mode, clears) if mode in OBEDIENT else clears
        live.rows = [] if fired and clears else live.rows

    def send(self, live: Live, trigger: str | None, at: int, *, passes: bool = False) -> None:
        now = dm.ProcessingTime(at)
        out: list[dm.Pane] = []
        if self.strategy.retracting:
            out = [attrs.evolve(pane, is_retraction=True, processing_time=now) for pane in live.standing]
            live.standing = []
        if any(live.contents) or not self.strategy.retracting:  # else nothing is left: no more is said of the window
            info = self.info(live, trigger, passes=passes)
            value, event_time = self.value(live), self.event_time(live)
            pane = dm.Pane(live.key, live.window, value, event_time, info, processing_time=now)
            live.standing = [pane]
            live.history.append(info)
            out.append(pane)
        live.news = []
        if out:
            self.emit(out)

    def info(self, live: Live, trigger: str | None, *, passes: bool) -> dm.PaneInfo:
        """Return the next pane's place among the panes of its window."""
        timing = dm.PaneTiming.EARLY
        past = [info for info in live.history if info.timing is not timing]
        if self.watermark.at() >= int(live.window.end):
            on_time = (passes or any(row.on_time for row in live.news)) and not past and not live.had_on_time
            timing = dm.PaneTiming.ON_TIME if on_time else dm.PaneTiming.LATE
        live.had_on_time |= timing is dm.PaneTiming.ON_TIME
        index, on_time_index = len(live.history), len(past) - (timing is dm.PaneTiming.EARLY)
        last = live.tree.finished or self.expired(live.window)
        return dm.PaneInfo(index, on_time_index, index == 0, last, timing, trigger)

    def value(self, live: Live) -> Any:
        there, owed = live.contents
        if self.combine is None:
            return there
        total = functools.reduce(self.combine.add_input, there, self.combine.create_accumulator())
        return self.combine.extract_output(functools.reduce(self.combine.subtract_input, owed, total))

    def event_time(self, live: Live) -> dm.EventTime:
        end = int(live.window.max_timestamp)
        times = [row.event_time for row in live.news if not row.late and not row.taken_back] or [end]
        combiner = self.strategy.timestamp_combiner
        chosen = end if combiner is dm.TimestampCombiner.END_OF_WINDOW else min(times)
        return dm.EventTime(min(max(times) if combiner is dm.TimestampCombiner.LATEST else chosen, end))

    def owes(self, live: Live) -> bool:
        """Return whether values of windows with other bounds stand, which the next pane takes back."""
        return self.strategy.retracting and any(pane.window != live.window for pane in live.standing)

    def has_more_to_take_back(self, live: Live) -> bool:
        can_come = self.strategy.closing is dm.ClosingBehavior.FIRE_ALWAYS or not live.tree.finished
        return can_come and self.owes(live)

    def output_watermark(self) -> Watermark:
        """Return the input's, its percentiles too, held by the rows that are still to come."""
        pending = [live for live in self.live if live.news or self.has_more_to_take_back(live)]
        taken_back = [int(pane.timestamp) for live in pending for pane in live.standing if self.strategy.retracting]
        return self.watermark.held(min([INFINITY, *taken_back, *(int(self.event_time(live)) for live in pending)]))


def run(script: TestStream, groupings: Sequence[Grouping]) -> None:
    """Run a script of pairs through groupings in sequence; `link` says what passes from one to the next."""
    first = groupings[0]
    for _, step in events_of(script.steps):
        match step:
            case AddStep():
                for (key, value), at in step.elements:
                    for window in first.strategy.window_fn.assign(at, (key, value)):
                        first.incorporate(key, window, int(at), [value])
            case WatermarkStep():
                first.advance_watermark(Watermark(((step.percentile, int(step.watermark)),)))
            case ClockStep():
                for grouping in reversed(groupings):  # what comes at this time comes after the timers before it
                    grouping.clock = int(step.processing_time)
                    grouping.show("clock", grouping.live, due=grouping.clock)
            case SignalStep():
                for grouping in reversed(groupings):  # it takes effect before what it makes the others emit
                    grouping.show("signal", grouping.live, name=step.name)
        settle(groupings)
    for grouping, after in itertools.zip_longest(
        groupings, groupings[1:]
    ):  # the end of the input completes the last tick
        grouping.show("clock", grouping.live, due=grouping.clock + 1)
        if after is not None:  # all that the tick brings it is there, so its watermark comes, and then its own timers
            after.advance_watermark(grouping.output_watermark())
    first.advance_watermark(Watermark(((100, INFINITY),)))
    settle(groupings)


def settle(groupings: Sequence[Grouping]) -> None:
    """After the elements that a grouping gives to the next comes its watermark."""
    for before, after in itertools.pairwise(groupings):
        after.advance_watermark(before.output_watermark())


def link(to: Grouping, rekey: Callable[[Any, Any], tuple[Any, Any]], *, assigns: bool) -> Emit:
    """Return what hands the rows of a firing on: `rekey` makes the pair of the next grouping.

    A retraction and a new value of the same key and window are one event.
    """

    def emit(rows: list[dm.Pane]) -> None:
        placed = []
        for row in rows:
            key, value = rekey(row.key, row.value)
            windows = to.strategy.window_fn.assign(row.timestamp, (key, value)) if assigns else [row.window]
            placed += [((key, window), value, int(row.timestamp), row.is_retraction) for window in windows]
        new = {where for where, *_, is_retraction in placed if not is_retraction}
        for (key, window), value, at, is_retraction in placed:
            if is_retraction and (key, window) not in new:
                to.incorporate(key, window, at, [], [(value, at)])
        for (key, window), value, at, is_retraction in placed:
            if not is_retraction:
                old = [(taken, time) for there, taken, time, back in placed if back and there == (key, window)]
                to.incorporate(key, window, at, [value], old)

    return emit
