"""Windows as values: bounds, equality, intersection."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, ProcessingTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, GlobalWindow, IntervalWindow, Pane, PaneTiming, Window

TIMES = st.integers(-50, 50)


def _window(start: int, end: int) -> IntervalWindow:
    return IntervalWindow(EventTime(start), EventTime(end))


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (2**63 - 1, 2**63 - 1)])
def test_an_empty_window_is_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidArgument, match="must end after it starts"):
        _window(start, end)


@given(TIMES, st.integers(1, 50), TIMES, st.integers(1, 50))
def test_windows_intersect_just_when_they_share_an_instant(start: int, size: int, other: int, other_size: int) -> None:
    first, second = _window(start, start + size), _window(other, other + other_size)
    shared = set(range(start, start + size)) & set(range(other, other + other_size))
    assert first.intersects(second) == second.intersects(first) == bool(shared)


def test_windows_that_touch_do_not_intersect() -> None:
    assert not _window(0, 10).intersects(_window(10, 20))


def test_the_last_instant_of_a_window_is_one_microsecond_before_its_end() -> None:
    assert _window(0, 10).max_timestamp == EventTime(9)
    assert _window(0, int(MAX_TIMESTAMP)).max_timestamp == EventTime(int(MAX_TIMESTAMP) - 1)
    assert GLOBAL_WINDOW.max_timestamp == EventTime(int(MAX_TIMESTAMP) - 1)


def test_windows_are_values() -> None:
    assert _window(0, 10) == _window(0, 10)
    assert len({_window(0, 10), _window(0, 10), _window(0, 11)}) == 2
    assert pickle.loads(pickle.dumps(_window(0, 10))) == _window(0, 10)
    assert pickle.loads(pickle.dumps(GLOBAL_WINDOW)) == GlobalWindow() == GLOBAL_WINDOW


def test_the_interval_of_all_time_is_not_the_global_window() -> None:
    everything: Window = IntervalWindow(MIN_TIMESTAMP, MAX_TIMESTAMP)
    assert everything != GLOBAL_WINDOW


def test_both_kinds_keep_the_protocol() -> None:
    assert isinstance(GLOBAL_WINDOW, Window)
    assert isinstance(_window(0, 1), Window)
    assert not isinstance("window", Window)


def test_a_pane_is_a_value_with_the_clock_at_its_start() -> None:
    pane = Pane(key="k", window=GLOBAL_WINDOW, value=1, timestamp=EventTime(0), info=NO_FIRING)
    assert pane.processing_time == ProcessingTime(0)
    assert pane.info.timing is PaneTiming.UNKNOWN
    assert repr(pane.info.timing) == "UNKNOWN"
    assert pickle.loads(pickle.dumps(pane)) == pane
