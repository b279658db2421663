"""An element that fails leaves state and timers as they were, and costs no more than what it touches."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.state_handles import BagState, CombiningState, MapState, SetState, ValueState
from dataflow_model.plan.functions.state_journal import StateJournal
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Board:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.journal: StateJournal | None = None
        self.value: ValueState[Any] = ValueState(self, "value", [])
        self.bag: BagState[Any] = BagState(self, "bag")
        self.set: SetState[Any] = SetState(self, "set")
        self.map: MapState[Any, Any] = MapState(self, "map")
        self.combined: CombiningState[Any, Any] = CombiningState(self, "combined", dm.ToList())


def _append_to(shown: Any, number: int) -> Any:
    if isinstance(shown, list):
        shown.append(number)
    return shown


CALLS: dict[str, Callable[[Board, int], object]] = {
    "write": lambda board, number: board.value.write([number]),
    "read and change": lambda board, number: _append_to(board.value.read(), number),
    "clear value": lambda board, _: board.value.clear(),
    "add to bag": lambda board, number: board.bag.add([number]),
    "read bag and change": lambda board, number: [_append_to(shown, number) for shown in board.bag.read()],
    "clear bag": lambda board, _: board.bag.clear(),
    "add to set": lambda board, number: board.set.add(number),
    "remove from set": lambda board, number: board.set.remove(number),
    "read set": lambda board, _: board.set.read(),
    "clear set": lambda board, _: board.set.clear(),
    "put": lambda board, number: board.map.put(number, [number]),
    "put again": lambda board, number: board.map.put(number, board.map.get(number)),
    "get and change": lambda board, number: _append_to(board.map.get(number), number),
    "items and change": lambda board, number: [_append_to(shown, number) for _, shown in board.map.items()],
    "remove": lambda board, number: board.map.remove(number),
    "clear map": lambda board, _: board.map.clear(),
    "combine": lambda board, number: board.combined.add([number]),
    "output and change": lambda board, number: [_append_to(shown, number) for shown in board.combined.read()],
}
SOME_CALLS = st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.integers(0, 3)), max_size=15)


def in_order(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(held.items()) if isinstance(held, dict) else held for name, held in values.items()}


@given(SOME_CALLS, SOME_CALLS)
def test_all_changes_of_a_failed_call_are_undone(before: list[tuple[str, int]], failing: list[tuple[str, int]]) -> None:
    board = Board()
    for name, number in before:
        CALLS[name](board, number)
    expected = copy.deepcopy(in_order(board.values))
    board.journal = StateJournal(board.values)
    for name, number in failing:
        CALLS[name](board, number)
    board.journal.undo()
    assert in_order(board.values) == expected


class Counted:
    copies = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Counted:
        Counted.copies += 1
        return self


def test_state_that_a_call_does_not_use_is_not_copied() -> None:
    class Keep(dm.DoFn):
        bag = dm.BagStateSpec()
        by_number = dm.MapStateSpec()

        def process(self, pair: Any, bag: dm.BagState[Any], by_number: dm.MapState[int, Any]) -> None:
            bag.add(Counted())
            by_number.put(pair[1], Counted())
            assert pair[1] in by_number
            if pair[1] % 2:
                raise ValueError("odd")

    Counted.copies = 0
    with dm.Pipeline() as p:
        numbers = p | dm.Create([("a", number) for number in range(50)])
        _, failed = numbers | dm.ParDo(Keep()).with_exception_handling()
        _ = failed | "failed" >> dm.io.Collect()
    assert len(p.result.collected("failed")) == 25
    assert Counted.copies == 0


@pytest.mark.parametrize("domain", list(dm.TimeDomain))
def test_a_failed_element_leaves_timers_unchanged(domain: dm.TimeDomain) -> None:
    class Remind(dm.DoFn):
        reminder = dm.TimerSpec(domain)
        since = dm.WatermarkHoldSpec()

        def process(self, pair: Any, reminder: dm.Timer, since: dm.WatermarkHold) -> None:
            if pair[1] == "set":
                since.set(3)
                reminder.set(10, tag="kept", output_timestamp=5)
                reminder.set(20, tag="cleared")
            else:
                reminder.set(12, tag="new")
                reminder.set(30, tag="kept")
                reminder.clear(tag="cleared")
                since.clear()
                raise ValueError("fails")

        @dm.on_timer(reminder)
        def remind(self, timer_tag: str, timestamp: dm.EventTime, since: dm.WatermarkHold) -> Iterator[Any]:
            yield timer_tag, int(timestamp) // 1_000_000, since.read()

    steps = TestStream().add("set", 1, key="a").add("fail", 2, key="a")
    with dm.Pipeline() as p:
        reminders, _ = p | steps.watermark(40).processing_time(40) | dm.ParDo(Remind()).with_exception_handling()
        _ = reminders | "out" >> dm.io.Collect()
    held = dm.event_time(3)
    cleared_at = 20 if domain is dm.TimeDomain.EVENT_TIME else 1
    assert [record.value for record in p.result.collected("out")] == [("kept", 5, held), ("cleared", cleared_at, held)]


def test_a_timer_does_not_fire_at_the_time_that_a_failed_element_has_set_it_to() -> None:
    class Remind(dm.DoFn):
        reminder = dm.TimerSpec()
        watermark = dm.WatermarkSpec()

        def process(self, pair: Any, reminder: dm.Timer) -> None:
            tag, seconds, fails = pair[1]
            reminder.set(seconds, tag=tag)
            if fails:
                raise ValueError("fails")

        @dm.on_timer(reminder)
        def remind(self, timer_tag: str, watermark: dm.Watermark) -> Iterator[Any]:
            yield timer_tag, int(watermark.read()) // 1_000_000

    steps = TestStream().bundle(
        [(("first", 4, False), 0), (("second", 5, True), 0), (("second", 50, False), 0)], key="a"
    )
    with dm.Pipeline() as p:
        reminders, _ = p | steps.watermark(10).watermark(60) | dm.ParDo(Remind()).with_exception_handling()
        _ = reminders | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [("first", 10), ("second", 60)]
