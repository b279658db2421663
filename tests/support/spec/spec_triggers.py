"""When: what each trigger does with the events of one window, one case a trigger; of the package only their fields."""

from __future__ import annotations

import datetime
import pickle
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import attrs
import pendulum

import dataflow_model as dm
from dataflow_model.triggers import OrFinally
from dataflow_model.values.keys import encode_key
from tests.support.spec.spec_users import DEFAULT, context, is_users, last_mode, see_users

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEFORE_ALL, INFINITY = int(dm.MIN_TIMESTAMP), int(dm.MAX_TIMESTAMP)
Fired = tuple[int, dm.FiringMode]  # the deadline, `BEFORE_ALL` if no timer fired it; what to do with the contents
DAY = 86_400_000_000


@attrs.frozen
class Watermark:
    """The low watermark (percentile 100) and the other percentiles, as the values seen so far make them."""

    values: tuple[tuple[float, int], ...] = ()

    def at(self, percentile: float = 100) -> int:
        """No percentile is behind a higher one, and none goes back."""
        return max((time for of, time in self.values if of >= percentile), default=BEFORE_ALL)

    def advanced(self, to: Watermark) -> Watermark:
        """Return what is known once `to` is known too."""
        return Watermark((*self.values, *(value for value in to.values if value[1] > self.at(value[0]))))

    def held(self, at: int) -> Watermark:
        """Return them as far as something that is still to come lets them through."""
        return Watermark(tuple((of, min(time, at)) for of, time in self.values))


@attrs.frozen
class Event:
    """One event as the tree of one window sees it."""

    kind: str  # "element", "retraction" (none comes instead), "right after" it, "watermark", "clock", "signal", "merge"
    watermark: Watermark
    before: Watermark  # as it was before this event
    clock: int
    due: int  # timers of the clock before this are due
    element: Any = None
    event_time: int = 0
    name: str = ""  # of a signal
    peek: Callable[[], Any] = list  # the value that a pane would have now
    history: Sequence[dm.PaneInfo] = ()  # of the window's panes
    clears: list[Any] = attrs.field(factory=list)  # triggers of users' that have called `clear()`

    @property
    def comes_in(self) -> bool:
        """Whether it arms what waits for a clock or the watermark."""
        return self.kind in {"element", "retraction"}

    def reaches(self, time: int, percentile: float, in_event_time: bool) -> bool:
        """Whether a timer is due with this event."""
        if in_event_time:
            return self.kind in {"watermark", "right after"} and time <= self.watermark.at(percentile)
        return self.kind == "clock" and time < self.due

    def passes(self, window: Any, percentile: float = 100) -> bool:
        """Whether the watermark passes the end of the window with this very event."""
        return self.before.at(percentile) < int(window.end) <= self.watermark.at(percentile)


@attrs.define(eq=False)
class Node:
    """One trigger of a tree, in one window, in one turn."""

    spec: Any
    window: Any
    kids: list[Node]
    finished: bool = False
    deadline: int | None = None  # set by the first element of the turn
    count: int = 0  # elements or bytes of the turn; of `RepeatCount` the turns that its child has finished
    state: Any = None  # of a `DataTrigger`
    stored: dict[str, Any] = attrs.field(factory=dict)  # of a user's trigger: by tag
    timers: dict[str, Any] = attrs.field(factory=dict)  # the same: time, domain and percentile
    met: dict[int, Any] = attrs.field(factory=dict)  # of `AfterAll`: whose condition stays met; what each asked for


def begin(spec: Any, window: Any) -> Node:
    """Begin a turn of a trigger."""
    match spec:
        case dm.DefaultTrigger():
            return begin(dm.Repeatedly(dm.AfterWatermark()), window)
        case dm.RepeatUntil():
            return begin(dm.Repeatedly(spec.trigger).or_finally(spec.until), window)
        case dm.AfterWatermark() if spec.early or spec.late:
            on_time: Any = dm.AfterWatermark()
            on_time = dm.Repeatedly(spec.early).or_finally(on_time) if spec.early else on_time
            return begin(dm.AfterEach(on_time, dm.Repeatedly(spec.late)) if spec.late else on_time, window)
        case dm.Repeatedly():
            parts = [spec.trigger]
        case dm.RepeatCount():
            parts = [spec.trigger]
        case OrFinally():
            parts = [spec.first, spec.until]
        case dm.AfterEach() | dm.AfterAny() | dm.AfterAll():
            parts = list(spec.parts)
        case _:
            parts = []
    return Node(spec, window, [begin(part, window) for part in parts])


def see(node: Node, event: Event) -> Fired | None:
    """Show an event to an unfinished node in its turn; say whether it fires."""
    if node.kids:
        return see_composite(node, event)
    if is_users(node.spec):
        return see_users(node, event, BEFORE_ALL)
    fired = see_leaf(node, event)
    node.finished = fired is not None and not isinstance(node.spec, dm.Always | dm.DataTrigger)
    return None if fired is None else (fired, DEFAULT)


def see_leaf(node: Node, event: Event) -> int | None:
    spec, fires = node.spec, False
    match spec:
        case dm.AfterWatermark():
            behind = event.comes_in and event.watermark.at(spec.percentile) >= int(node.window.end)
            return int(node.window.end) if behind or event.passes(node.window, spec.percentile) else None
        case dm.AfterEventTime() | dm.AtPeriod(domain=dm.TimeDomain.EVENT_TIME):
            return see_timed(node, event, in_event_time=True)
        case dm.AfterProcessingTime() | dm.AtPeriod():
            return see_timed(node, event, in_event_time=False)
        case dm.AfterSignal():
            fires = event.kind == "signal" and event.name == spec.name
        case _ if event.kind != "element":
            pass
        case dm.AfterCount() | dm.AfterBytes():
            node.count += size(event.element) if isinstance(spec, dm.AfterBytes) else 1
            fires = node.count >= spec.n
        case dm.AfterPunctuation():
            fires = spec.predicate(event.element)
        case dm.DataTrigger():
            fires, node.state = spec.should_emit(event.element, node.state)
        case dm.Always():
            fires = True
        case _:
            assert isinstance(spec, dm.Never)
    return BEFORE_ALL if fires else None


def see_timed(node: Node, event: Event, *, in_event_time: bool) -> int | None:
    if node.deadline is None and event.comes_in:
        first = event.event_time if in_event_time else event.clock
        later = next_period(node.spec, first) if isinstance(node.spec, dm.AtPeriod) else first + int(node.spec.delay)
        node.deadline = min(later, INFINITY)
    return node.deadline if node.deadline is not None and event.reaches(node.deadline, 100, in_event_time) else None


def see_composite(node: Node, event: Event) -> Fired | None:
    kids = node.kids
    match node.spec:
        case dm.Repeatedly() | dm.RepeatCount():
            fired = [see(kids[0], event)]
            if kids[0].finished:
                node.count += 1
                node.finished = isinstance(node.spec, dm.RepeatCount) and node.count >= node.spec.n
                node.kids = kids if node.finished else [begin(kids[0].spec, node.window)]
        case dm.AfterEach():
            fired = [see(next(kid for kid in kids if not kid.finished), event)]
            node.finished = kids[-1].finished
        case dm.AfterAny() | OrFinally():
            fired = [None if kid.finished else see(kid, event) for kid in kids]
            node.finished = any(kid.finished for kid, firing in zip(kids, fired, strict=True) if firing is not None)
            node.finished |= isinstance(node.spec, OrFinally) and fired[1] is not None
        case _:  # AfterAll: a child fires when it is ready, and that stays so until all are
            fired = [None if kid.finished else see(kid, event) for kid in kids]
            ready = {place: firing for place, firing in enumerate(fired) if firing is not None}
            new = [at for place, (at, _) in ready.items() if place not in node.met]
            node.met |= {place: firing_mode for place, (_, firing_mode) in ready.items()}
            node.finished = all(kid.finished for kid in kids)
            if not node.met or not all(kid.finished or place in node.met for place, kid in enumerate(kids)):
                return None
            firing_mode, node.met = last_mode([*node.met.values()]), {}
            return max(new, default=BEFORE_ALL), firing_mode
    firings = [firing for firing in fired if firing is not None]
    if isinstance(node.spec, OrFinally) and fired[1] is not None:
        return fired[1][0], last_mode([firing_mode for _, firing_mode in firings])
    return (min(at for at, _ in firings), last_mode([firing_mode for _, firing_mode in firings])) if firings else None


def merge(node: Node, sources: Sequence[Node], event: Event) -> None:
    """Give a new node what the nodes at its place in the merged windows remember."""
    unfinished = [source for source in sources if not source.finished]
    for place, kid in enumerate(node.kids):
        # A finished source contributes only its finished children.
        merge(kid, [s.kids[place] for s in sources if not s.finished or s.kids[place].finished], event)
        if isinstance(node.spec, dm.AfterEach) and not kid.finished:
            break  # the children after it have yet to begin
    finished = [kid.finished for kid in node.kids]
    match node.spec:
        case dm.Repeatedly() | dm.RepeatCount():
            # A turn of the child that ends with the merge counts; without an unfinished source the last turn is over.
            node.count = sum(source.count for source in unfinished) + finished[0]
            node.finished = isinstance(node.spec, dm.RepeatCount) and (
                node.count >= node.spec.n if unfinished else finished[0]
            )
            below = list(node.kids) if node.finished else []
            for kid in below:  # the last completion may have come with the merge
                kid.finished = True
                below += kid.kids
            node.kids = [begin(node.kids[0].spec, node.window)] if finished[0] and not node.finished else node.kids
        case dm.AfterEach() | dm.AfterAll():
            node.finished = all(finished)
            node.met = {place: firing_mode for source in unfinished for place, firing_mode in source.met.items()}
        case dm.AfterAny() | OrFinally():
            node.finished = any(finished)
        case _:
            node.finished = bool(sources) and not unfinished
            end = int(node.window.end)
            if isinstance(node.spec, dm.AfterWatermark) and event.watermark.at(node.spec.percentile) < end:
                node.finished = False
            node.count = sum(source.count for source in unfinished)
            node.deadline = min((s.deadline for s in unfinished if s.deadline is not None), default=None)
            states = [source.state for source in unfinished if source.state is not None]
            if isinstance(node.spec, dm.DataTrigger):
                node.state = node.spec.merge_state(states) if len(states) > 1 else next(iter(states), None)
            if is_users(node.spec):
                node.spec.on_merge(context(node, event, [], sources))


def next_period(spec: Any, at: int) -> int:
    """Return the smallest `reference + n × period` that is not before `at`; days and months are a zone's own."""
    months = getattr(spec.period, "n", 0)
    days, rest = (0, 0) if months else divmod(int(spec.period), DAY)
    if spec.timezone is None or rest:
        return at + (int(spec.reference) - at) % int(spec.period)
    zone = ZoneInfo(spec.timezone)
    start = pendulum.from_timestamp(int(spec.reference) / 1_000_000, spec.timezone).naive()
    number = (at - int(spec.reference)) // ((months * 31 + days) * DAY) - 1
    time = BEFORE_ALL
    while time < at:  # `fold=0`: a time that comes twice is the first; one that a change of clocks skips comes later
        wall = start.add(months=months * number, days=days * number)
        local = datetime.datetime.combine(wall.date(), wall.time(), zone)  # pendulum moves a skipped time back
        time, number = round(local.timestamp() * 1_000_000), number + 1
    return time


def size(element: Any) -> int:
    try:
        return len(encode_key(element))
    except dm.KeyEncodingError:
        return len(pickle.dumps(element, protocol=5))
