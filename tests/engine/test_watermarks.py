"""The algebra of watermarks: what taking minima, holding and advancing them have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.watermarks import MAX_WATERMARKS, MIN_WATERMARKS, Watermarks

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
def test_the_minimum_does_not_depend_on_order_or_grouping(one: Watermarks, two: Watermarks, three: Watermarks) -> None:
    assert one.min(two) == two.min(one)
    assert one.min(two).min(three) == one.min(two.min(three)) == Watermarks.least([three, one, two])


@given(ANY, ANY, ANY)
def test_advancing_does_not_depend_on_order_or_grouping(one: Watermarks, two: Watermarks, three: Watermarks) -> None:
    assert values(one.advance(two)) == values(two.advance(one))
    assert values(one.advance(two).advance(three)) == values(one.advance(two.advance(three)))


@given(ANY, ANY)
def test_minimum_and_advance_are_component_by_component(one: Watermarks, two: Watermarks) -> None:
    assert values(one.min(two)) == tuple(map(min, values(one), values(two)))
    assert values(one.advance(two)) == tuple(map(max, values(one), values(two)))


@given(ANY)
def test_the_ends_of_time_are_neutral(one: Watermarks) -> None:
    assert one.min(MAX_WATERMARKS) == MAX_WATERMARKS.min(one) == one
    assert one.advance(MIN_WATERMARKS) == one
    assert values(MIN_WATERMARKS.advance(one)) == values(one)
    assert Watermarks.least([]) == MAX_WATERMARKS


@given(ANY, ANY)
def test_what_does_not_advance_is_the_same_object(one: Watermarks, two: Watermarks) -> None:
    assert one.advance(one.min(two)) is one
    moved = one.advance(two)
    assert (moved is one) == (values(moved) == values(one))


@given(ANY, ANY, TIMES, st.integers(0, 9))
def test_no_operation_puts_a_percentile_behind_a_higher_one(
    one: Watermarks, two: Watermarks, hold: int, back: int
) -> None:
    for result in (one.min(two), one.advance(two), one.held(hold), one.less(back)):
        assert is_ordered(result)


@given(TIMES, st.lists(TIMES, max_size=HIGHEST))
def test_a_percentile_that_is_reported_too_low_is_at_the_low_watermark(low: int, further: list[int]) -> None:
    assert Watermarks.of(low, further).percentiles == tuple(max(low, at) for at in further)


@given(ANY, ANY, TIMES, st.integers(0, 9))
def test_holding_is_monotone_and_never_ahead(one: Watermarks, two: Watermarks, hold: int, back: int) -> None:
    later = one.advance(two)
    for before, after, now in ((one.held(hold), later.held(hold), one), (one.less(back), later.less(back), one)):
        assert all(map(int.__le__, values(before), values(after)))
        assert all(map(int.__le__, values(before), values(now)))


@given(ANY, TIMES)
def test_a_hold_is_the_minimum_with_it(one: Watermarks, hold: int) -> None:
    assert one.held(hold) == one.min(Watermarks(hold))


@given(st.integers(0, 9))
def test_no_delay_moves_the_ends_of_time(back: int) -> None:
    assert MIN_WATERMARKS.less(back) == MIN_WATERMARKS
    assert MAX_WATERMARKS.less(back) == MAX_WATERMARKS
