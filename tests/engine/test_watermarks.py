"""The algebra of watermarks: what taking minima, holding and advancing them have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, MIN_WATERMARKS, Watermarks

MIN, MAX = int(dm.MIN_TIMESTAMP), int(dm.MAX_TIMESTAMP)
TIMES = st.one_of(st.integers(-9, 9), st.sampled_from([MIN, MAX]))
HIGHEST = 4
"""How many percentiles are compared; none of the values drawn has more."""


@st.composite
def watermarks(draw: st.DrawFn) -> Watermarks:
    """Draw watermarks of which the lower percentiles are further ahead; some leave out the last ones, or all."""
    low, *others = sorted(draw(st.lists(TIMES, min_size=1, max_size=1 + HIGHEST)))
    return Watermarks(low, tuple(reversed(others)))


def values(of: Watermarks) -> tuple[int, ...]:
    return of.low, *of.further(HIGHEST)


def is_ordered(of: Watermarks) -> bool:
    return of.percentiles == tuple(sorted(of.percentiles, reverse=True)) and all(at >= of.low for at in of.percentiles)


ANY = watermarks()


@given(ANY, ANY, ANY)
def test_the_minimum_does_not_depend_on_order_or_grouping(
    first: Watermarks, second: Watermarks, third: Watermarks
) -> None:
    assert first.min(second) == second.min(first)
    assert first.min(second).min(third) == first.min(second.min(third)) == Watermarks.least([third, first, second])


@given(ANY, ANY, ANY)
def test_advancing_does_not_depend_on_order_or_grouping(
    first: Watermarks, second: Watermarks, third: Watermarks
) -> None:
    assert values(first.advance(second)) == values(second.advance(first))
    assert values(first.advance(second).advance(third)) == values(first.advance(second.advance(third)))


@given(ANY, ANY)
def test_minimum_and_advance_apply_to_each_percentile_separately(first: Watermarks, second: Watermarks) -> None:
    assert values(first.min(second)) == tuple(map(min, values(first), values(second)))
    assert values(first.advance(second)) == tuple(map(max, values(first), values(second)))


@given(ANY)
def test_the_ends_of_time_are_neutral_for_minimum_and_advance(first: Watermarks) -> None:
    assert first.min(MAX_WATERMARKS) == MAX_WATERMARKS.min(first) == first
    assert first.advance(MIN_WATERMARKS) == first
    assert values(MIN_WATERMARKS.advance(first)) == values(first)
    assert Watermarks.least([]) == MAX_WATERMARKS


@given(ANY, ANY)
def test_a_watermark_that_does_not_advance_is_the_same_object(first: Watermarks, second: Watermarks) -> None:
    assert first.advance(first.min(second)) is first
    moved = first.advance(second)
    assert (moved is first) == (values(moved) == values(first))


@given(ANY, ANY, TIMES, st.integers(0, 9))
def test_no_operation_puts_a_percentile_behind_a_higher_one(
    first: Watermarks, second: Watermarks, hold: int, back: int
) -> None:
    for result in (first.min(second), first.advance(second), first.held(hold), first.less(back)):
        assert is_ordered(result)


@given(TIMES, st.lists(TIMES, max_size=HIGHEST))
def test_a_percentile_that_is_reported_too_low_is_at_the_low_watermark(low: int, further: list[int]) -> None:
    assert Watermarks.of(low, further).percentiles == tuple(max(low, at) for at in further)


@given(ANY, ANY, TIMES, st.integers(0, 9))
def test_holding_a_watermark_is_monotone_and_never_moves_it_ahead(
    first: Watermarks, second: Watermarks, hold: int, back: int
) -> None:
    later = first.advance(second)
    for before, after, now in (
        (first.held(hold), later.held(hold), first),
        (first.less(back), later.less(back), first),
    ):
        assert all(map(int.__le__, values(before), values(after)))
        assert all(map(int.__le__, values(before), values(now)))


@given(ANY, TIMES)
def test_holding_a_watermark_takes_the_minimum_with_the_hold(first: Watermarks, hold: int) -> None:
    assert first.held(hold) == first.min(Watermarks(hold))


@given(st.integers(0, 9))
def test_delaying_does_not_move_the_ends_of_time(back: int) -> None:
    assert MIN_WATERMARKS.less(back) == MIN_WATERMARKS
    assert MAX_WATERMARKS.less(back) == MAX_WATERMARKS
