"""LocalRunner against the executable specification: every pane and every drop, in the order of emission."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, note, settings

import dataflow_model as dm
from dataflow_model.testing import TestStream, assert_panes
from tests.support.spec import spec
from tests.support.spec.comparing import by_specification, differs, on_runner, smallest
from tests.support.spec.drawing import WINDOW_FNS, Case, case, cases, chain, random_case
from tests.support.spec.spec_triggers import next_period

if TYPE_CHECKING:
    from tests.support.spec.spec import Live
    from tests.support.spec.spec_triggers import Event

SHRINKING = int(os.environ.get("SPEC_CASES") or settings().max_examples)
DRAWN = 300
"""How many of the cases that are drawn fast are looked at for what happens in them."""
NIGHTLY = int(os.environ.get("SPEC_NIGHTLY_CASES", "50000"))
PARTS = 10
DAY = 86_400


def check(drawn: Case) -> None:
    """Fail unless LocalRunner does what the specification says."""
    expected, actual = by_specification(drawn), on_runner(drawn)
    assert_panes(actual.panes, expected.panes)
    assert actual == expected


def check_seeds(seeds: range) -> None:
    """Check cases that are drawn fast; of one that fails the smallest script is shown."""
    for seed in seeds:
        drawn = random_case(seed, chain if seed % 5 == 0 else case)
        if differs(drawn):
            least = smallest(drawn)
            print(f"seed {seed}", *least.script.steps, *least.strategies, sep="\n")  # noqa: T201 - how to see it again
            check(least)


def test_the_specification_gives_the_sessions_of_the_paper() -> None:
    # Figure 6J: what each step brings, a value with its event time or the watermark.
    steps = {
        "12:05:19": "e 5@12:00:26", "12:05:39": "e 7@12:02:24", "12:05:59": "w 12:02:00", "12:06:13": "e 3@12:03:39",
        "12:06:26": "e 4@12:03:26", "12:06:39": "e 3@12:04:19", "12:07:06": "e 8@12:03:06", "12:07:19": "e 3@12:06:39",
        "12:07:30": "w 12:04:00", "12:07:40": "w 12:06:00", "12:08:19": "e 9@12:01:25", "12:08:39": "e 8@12:07:26",
        "12:09:00": "e 1@12:07:46", "12:09:30": "w 12:09:00",
    }  # fmt: skip
    script = TestStream.parse(
        [part for clock, step in steps.items() for part in (f"p {clock}", step)], day="2000-01-01", key="k"
    )
    partial = dm.AfterEach(
        dm.RepeatUntil(dm.AtPeriod("1 minute"), dm.AfterWatermark()), dm.Repeatedly(dm.AfterWatermark())
    )
    sessions = dm.Window.into(dm.Sessions("1 minute")).trigger(partial).allowed_lateness("1000 days")
    sessions = sessions.on_time("fire_if_non_empty").accumulating_and_retracting()
    drawn = Case(script, (sessions.strategy,), dm.Sum())
    values = [pane.value * (-1 if pane.is_retraction else 1) for pane in by_specification(drawn).panes]
    assert values == [5, 7, 10, -7, -10, 25, 3, -5, -25, 39, -3, 12]
    check(drawn)


@settings(max_examples=SHRINKING)
@given(cases())
def test_one_grouping_gives_the_panes_of_the_specification(drawn: Case) -> None:
    note("\n".join(map(repr, drawn.script.steps)))
    check(drawn)


@settings(max_examples=max(1, SHRINKING // 4))
@given(cases(chain))
def test_groupings_in_sequence_give_the_panes_of_the_specification(drawn: Case) -> None:
    note("\n".join(map(repr, drawn.script.steps)))
    check(drawn)


# Hundreds that are drawn fast are in tests/laws/test_fixed_cases.py.
@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_tens_of_thousands_of_drawn_cases_give_the_panes_of_the_specification(part: int) -> None:
    check_seeds(range(part * 1_000_000, part * 1_000_000 + NIGHTLY // PARTS))


@attrs.define(eq=False)
class Watched(spec.Grouping):
    """A grouping that notes what has happened in it."""

    seen: Counter[str] = attrs.field(factory=Counter)
    clocks: set[int] = attrs.field(factory=set)  # at which elements came

    def incorporate(self, key: Any, window: Any, at: int, new: list[Any], old: Any = ()) -> None:
        self.clocks.add(self.clock)
        if old:
            self.seen["an update" if new else "a lone retraction"] += 1
        super().incorporate(key, window, at, new, old)

    def merged(self, key: Any, window: Any, sources: list[Live]) -> Live:
        self.seen["a merge"] += len(sources) > 1
        self.seen["growth"] += len(sources) == 1
        return super().merged(key, window, sources)

    def go(self, live: Live, event: Event, at: int, firing_mode: dm.FiringMode | None) -> None:
        self.seen["a tie of an element and a timer"] += event.kind == "clock" and at in self.clocks
        self.seen["a firing mode of its own"] += firing_mode not in {None, dm.FiringMode.DEFAULT}
        super().go(live, event, at, firing_mode)

    def send(self, live: Live, trigger: str | None, at: int, *, passes: bool = False) -> None:
        nothing_new, number, standing = not live.news, len(live.history), live.standing
        super().send(live, trigger, at, passes=passes)
        if self.strategy.retracting and any(pane.window != live.window for pane in standing):
            self.seen["a retraction after a merge"] += 1
        if number == len(live.history):
            self.seen["a value that is taken back for good"] += 1
            return
        info = live.history[-1]
        self.seen[f"{info.timing.name} pane"] += 1
        self.seen["an empty ON_TIME pane"] += nothing_new and info.timing is dm.PaneTiming.ON_TIME
        self.seen["a pane at expiry"] += trigger is None and passes
        self.seen["a pane after expiry"] += trigger is None and self.reopened.get((live.key, live.window)) is live
        self.seen["a retraction where nothing is new"] += nothing_new and self.strategy.retracting and bool(standing)
        self.seen["a finish"] += live.tree.finished


EVENTS = {
    "EARLY pane", "ON_TIME pane", "LATE pane", "an empty ON_TIME pane", "a pane at expiry", "a pane after expiry",
    "a merge", "growth", "a retraction after a merge", "a retraction where nothing is new", "a finish",
    "a tie of an element and a timer", "a firing mode of its own", "an update", "a lone retraction",
    "a value that is taken back for good", "dropped_because_late", "dropped_because_closed", "dropped_retractions",
}  # fmt: skip


def test_the_drawn_cases_contain_every_situation_of_the_specification() -> None:
    seen: Counter[str] = Counter()
    drawn = [random_case(seed, chain if seed % 5 == 0 else case) for seed in range(DRAWN)]
    for drawn_case in drawn:
        groupings: list[Watched] = []

        def watched(*parts: Any, into: list[Watched] = groupings) -> Watched:
            into.append(Watched(*parts))
            return into[-1]

        by_specification(drawn_case, watched)
        for grouping in groupings:
            seen += grouping.seen + grouping.dropped
    assert {event for event in EVENTS if seen[event] < DRAWN / 200} == set()
    assert {repr(drawn_case.strategies[0].window_fn) for drawn_case in drawn} == set(map(repr, WINDOW_FNS))


def test_the_drawn_trigger_trees_contain_every_trigger() -> None:
    trees = " ".join(repr(random_case(seed).strategies[0].trigger) for seed in range(2000))
    names = {cls.__name__ for cls in vars(dm).values() if isinstance(cls, type) and issubclass(cls, dm.Trigger)}
    shown = names - {"Trigger", "CompositeTrigger", "DataTrigger"} | {"EveryThird", "OddResult", "Timeout", "FiresWith"}
    assert {name for name in shown if f"{name}(" not in trees and name != "OrFinally"} == set()
    assert ".or_finally(" in trees
    assert "percentile=" in trees


@pytest.mark.parametrize("timezone", [None, "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("reference", ["2013-01-01T08:00", "2013-02-10T02:30", "2012-12-31T23:00"])
@pytest.mark.parametrize("period", ["1 hour", "1 day", "1 week", "1 month"])
def test_periods_of_triggers_end_when_the_specification_says(period: str, reference: str, timezone: str | None) -> None:
    if timezone is None and "month" in period:
        pytest.skip("months need a zone")
    trigger = dm.AtPeriod(period, reference=reference, timezone=timezone)
    clocks = [day * DAY + 45_000 for day in sorted({*range(15_700, 16_200, 7), 15_774, 16_012})]
    script = TestStream()
    for clock in clocks:
        script = script.processing_time(clock).add(1, 0, key=clock)
    script = script.processing_time(clocks[-1] + 70 * DAY)
    drawn = Case(script, (dm.WindowingStrategy(trigger=trigger, may_lose_data=True),), dm.Sum())
    fired = {pane.key: pane.processing_time for pane in reversed(on_runner(drawn).panes)}  # the first pane of each key
    assert fired == {clock: next_period(trigger, clock * 1_000_000) for clock in clocks}
