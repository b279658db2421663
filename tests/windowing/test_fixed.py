"""Fixed windows: they tile event time."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime, duration, event_time
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow
from dataflow_model.windowing import FixedWindows, GlobalWindows

TIMES = st.integers(-(2**63), 2**63 - 1).map(EventTime) | st.integers(-10_000, 10_000).map(EventTime)
SIZES = st.builds(Duration, micros=st.integers(1, 1_000)) | st.builds(Duration, micros=st.integers(1, 2**62))
OFFSETS = st.builds(Duration, micros=st.integers(-2_000, 2_000)) | st.builds(
    Duration, micros=st.integers(-(2**62), 2**62)
)


def _only(fn: FixedWindows, time: EventTime, element: Any = None) -> IntervalWindow:
    (window,) = fn.assign(time, element)
    return window


@given(TIMES, SIZES, OFFSETS)
def test_a_fixed_window_contains_the_event_time_of_its_element(
    time: EventTime, size: Duration, offset: Duration
) -> None:
    window = _only(FixedWindows(size, offset), time)
    assert window.start <= time
    assert time < window.end or time == window.end == MAX_TIMESTAMP


@given(st.integers(-10_000, 10_000), SIZES, OFFSETS)
def test_fixed_windows_cover_event_time_without_gaps_or_overlaps(time: int, size: Duration, offset: Duration) -> None:
    fn = FixedWindows(size, offset)
    window = _only(fn, EventTime(time))
    assert window.end - window.start == size
    assert (int(window.start) - int(offset)) % int(size) == 0
    assert _only(fn, window.start) == _only(fn, window.max_timestamp) == window
    assert _only(fn, window.end).start == window.end
    assert _only(fn, EventTime(int(window.start) - 1)).end == window.start


@given(st.lists(TIMES, max_size=20), SIZES, OFFSETS)
@example([MIN_TIMESTAMP, MAX_TIMESTAMP, EventTime(0)], Duration(micros=7), Duration(micros=3))
def test_fixed_windows_are_assigned_alike_to_columns_and_rows(
    times: list[EventTime], size: Duration, offset: Duration
) -> None:
    fn = FixedWindows(size, offset)
    assigned = fn.assign_many(np.array(times, dtype=np.int64))
    assert assigned is not None
    row, starts, ends = assigned
    assert row is None
    assert starts.dtype == ends.dtype == np.int64
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [
        (int(window.start), int(window.end)) for time in times for window in fn.assign(time, None)
    ]


def test_event_times_before_the_epoch_round_down() -> None:
    window = _only(FixedWindows("1 hour"), EventTime(-1))
    assert window == IntervalWindow(event_time("1969-12-31T23:00Z"), EventTime(0))


def test_fixed_windows_end_at_both_infinities() -> None:
    fn = FixedWindows("1 hour")
    assert _only(fn, MIN_TIMESTAMP).start == MIN_TIMESTAMP
    assert _only(fn, MAX_TIMESTAMP).end == MAX_TIMESTAMP
    assert _only(fn, MAX_TIMESTAMP) == _only(fn, EventTime(int(MAX_TIMESTAMP) - 1))


def test_the_offset_of_fixed_windows_is_taken_modulo_the_size() -> None:
    assert FixedWindows("1 hour", "61 minutes") == FixedWindows("1 hour", "1 minute")
    assert FixedWindows("1 hour", "-1 minute") == FixedWindows("1 hour", "59 minutes")
    assert hash(FixedWindows("1 hour", "61 minutes")) == hash(FixedWindows("1 hour", "1 minute"))


def test_a_size_may_be_written_in_many_ways() -> None:
    assert FixedWindows(90) == FixedWindows("90 seconds") == FixedWindows(datetime.timedelta(seconds=90))


@pytest.mark.parametrize("size", [0, -1, "-1 hour"])
def test_a_size_that_is_not_positive_is_refused(size: Any) -> None:
    with pytest.raises(InvalidArgument, match="`size` must be positive, got Duration"):
        FixedWindows(size)


def test_text_that_is_not_a_duration_is_refused_as_size() -> None:
    with pytest.raises(InvalidArgument, match="'hourly' is not a duration"):
        FixedWindows("hourly")


@pytest.mark.parametrize(
    "fn",
    [
        FixedWindows("1 hour"),
        FixedWindows("90 seconds", "1 ms"),
        FixedWindows(Duration(micros=7), phase_shift=True),
        FixedWindows("1 hour", "1 minute", phase_shift=True),
        GlobalWindows(),
    ],
)
def test_the_repr_of_fixed_windows_evaluates_to_them(fn: object) -> None:
    assert eval(repr(fn)) == fn  # noqa: S307 - the repr under test
    assert pickle.loads(pickle.dumps(fn)) == fn


@given(TIMES, st.builds(Duration, micros=st.integers(1, 2**40)), OFFSETS, st.text())
def test_the_windows_of_a_shifted_key_contain_their_event_times(
    time: EventTime, size: Duration, offset: Duration, key: str
) -> None:
    window = _only(FixedWindows(size, offset, phase_shift=True), time, (key, None))
    assert window.start <= time
    assert time < window.end or time == window.end == MAX_TIMESTAMP


def test_a_phase_shift_spreads_the_keys_over_the_whole_size_and_is_stable() -> None:
    fn = FixedWindows("1 day", phase_shift=True)
    starts = [int(_only(fn, EventTime(0), (key, None)).start) for key in range(1_000)]
    assert len(set(starts)) > 990
    day = int(duration("1 day"))
    assert all(sum(-day * (part + 1) // 10 < start <= -day * part // 10 for start in starts) > 50 for part in range(10))
    assert starts[0] == int(_only(fn, EventTime(0), (0, "another value")).start)
    assert _only(fn, EventTime(0), ("UA", 1)) == IntervalWindow(
        EventTime(-int(duration("1 day")) + 37_760_238_316), EventTime(37_760_238_316)
    )


def test_only_shifted_windows_need_pairs() -> None:
    assert FixedWindows("1 hour", phase_shift=True).needs_pairs
    assert not FixedWindows("1 hour").needs_pairs
    assert FixedWindows("1 hour", phase_shift=True).assign_many(np.zeros(1, dtype=np.int64)) is None


@pytest.mark.parametrize("element", [5, "ab", (1,), (1, 2, 3), None])
def test_a_phase_shift_refuses_elements_that_are_not_pairs(element: Any) -> None:
    with pytest.raises(InvalidType, match=r"`phase_shift` need pairs, got .*\nHint: make pairs"):
        FixedWindows("1 hour", phase_shift=True).assign(EventTime(0), element)


def test_a_phase_shift_refuses_keys_that_have_no_encoding() -> None:
    with pytest.raises(KeyEncodingError):
        FixedWindows("1 hour", phase_shift=True).assign(EventTime(0), ([], 1))


@given(TIMES)
def test_the_global_window_contains_every_element(time: EventTime) -> None:
    assert GlobalWindows().assign(time, None) == (GLOBAL_WINDOW,)
    _, starts, ends = GlobalWindows().assign_many(np.array([time], dtype=np.int64))
    assert (starts.tolist(), ends.tolist()) == ([int(MIN_TIMESTAMP)], [int(MAX_TIMESTAMP)])
    assert not GlobalWindows().is_merging
    assert not GlobalWindows().needs_pairs
