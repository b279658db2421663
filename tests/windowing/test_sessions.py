"""Sessions: proto-windows that merge where they intersect."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime
from dataflow_model.values import IntervalWindow, Window
from dataflow_model.windowing import Sessions

if TYPE_CHECKING:
    import random

TIMES = st.lists(st.integers(-60, 60), min_size=1, max_size=25)
GAPS = st.integers(1, 15)


def _merged(fn: Sessions, windows: set[Window]) -> set[Window]:
    left = set(windows)
    for sources, target in fn.merge(sorted(windows, key=lambda window: (window.start, window.end))):
        left -= set(sources)
        left.add(target)
    return left


def _sessions(gap: int, times: list[int]) -> set[Window]:
    fn = Sessions(Duration(micros=gap))
    return _merged(fn, {window for time in times for window in fn.assign(EventTime(time), None)})


def _by_brute_force(gap: int, times: list[int]) -> set[Window]:
    """Cut the sorted event times wherever the next one is at least the gap away."""
    ordered = sorted(times)
    cuts = [0, *(index for index in range(1, len(ordered)) if ordered[index] - ordered[index - 1] >= gap), len(ordered)]
    runs = [ordered[start:end] for start, end in pairwise(cuts)]
    return {IntervalWindow(EventTime(run[0]), EventTime(run[-1] + gap)) for run in runs}


@given(TIMES, GAPS)
def test_sessions_are_the_runs_of_events_closer_than_the_gap(times: list[int], gap: int) -> None:
    assert _sessions(gap, times) == _by_brute_force(gap, times)


@given(TIMES, GAPS)
def test_merging_sessions_is_idempotent(times: list[int], gap: int) -> None:
    merged = _sessions(gap, times)
    assert _merged(Sessions(Duration(micros=gap)), merged) == merged


@given(TIMES, GAPS, st.randoms(use_true_random=False))
def test_merging_one_by_one_in_any_order_gives_the_same_sessions(
    times: list[int], gap: int, rng: random.Random
) -> None:
    fn = Sessions(Duration(micros=gap))
    rng.shuffle(times)
    windows: set[Window] = set()
    for time in times:
        windows = _merged(fn, {*windows, *fn.assign(EventTime(time), None)})
    assert windows == _by_brute_force(gap, times)


@given(TIMES, GAPS)
def test_only_sessions_that_change_are_reported_as_merged(times: list[int], gap: int) -> None:
    fn = Sessions(Duration(micros=gap))
    windows = sorted({fn.assign(EventTime(time), None)[0] for time in times}, key=lambda window: window.start)
    for sources, target in fn.merge(windows):
        assert len(sources) > 1
        assert target.start == min(source.start for source in sources)
        assert target.end == max(source.end for source in sources)


def test_events_exactly_one_gap_apart_are_two_sessions() -> None:
    assert len(_sessions(10, [0, 10])) == 2


def test_events_a_microsecond_closer_than_the_gap_are_one_session() -> None:
    assert _sessions(10, [0, 9]) == {IntervalWindow(EventTime(0), EventTime(19))}


def test_an_event_between_two_sessions_joins_them() -> None:
    assert len(_sessions(10, [0, 15])) == 2
    assert _sessions(10, [0, 15, 8]) == {IntervalWindow(EventTime(0), EventTime(25))}


def test_a_window_inside_a_longer_one_does_not_cut_it_short() -> None:
    long, inner, after = (IntervalWindow(EventTime(a), EventTime(b)) for a, b in ((0, 100), (10, 20), (50, 60)))
    assert [target for _, target in Sessions(Duration(micros=10)).merge([long, inner, after])] == [long]


def test_sessions_end_at_both_infinities() -> None:
    fn = Sessions("1 hour")
    assert fn.assign(MAX_TIMESTAMP, None)[0].end == MAX_TIMESTAMP
    assert fn.assign(EventTime(int(MAX_TIMESTAMP) - 5), None)[0].end == MAX_TIMESTAMP
    assert fn.assign(MIN_TIMESTAMP, None)[0].start == MIN_TIMESTAMP


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(1, 2**62))
def test_sessions_are_assigned_alike_to_columns_and_rows(times: list[int], gap: int) -> None:
    fn = Sessions(Duration(micros=gap))
    row, starts, ends = fn.assign_many(np.array(times, dtype=np.int64))
    windows = [fn.assign(EventTime(time), None)[0] for time in times]
    assert row is None
    assert starts.tolist() == [int(window.start) for window in windows]
    assert ends.tolist() == [int(window.end) for window in windows]


@pytest.mark.parametrize("gap", [0, -1, "0 s"])
def test_a_gap_that_is_not_positive_is_refused(gap: Any) -> None:
    with pytest.raises(InvalidArgument, match="`gap` must be positive, got Duration"):
        Sessions(gap)


def test_the_repr_of_sessions_evaluates_to_them() -> None:
    assert repr(Sessions(60)) == "Sessions('1 minute')"
    assert Sessions(60).is_merging
