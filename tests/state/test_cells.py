"""What is kept of a key and window."""

from __future__ import annotations

import pickle

from dataflow_model.runners.engine.stateful_cells import PendingTimer, StateCell, TimerSet


def test_a_cell_that_was_pickled_by_attribute_can_be_read() -> None:
    timers = TimerSet({("flush", ""): PendingTimer(5, 5, 1)})
    stored = {"values": {"count": 3}, "event_timers": timers, "clock_timers": TimerSet(), "waiting": [], "count": 1}
    cell = StateCell.__new__(StateCell)
    cell.__setstate__(stored | {"holds": {}})
    assert (cell.values, cell.count, cell.event_timers.first()) == ({"count": 3}, 1, 5)
    assert cell.is_open


def test_a_removed_or_marked_cell_is_stored_like_any_other() -> None:
    cell = StateCell({"count": 3})
    stored = pickle.dumps(cell)
    cell.is_open, cell.is_marked = False, True
    assert pickle.dumps(cell) == stored
    assert pickle.loads(stored).is_open
