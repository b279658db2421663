"""Many open windows of one key: what an element costs, and that merging finds the windows it has to."""

from __future__ import annotations

import cProfile
import pickle
import pstats
import random
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.runners.engine.lanes.order import of_row
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, Watermarks
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.values import IntervalWindow, Window, encode_key, interval
from tests.support.reference.cells_in_order import CellsInOrder
from tests.support.reference.grouping import GroupingEngine
from tests.support.reference.key_states import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MINUTE = 60_000_000
BUSY = "robot"


@attrs.frozen
class CountingSessions(dm.Sessions):
    """Sessions that note how many windows `merge` was shown."""

    merges_intersecting: ClassVar[bool] = True
    shown: list[int] = attrs.field(factory=list, eq=False)

    def merge(self, windows: Sequence[Window]) -> Any:
        self.shown.append(len(windows))
        return super().merge(windows)


@attrs.frozen
class SessionsShownEverything(dm.Sessions):
    """The same windows, found by looking at all there are."""

    def merge(self, windows: Sequence[Window]) -> Any:
        return super().merge(windows)


def engine_for(fn: dm.WindowFn, trigger: dm.Trigger | None = None) -> GroupingEngine:
    placed = dm.Window.into(fn).trigger(trigger or dm.AfterWatermark(late=dm.AfterCount(1)))
    strategy = placed.allowed_lateness("7 days").accumulating().strategy
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=dm.Sum())
    return GroupingEngine(node)


def feed(engine: GroupingEngine, minutes: Iterable[int]) -> None:
    for number, minute in enumerate(minutes):
        windows = engine.strategy.window_fn.assign(dm.EventTime(minute * MINUTE), None)
        engine.element(BUSY, 1, minute * MINUTE, windows, of_row("in", number))


def calls_for(engine: GroupingEngine, minutes: Iterable[int]) -> int:
    profile = cProfile.Profile()
    profile.runcall(feed, engine, minutes)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined] # not in the stubs


def test_an_element_costs_the_same_with_a_hundred_and_with_two_thousand_open_sessions_of_its_key() -> None:
    costs = {}
    for sessions in (100, 2000):
        fn = CountingSessions("30 seconds")
        engine = engine_for(fn)
        order = random.Random(1).sample(range(0, 2 * sessions, 2), sessions)
        feed(engine, order)
        fn.shown.clear()
        costs[sessions] = calls_for(engine, range(1, 100, 2))
        assert engine.live_windows() == sessions + 50
        assert max(fn.shown) == 1
    assert costs[2000] < 1.2 * costs[100]


def test_windows_behind_the_watermark_are_not_visited_for_each_element_of_their_key() -> None:
    costs = {}
    for windows in (100, 2000):
        engine = engine_for(dm.FixedWindows("1 minute"))
        feed(engine, range(windows))
        engine.advance_watermarks(Watermarks(windows * MINUTE))
        costs[windows] = calls_for(engine, range(50))
        assert engine.live_windows() == windows
    assert costs[2000] < 1.2 * costs[100]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=40))
def test_sessions_found_by_their_order_equal_those_found_by_a_full_scan(steps: list[tuple[int, bool]]) -> None:
    """A step is an element at a minute, or a watermark at it; then the state goes through storage."""
    outputs = []
    for fn in (dm.Sessions("3 minutes"), SessionsShownEverything("3 minutes")):
        engine = engine_for(fn, dm.Repeatedly(dm.AfterCount(2)))
        for number, (minute, is_element) in enumerate(steps):
            if is_element:
                windows = fn.assign(dm.EventTime(minute * MINUTE), None)
                engine.element(BUSY, number, minute * MINUTE, windows, of_row("in", number))
            else:
                engine.advance_watermarks(Watermarks((minute - 7 * 24 * 60) * MINUTE))
                engine.settle()
        engine.advance_watermarks(MAX_WATERMARKS)
        output = engine.take_output()
        outputs.append((output.values, output.windows, output.panes))
    assert outputs[0] == outputs[1]


@given(st.sets(st.integers(0, 30)), st.integers(0, 40), st.integers(1, 10))
def test_searching_for_windows_that_meet_another_finds_those_that_intersect_it(
    starts: set[int], start: int, length: int
) -> None:
    windows = [interval(3 * at, 3 * at + 2 + at % 2) for at in sorted(starts)]
    cells = CellsInOrder({window: Cell(None) for window in windows[::2]})
    for window in windows:
        cells[window] = Cell(None)
    for window in windows[::3]:
        cells.pop(window)
    arriving = IntervalWindow(dm.EventTime(start), dm.EventTime(start + length))
    assert cells.meeting(arriving) == [window for window in sorted(cells, key=_start) if arriving.intersects(window)]


def test_the_state_of_a_key_is_stored_without_the_order_of_its_windows() -> None:
    engine = engine_for(dm.Sessions("30 seconds"))
    feed(engine, [3, 1, 2])
    stored = engine.settle()[encode_key(BUSY)]
    assert stored is not None
    assert type(pickle.loads(StoredKey.unpacked(stored).state).cells) is dict


def _start(window: Window) -> dm.EventTime:
    return window.start


def sums_of_sessions(times: Iterable[int], gap: int) -> list[tuple[int, int, int]]:
    """Return the start, the end and the number of elements of each session, by a plain loop."""
    sessions: list[tuple[int, int, int]] = []
    for time in sorted(times):
        if sessions and time < sessions[-1][1]:
            start, _, count = sessions.pop()
            sessions.append((start, time + gap, count + 1))
        else:
            sessions.append((time, time + gap, 1))
    return sessions


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("order", ["shuffled", "descending"])
def test_hundreds_of_sessions_of_a_key_that_arrive_out_of_order_are_found_and_merged(
    order: str, streaming: bool, tmp_path: Path
) -> None:
    times = [random.Random(seed).randrange(4_000) for seed in range(2_000)]
    if order == "descending":
        times.sort(reverse=True)
    panes = dm.Window.into(dm.Sessions(dm.Duration(micros=2))).trigger(dm.AfterWatermark(early=dm.AfterCount(2)))
    p = dm.Pipeline(dm.LocalRunner(checkpoint=str(tmp_path / "checkpoint")) if streaming else dm.LocalRunner())
    elements = p | dm.Create(
        [dm.TimestampedValue((number % 2, 1), dm.EventTime(time)) for number, time in enumerate(times)]
    )
    _ = elements | panes.accumulating() | dm.Sum.per_key() | "sums" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    last: dict[tuple[int, Window], int] = {}
    for record in result.collected("sums"):
        key, count = record.value
        last[key, record.window] = count
    actual = {(key, int(window.start), int(window.end), count) for (key, window), count in last.items()}
    expected = {(key, *session) for key in (0, 1) for session in sums_of_sessions(times[key::2], 2)}
    # The last pane of a window that was merged into another one stays in the output of early panes.
    assert expected <= actual
    assert sum(count for *_, count in expected) == len(times)
