"""What is kept of a key and window."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.state.stateful_cells import (
    Arrived,
    Hold,
    KeyCells,
    PendingTimer,
    StateCell,
    TimerSet,
)
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, interval


def test_the_stored_form_of_a_key_does_not_depend_on_marks_of_its_cells() -> None:
    cell = StateCell({"count": 3})
    keyed = KeyCells("key", {GLOBAL_WINDOW: cell})
    stored = pickle.dumps(keyed)
    cell.is_open, cell.is_marked = False, True
    assert pickle.dumps(keyed) == stored
    assert pickle.loads(stored).cells[GLOBAL_WINDOW].is_open


def stored(keyed: KeyCells) -> dict[Any, tuple[Any, ...]]:
    """Return what is stored of each window of a key."""
    return {window: cell.contents() for window, cell in keyed.cells.items()}


@pytest.mark.parametrize(
    "cell",
    [
        StateCell(),
        StateCell({"count": 3}),
        StateCell(event_timers=TimerSet({("flush", ""): PendingTimer(5, 5, 1)}), count=1),
        StateCell({"count": 3}, holds={"hold": Hold(4, None)}),
    ],
    ids=["empty", "values", "a timer", "a hold"],
)
def test_the_windows_of_a_key_are_stored_and_restored(cell: StateCell) -> None:
    keyed = KeyCells("key", {GLOBAL_WINDOW: cell, interval(0, 60): StateCell({"count": 1})})
    loaded = pickle.loads(pickle.dumps(keyed))
    assert (loaded.key, stored(loaded)) == ("key", stored(keyed))
    assert loaded.cells[GLOBAL_WINDOW].event_timers.first() == cell.event_timers.first()
    loaded.cells[GLOBAL_WINDOW].values["other"] = 1  # nothing is shared with other cells
    assert "other" not in StateCell().values


@given(
    st.lists(st.tuples(st.sampled_from(["set", "clear", "fire"]), st.integers(0, 20), st.none() | st.integers(0, 9)))
)
def test_the_hold_of_timers_is_the_earliest_of_the_set_timers(steps: list[tuple[str, int, int | None]]) -> None:
    cell = StateCell()
    for number, (step, tag, hold) in enumerate(steps):
        if step == "set":
            cell.event_timers.set(("flush", str(tag)), PendingTimer(tag, tag, number, hold))
        elif step == "clear":
            cell.event_timers.clear(("flush", str(tag)))
        elif cell.event_timers.first() is not None:
            cell.event_timers.pop()
        holds = [timer.hold for timer in cell.event_timers.pending.values() if timer.hold is not None]
        assert cell.hold() == min(holds, default=None)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_the_hold_of_waiting_elements_is_their_earliest_event_time(times: list[int]) -> None:
    cell = StateCell()
    for time in times:
        cell.wait(min(time, 6), Arrived("element", time, NO_FIRING, 0))  # the window ends after 6
    assert cell.hold() == min(times)


class Watched(dict[Any, Any]):
    """Timers that count how often all of them are looked at."""

    looked_at = 0

    def values(self) -> Any:
        self.looked_at += len(self)
        return super().values()

    def items(self) -> Any:
        self.looked_at += len(self)
        return super().items()


def test_updating_the_hold_of_many_timers_does_not_visit_all_of_them() -> None:
    timers = TimerSet(Watched())
    for number in range(1000):
        timers.set(("flush", str(number)), PendingTimer(number, number, number, number))
        assert timers.hold() == 0
    for number in range(1000):
        assert timers.hold() == number
        timers.pop()
    assert timers.pending.looked_at < 200  # type: ignore[attr-defined] # which `Watched` has
