"""Windows as values: bounds, equality, intersection."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, ProcessingTime, processing_time
from dataflow_model.values import (
    GLOBAL_WINDOW,
    NO_FIRING,
    GlobalWindow,
    IntervalWindow,
    Pane,
    PaneTiming,
    Window,
    encode_key,
)

TIMES = st.integers(-50, 50)


def _window(start: int, end: int) -> IntervalWindow:
    return IntervalWindow(EventTime(start), EventTime(end))


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (2**63 - 1, 2**63 - 1)])
def test_an_empty_window_is_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidArgument, match="must end after it starts"):
        _window(start, end)


@attrs.frozen(repr=False)
class Numbered(IntervalWindow):
    number: int = 0


MINUTE = (EventTime(1_704_067_200_000_000), EventTime(1_704_067_260_000_000))


@pytest.mark.parametrize(
    "bounds",
    [
        (1704067200, 1704067260.0),
        ("2024-01-01T00:00Z", "2024-01-01T01:01+01:00"),
        tuple(datetime.datetime(2024, 1, 1, 0, minute, tzinfo=datetime.UTC) for minute in range(2)),
    ],
    ids=["seconds", "text", "datetimes"],
)
def test_the_bounds_of_a_window_are_given_as_any_instants(bounds: tuple[Any, Any]) -> None:
    for window, same in (
        (IntervalWindow(*bounds), IntervalWindow(*MINUTE)),
        (Numbered(*bounds, number=5), Numbered(*MINUTE, number=5)),
    ):
        assert (window.start, window.end) == MINUTE
        assert type(window.start) is type(window.end) is EventTime
        assert window == same == pickle.loads(pickle.dumps(window))
        assert encode_key(window) == encode_key(same)


@pytest.mark.parametrize(
    ("bounds", "error", "problem"),
    [
        ((processing_time(5), processing_time(6)), InvalidType, "expected an event time, got the processing time"),
        ((0, None), InvalidType, "an instant must be a datetime, seconds since the epoch or text, got None"),
        ((int(MINUTE[0]), int(MINUTE[1])), InvalidArgument, "divide milliseconds by 1_000, and microseconds by"),
        (("2024-01-01", "2024-01-02"), InvalidArgument, "an instant needs a time zone, got '2024-01-01'"),
    ],
)
def test_the_bounds_of_a_window_must_be_instants(bounds: tuple[Any, Any], error: type[Exception], problem: str) -> None:
    for kind in (IntervalWindow, Numbered):
        with pytest.raises(error, match=problem):
            kind(*bounds)


@given(TIMES, st.integers(1, 50), TIMES, st.integers(1, 50))
def test_windows_intersect_if_and_only_if_they_share_an_instant(
    start: int, size: int, other: int, other_size: int
) -> None:
    first, second = _window(start, start + size), _window(other, other + other_size)
    shared = set(range(start, start + size)) & set(range(other, other + other_size))
    assert first.intersects(second) == second.intersects(first) == bool(shared)


def test_windows_that_touch_do_not_intersect() -> None:
    assert not _window(0, 10).intersects(_window(10, 20))


def test_the_last_instant_of_a_window_is_one_microsecond_before_its_end() -> None:
    assert _window(0, 10).max_timestamp == EventTime(9)
    assert _window(0, int(MAX_TIMESTAMP)).max_timestamp == EventTime(int(MAX_TIMESTAMP) - 1)
    assert GLOBAL_WINDOW.max_timestamp == EventTime(int(MAX_TIMESTAMP) - 1)


def test_windows_can_be_compared_hashed_and_pickled() -> None:
    assert _window(0, 10) == _window(0, 10)
    assert len({_window(0, 10), _window(0, 10), _window(0, 11)}) == 2
    assert pickle.loads(pickle.dumps(_window(0, 10))) == _window(0, 10)
    assert pickle.loads(pickle.dumps(GLOBAL_WINDOW)) == GlobalWindow() == GLOBAL_WINDOW


def test_the_interval_of_all_time_is_not_the_global_window() -> None:
    everything: Window = IntervalWindow(MIN_TIMESTAMP, MAX_TIMESTAMP)
    assert everything != GLOBAL_WINDOW


def test_both_classes_of_windows_satisfy_the_protocol() -> None:
    assert isinstance(GLOBAL_WINDOW, Window)
    assert isinstance(_window(0, 1), Window)
    assert not isinstance("window", Window)


def test_a_pane_can_be_compared_and_pickled_and_has_a_default_processing_time() -> None:
    pane = Pane(key="k", window=GLOBAL_WINDOW, value=1, timestamp=EventTime(0), info=NO_FIRING)
    assert pane.processing_time == ProcessingTime(0)
    assert pane.info.timing is PaneTiming.UNKNOWN
    assert repr(pane.info.timing) == "UNKNOWN"
    assert pickle.loads(pickle.dumps(pane)) == pane
