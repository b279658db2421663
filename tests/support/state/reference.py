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
class Cell:
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
    cells: list[Cell] = attrs.field(factory=list)
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

    def expiry(self, cell: Cell) -> int:
        late = 0 if self.sorts else int(self.strategy.allowed_lateness)
        return min(int(cell.window.end) + late, END)

    def passed(self) -> int:
        """Return the last event time that has had its turn."""
        if not self.sorts or self.watermark in (END, NEVER):
            return self.watermark
        return self.watermark - int(self.strategy.allowed_lateness) - 1

    def reach(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        while True:
            due: list[Any] = []
            for cell in self.cells:
                due += [
                    (timer.stands, cell.rank(), timer.when, 1, timer.number, cell, timer)
                    for timer in cell.timers
                    if timer.domain == "event"
                ]
                due += [(when, cell.rank(), when, 0, number, cell, it) for when, number, it in cell.waiting]
                end = self.expiry(cell)
                due.append((end, cell.rank(), end, 2, 0, cell, None))
            due = [entry for entry in due if entry[0] <= self.passed()]
            if not due:
                break
            at, _, when, kind, number, cell, it = min(due, key=lambda entry: entry[:5])
            self.standing = at
            if kind == 0:
                cell.waiting.remove((when, number, it))
                self.act(cell, it, when)
            elif kind == 1:
                self.fire(cell, it, self.clock)
            else:
                self.expire(cell)
        self.standing = NEVER

    def tick(self, until: int) -> None:
        while True:
            due = [
                (timer.when, cell.rank(), timer.number, cell, timer)
                for cell in self.cells
                for timer in cell.timers
                if timer.domain == "clock" and timer.when <= until
            ]
            if not due:
                break
            when, _, _, cell, timer = min(due, key=lambda entry: entry[:3])
            self.fire(cell, timer, when)
            self.catch_up(cell, when)

    def catch_up(self, cell: Cell, clock: int) -> None:
        while True:
            due = [timer for timer in cell.timers if timer.domain == "event" and timer.when <= self.passed()]
            if not due:
                return
            self.fire(cell, min(due, key=lambda timer: (timer.when, timer.number)), clock)

    # What happens ----------------------------------------------------------------------------------------------------

    def cell(self, key: str, window: Any) -> Cell:
        for cell in self.cells:
            if cell.key == key and cell.window == window:
                return cell
        cell = Cell(key, window)
        self.cells.append(cell)
        return cell

    def arrive(self, key: str, window: Any, actions: Any, at: int) -> None:
        now = self.passed()
        if (self.sorts and NEVER < now >= at) or (not self.sorts and now >= self.expiry(Cell(key, window))):
            self.counters["dropped_because_late"] += 1
            return
        cell = self.cell(key, window)
        if self.sorts:
            self.number += 1
            cell.waiting.append((at, self.number, actions))
            return
        self.act(cell, actions, at)
        self.catch_up(cell, self.clock)

    def act(self, cell: Cell, actions: Any, at: int) -> None:
        for action, *rest in actions:
            match action:
                case "keep":
                    cell.bag.append(rest[0])
                    cell.kept.append(rest[0])
                case "wipe":
                    cell.bag.clear()
                    cell.kept.clear()
                case "event":
                    when = at + rest[0] * SECOND
                    output = self.inside(cell, when, at) if rest[2] is None else at + rest[2] * SECOND
                    self.set(cell, "event", rest[1], when, output)
                case "clock":
                    self.set(cell, "clock", rest[1], self.clock + rest[0] * SECOND, at)
                case "clear":
                    self.clear(cell, rest[0], rest[1])
        seen = tuple(dict.fromkeys(value % 3 for value in cell.kept))
        notes = {value % 2: value for value in cell.kept}
        last = cell.kept[-1] if cell.kept else -1
        observed = (tuple(cell.bag), sum(cell.kept), last, seen, tuple(notes.items()))
        self.give(cell, ("element", at, observed), at, self.clock)

    def fire(self, cell: Cell, timer: Pending, clock: int) -> None:
        cell.timers.remove(timer)
        self.counters["timers_fired"] += 1
        domain, output = timer.domain, timer.output
        other = "clock" if domain == "event" else "event"
        match timer.tag:
            case "again":
                cell.bag.append(len(cell.bag))
                self.again(cell, timer, 3, "back")
            case "back":
                self.again(cell, timer, -5 if domain == "event" else 0, "stop")
            case "both" if other == "clock":
                self.set(cell, "clock", "stop", clock + 2 * SECOND, output)
            case "both":
                self.set(cell, "event", "stop", output - 2 * SECOND, output)
        self.give(cell, (domain, timer.when, timer.tag, output, tuple(cell.bag)), output, clock)

    def again(self, cell: Cell, timer: Pending, seconds: int, tag: str) -> None:
        when = timer.when + seconds * SECOND
        event = timer.domain == "event"
        self.set(cell, timer.domain, tag, when, self.inside(cell, when, timer.output) if event else timer.output)

    def expire(self, cell: Cell) -> None:
        self.cells.remove(cell)
        if self.kind is Mourner:
            at = int(cell.window.max_timestamp)
            self.give(cell, ("expiry", cell.key, at, tuple(cell.bag)), at, self.clock)

    def inside(self, cell: Cell, when: int, at: int) -> int:
        return max(min(when, int(cell.window.max_timestamp)), at)

    def clear(self, cell: Cell, domain: str, tag: str) -> None:
        cell.timers = [timer for timer in cell.timers if (timer.domain, timer.tag) != (domain, tag)]

    def set(self, cell: Cell, domain: str, tag: str, when: int, output: int) -> None:
        self.clear(cell, domain, tag)
        self.number += 1
        stands = max(when, self.standing)
        cell.timers.append(Pending(when, stands, self.number, domain, tag, output))

    def give(self, cell: Cell, value: Any, at: int, clock: int) -> None:
        self.out.append((value, cell.window, at, clock))
