"""One window's trigger tree, played by hand: which of a script's steps fire it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.time import MIN_TIMESTAMP, EventTime
from dataflow_model.triggers import Outcome, TimeDomain, TreeState, Trigger, TriggerMachine
from dataflow_model.values import IntervalWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.values import PaneInfo, Window

SECOND = 1_000_000


def window(start: float, end: float) -> IntervalWindow:
    """Return `[start, end)` in seconds."""
    return IntervalWindow(EventTime(round(start * SECOND)), EventTime(round(end * SECOND)))


@attrs.define
class Play:
    """A tree in one window, with its clocks; the window accumulates a list.

    Steps are those of `tests.support.scripting.script`, and `r 5@3` (an element taken back), `s NAME` (a signal) and
    `w90 12` (another percentile of the watermark).
    """

    trigger: Trigger
    window: Window = attrs.field(factory=lambda: window(0, 10))
    state: TreeState = attrs.field(factory=TreeState)
    machine: TriggerMachine = attrs.field(init=False)
    watermark: int = int(MIN_TIMESTAMP)
    clock: int = 0
    percentiles: dict[float, int] = attrs.field(factory=dict)
    value: list[Any] = attrs.field(factory=list)
    history: Sequence[PaneInfo] = ()
    fired: list[tuple[str, Outcome]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.machine = TriggerMachine(self.trigger)

    # What the tree sees of the window.

    def peek_value(self) -> Any:
        return list(self.value)

    def trigger_history(self) -> Sequence[PaneInfo]:
        return self.history

    # Steps.

    def play(self, text: str) -> list[str]:
        """Play a script, one window's as the engine would; return the steps that fired, one for each firing."""
        before = len(self.fired)
        for step in text.split(", ") if text else ():
            kind, _, rest = step.partition(" ")
            match kind[0]:
                case "e" | "r":
                    for part in rest.split("+"):
                        value, _, at = part.partition("@")
                        self.element(step, value, round(float(at) * SECOND), retraction=kind == "r")
                case "w":
                    self.advance_watermark(step, float(kind[1:] or 100), float(rest))
                case "p":
                    self.advance_clock(step, round(float(rest) * SECOND))
                case _:
                    self.tell_clocks()
                    self.note(step, self.machine.signal(self.state, self.window, rest, self))
        return [step for step, _ in self.fired[before:]]

    def element(self, step: str, value: str, at: int, *, retraction: bool) -> None:
        number = int(value) if value.lstrip("-").isdigit() else value
        if retraction:
            self.value.remove(number)
        else:
            self.value.append(number)
        self.tell_clocks()
        firing = self.machine.element(self.state, self.window, number, self, retraction=retraction, event_time=at)
        self.note(step, firing)
        if self.machine.is_overdue(self.state):
            self.run_timers(step, TimeDomain.EVENT_TIME, self.watermark)

    def advance_watermark(self, step: str, percentile: float, to: float) -> None:
        if percentile == 100:
            self.watermark = round(to * SECOND)
        else:
            self.percentiles[percentile] = round(to * SECOND)
        self.percentiles = {share: max(at, self.watermark) for share, at in self.percentiles.items()}
        self.run_timers(step, TimeDomain.EVENT_TIME, self.watermark)

    def advance_clock(self, step: str, to: int) -> None:
        if to > self.clock:
            self.run_timers(step, TimeDomain.PROCESSING_TIME, to - 1)
            self.clock = to

    def run_timers(self, step: str, domain: TimeDomain, until: int) -> None:
        self.tell_clocks()
        self.note(step, self.machine.due(self.state, self.window, domain, until, self))

    def tell_clocks(self) -> None:
        self.machine.clocks(watermark=self.watermark, processing_time=self.clock, percentiles=self.percentiles)

    def note(self, step: str, outcome: Outcome) -> None:
        if outcome.fired or outcome.cleared:
            self.fired.append((step, outcome))
            if outcome.cleared:
                self.value.clear()

    # What came of it.

    @property
    def deadlines(self) -> list[float | None]:
        """Return the deadline, in seconds, of each firing."""
        return [None if outcome.at is None else outcome.at / SECOND for _, outcome in self.fired]

    @property
    def finished(self) -> bool:
        return self.state.is_finished()


def fires_at(trigger: Trigger, text: str) -> list[str]:
    """Return the steps at which a trigger fires in the window `[0, 10)`."""
    return Play(trigger).play(text)


def deadlines(trigger: Trigger, text: str) -> list[float | None]:
    """Return the deadlines at which a trigger fires in the window `[0, 10)`."""
    play = Play(trigger)
    play.play(text)
    return play.deadlines


def merged(trigger: Trigger, sources: Iterable[tuple[tuple[float, float], str]], last: Play | None = None) -> Play:
    """Play each source in a window of its own, then merge them; the clocks are those of the last source.

    Args:
        trigger: the tree.
        sources: each window's bounds and script.
        last: whose clocks hold in the merged window, if not the last source's.
    """
    plays = []
    for bounds, text in sources:
        play = Play(trigger, window(*bounds))
        play.play(text)
        plays.append(play)
    clocks = plays[-1] if last is None else last
    into = window(min(play.window.start for play in plays) / SECOND, max(play.window.end for play in plays) / SECOND)
    whole = Play(
        trigger,
        into,
        watermark=clocks.watermark,
        clock=clocks.clock,
        percentiles=clocks.percentiles,
        value=[value for play in plays for value in play.value],
    )
    whole.tell_clocks()
    whole.state = whole.machine.merge(into, [(play.window, play.state) for play in plays])
    return whole
