"""Sliding windows: how many an element is in, and which."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime, event_time
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import FixedWindows, SlidingWindows

TIMES = st.integers(-(2**63), 2**63 - 1).map(EventTime) | st.integers(-1_000, 1_000).map(EventTime)
NEAR = st.integers(-1_000, 1_000).map(EventTime)
LENGTHS = st.builds(Duration, micros=st.integers(1, 60))
OFFSETS = st.builds(Duration, micros=st.integers(-100, 100))


@given(NEAR, LENGTHS, LENGTHS, OFFSETS)
def test_an_element_is_in_exactly_the_sliding_windows_that_contain_its_event_time(
    time: EventTime, size: Duration, period: Duration, offset: Duration
) -> None:
    starts = [start for start in range(-1_400, 1_400) if (start - int(offset)) % int(period) == 0]
    expected = [
        IntervalWindow(EventTime(start), EventTime(start + int(size)))
        for start in starts
        if start <= int(time) < start + int(size)
    ]
    assert list(SlidingWindows(size, period, offset).assign(time, None)) == expected


@given(TIMES, LENGTHS, LENGTHS, OFFSETS)
def test_an_element_is_in_about_size_by_period_windows(
    time: EventTime, size: Duration, period: Duration, offset: Duration
) -> None:
    count = len(SlidingWindows(size, period, offset).assign(time, None))
    assert int(size) // int(period) <= count <= math.ceil(int(size) / int(period))


@given(TIMES, st.integers(1, 20), LENGTHS, OFFSETS)
def test_an_element_is_in_exactly_as_many_windows_as_periods_fit(
    time: EventTime, times: int, period: Duration, offset: Duration
) -> None:
    assert len(SlidingWindows(period * times, period, offset).assign(time, None)) == times


@given(st.lists(TIMES, max_size=20), LENGTHS | st.builds(Duration, micros=st.integers(1, 2**62)), LENGTHS, OFFSETS)
@example([MIN_TIMESTAMP, EventTime(0), MAX_TIMESTAMP], Duration(micros=10), Duration(micros=3), Duration(micros=1))
@example([EventTime(12), EventTime(3)], Duration(micros=5), Duration(micros=10), Duration(0))
def test_sliding_windows_are_assigned_alike_to_columns_and_rows(
    times: list[EventTime], size: Duration, period: Duration, offset: Duration
) -> None:
    # At most 60 windows to an element: a period of a microsecond under a size of years would never end.
    fn = SlidingWindows(size, max(period, Duration(micros=int(size) // 60 + 1)), offset)
    row, starts, ends = fn.assign_many(np.array(times, dtype=np.int64))
    rows = range(len(times)) if row is None else row.tolist()
    assert list(zip(rows, starts.tolist(), ends.tolist(), strict=True)) == [
        (index, int(window.start), int(window.end))
        for index, time in enumerate(times)
        for window in fn.assign(time, None)
    ]


@given(NEAR, LENGTHS, OFFSETS)
def test_windows_that_slide_by_their_size_are_fixed_windows(time: EventTime, size: Duration, offset: Duration) -> None:
    assert SlidingWindows(size, size, offset).assign(time, None) == FixedWindows(size, offset).assign(time, None)


def test_an_element_in_the_gap_between_windows_is_in_none() -> None:
    fn = SlidingWindows("1 minute", "1 hour")
    assert fn.assign(event_time("2013-01-01T10:00:59.999999Z"), None) != ()
    assert fn.assign(event_time("2013-01-01T10:01Z"), None) == ()
    assert fn.assign(EventTime(-1), None) == ()


def test_sliding_windows_end_at_both_infinities() -> None:
    fn = SlidingWindows("2 hours", "1 hour")
    assert [window.start for window in fn.assign(MIN_TIMESTAMP, None)] == [MIN_TIMESTAMP, MIN_TIMESTAMP]
    assert [window.end for window in fn.assign(MAX_TIMESTAMP, None)][-1] == MAX_TIMESTAMP


@pytest.mark.parametrize(
    ("size", "period", "name"), [(0, 1, "size"), (-1, 1, "size"), (1, 0, "period"), (1, "-1 second", "period")]
)
def test_lengths_that_are_not_positive_are_refused(size: Any, period: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"`{name}` must be positive, got Duration"):
        SlidingWindows(size, period)


def test_the_offset_of_sliding_windows_is_taken_modulo_the_period() -> None:
    assert SlidingWindows("1 hour", "10 minutes", "-1 minute") == SlidingWindows("1 hour", "10 minutes", "9 minutes")


@pytest.mark.parametrize("fn", [SlidingWindows("1 hour", "10 minutes"), SlidingWindows(90, 0.5, "1 ms")])
def test_the_repr_of_sliding_windows_evaluates_to_them(fn: SlidingWindows) -> None:
    assert eval(repr(fn)) == fn  # noqa: S307 - the repr under test
