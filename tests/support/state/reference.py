"""A plain reference of a stateful DoFn: lists, looked through for what comes next; nothing shared with the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, WatermarkStep
from tests.support.state.actor import Mourner, Sorter

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

SECOND = 1_000_000
END = 2**63 - 1
NEVER = -(2**63)


@attrs.define
class Pending:
    """A timer. `stands` is where it has its turn: at its time, or if that is past, where the one that set it stands."""

    when: int
    stands: int
    number: int
    domain: str
    tag: str
    output: int


@attrs.define(eq=False)
class Place:
    """One key and window; total, last, seen and notes follow from the values kept since the last wipe."""

    key: str
    window: Any
    bag: list[int] = attrs.field(factory=list)
    kept: list[int] = attrs.field(factory=list)
    timers: list[Pending] = attrs.field(factory=list)
    waiting: list[tuple[int, int, Any]] = attrs.field(factory=list)

    def rank(self) -> tuple[int, int, str]:
        return int(self.window.end), int(self.window.start), self.key


@attrs.define
class Reference:
    """Runs an `Actor` over a script, step by step."""

    strategy: WindowingStrategy
    kind: type
    watermark: int = NEVER
    clock: int = 0
    number: int = 0
    counters: dict[str, int] = attrs.field(
        factory=lambda: {"elements_in": 0, "dropped_because_late": 0, "timers_fired": 0}
    )
    places: list[Place] = attrs.field(factory=list)
    standing: int = NEVER
    out: list[tuple[Any, Any, int, int]] = attrs.field(factory=list)

    def run(self, script: TestStream) -> list[tuple[Any, Any, int, int]]:
        """Return value, window, event time and processing time of the outputs, in order."""
        for step in script.steps:
            match step:
                case AddStep():
                    for (key, actions), at in step.elements:
                        self.counters["elements_in"] += 1
                        for window in self.strategy.window_fn.assign(at, (key, actions)):
                            self.arrive(key, window, actions, int(at))
                case WatermarkStep():
                    self.reach(int(step.watermark))
                case ClockStep():
                    if int(step.processing_time) > self.clock:
                        self.tick(int(step.processing_time) - 1)
                    self.clock = int(step.processing_time)
        self.tick(self.clock)
        self.reach(END)
        return self.out

    # Time ------------------------------------------------------------------------------------------------------------

    @property
    def sorts(self) -> bool:
        return self.kind is Sorter

    def expiry(self, place: Place) -> int:
        late = 0 if self.sorts else int(self.strategy.allowed_lateness)
        return min(int(place.window.end) + late, END)

    def passed(self) -> int:
        """Return the last event time that has had its turn."""
        if not self.sorts or self.watermark in (END, NEVER):
            return self.watermark
        return self.watermark - int(self.strategy.allowed_lateness) - 1

    def reach(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        while True:
            due: list[Any] = []
            for place in self.places:
                due += [
                    (timer.stands, place.rank(), timer.when, 1, timer.number, place, timer)
                    for timer in place.timers
                    if timer.domain == "event"
                ]
                due += [(when, place.rank(), when, 0, number, place, it) for when, number, it in place.waiting]
                end = self.expiry(place)
                due.append((end, place.rank(), end, 2, 0, place, None))
            due = [entry for entry in due if entry[0] <= self.passed()]
            if not due:
                break
            at, _, when, kind, number, place, it = min(due, key=lambda entry: entry[:5])
            self.standing = at
            if kind == 0:
                place.waiting.remove((when, number, it))
                self.act(place, it, when)
            elif kind == 1:
                self.fire(place, it, self.clock)
            else:
                self.expire(place)
        self.standing = NEVER

    def tick(self, until: int) -> None:
        while True:
            due = [
                (timer.when, place.rank(), timer.number, place, timer)
                for place in self.places
                for timer in place.timers
                if timer.domain == "clock" and timer.when <= until
            ]
            if not due:
                break
            when, _, _, place, timer = min(due, key=lambda entry: entry[:3])
            self.fire(place, timer, when)
            self.catch_up(place, when)

    def catch_up(self, place: Place, clock: int) -> None:
        while True:
            due = [timer for timer in place.timers if timer.domain == "event" and timer.when <= self.passed()]
            if not due:
                return
            self.fire(place, min(due, key=lambda timer: (timer.when, timer.number)), clock)

    # What happens ----------------------------------------------------------------------------------------------------

    def place(self, key: str, window: Any) -> Place:
        for place in self.places:
            if place.key == key and place.window == window:
                return place
        place = Place(key, window)
        self.places.append(place)
        return place

    def arrive(self, key: str, window: Any, actions: Any, at: int) -> None:
        now = self.passed()
        if (self.sorts and NEVER < now >= at) or (not self.sorts and now >= self.expiry(Place(key, window))):
            self.counters["dropped_because_late"] += 1
            return
        place = self.place(key, window)
        if self.sorts:
            self.number += 1
            place.waiting.append((at, self.number, actions))
            return
        self.act(place, actions, at)
        self.catch_up(place, self.clock)

    def act(self, place: Place, actions: Any, at: int) -> None:
        for action, *rest in actions:
            match action:
                case "keep":
                    place.bag.append(rest[0])
                    place.kept.append(rest[0])
                case "wipe":
                    place.bag.clear()
                    place.kept.clear()
                case "event":
                    when = at + rest[0] * SECOND
                    output = self.inside(place, when, at) if rest[2] is None else at + rest[2] * SECOND
                    self.set(place, "event", rest[1], when, output)
                case "clock":
                    self.set(place, "clock", rest[1], self.clock + max(rest[0], 0) * SECOND, at)
                case "clear":
                    self.clear(place, rest[0], rest[1])
        seen = tuple(dict.fromkeys(value % 3 for value in place.kept))
        notes = {value % 2: value for value in place.kept}
        last = place.kept[-1] if place.kept else -1
        observed = (tuple(place.bag), sum(place.kept), last, seen, tuple(notes.items()))
        self.give(place, ("element", at, observed), at, self.clock)

    def fire(self, place: Place, timer: Pending, clock: int) -> None:
        place.timers.remove(timer)
        self.counters["timers_fired"] += 1
        domain, output = timer.domain, timer.output
        other = "clock" if domain == "event" else "event"
        match timer.tag:
            case "again":
                place.bag.append(len(place.bag))
                self.again(place, timer, 3, "back")
            case "back":
                self.again(place, timer, -5 if domain == "event" else 0, "stop")
            case "both" if other == "clock":
                self.set(place, "clock", "stop", clock + 2 * SECOND, output)
            case "both":
                self.set(place, "event", "stop", output - 2 * SECOND, output)
        self.give(place, (domain, timer.when, timer.tag, output, tuple(place.bag)), output, clock)

    def again(self, place: Place, timer: Pending, seconds: int, tag: str) -> None:
        when = timer.when + seconds * SECOND
        event = timer.domain == "event"
        self.set(place, timer.domain, tag, when, self.inside(place, when, timer.output) if event else timer.output)

    def expire(self, place: Place) -> None:
        self.places.remove(place)
        if self.kind is Mourner:
            at = int(place.window.max_timestamp)
            self.give(place, ("expiry", place.key, at, tuple(place.bag)), at, self.clock)

    def inside(self, place: Place, when: int, at: int) -> int:
        return max(min(when, int(place.window.max_timestamp)), at)

    def clear(self, place: Place, domain: str, tag: str) -> None:
        place.timers = [timer for timer in place.timers if (timer.domain, timer.tag) != (domain, tag)]

    def set(self, place: Place, domain: str, tag: str, when: int, output: int) -> None:
        self.clear(place, domain, tag)
        self.number += 1
        stands = max(when, self.standing)
        place.timers.append(Pending(when, stands, self.number, domain, tag, output))

    def give(self, place: Place, value: Any, at: int, clock: int) -> None:
        self.out.append((value, place.window, at, clock))
