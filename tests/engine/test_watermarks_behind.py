"""The watermark of a bounded job, behind which no element is."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.grouping.placing import watermarks_behind
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.values import interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def elements(times: Sequence[int], bounds: Sequence[Sequence[tuple[int, int]]]) -> Bundle:
    windows = [tuple(interval(*each) for each in several) for several in bounds]
    return Bundle(values=[("k", 0)] * len(times), times=list(times), windows=windows)


def test_it_follows_elements_that_are_in_their_windows() -> None:
    bundle = elements([1, 5, 9, 2], [[(0, 10)], [(0, 10), (5, 6)], [(0, 10)], [(0, 10)]])
    assert watermarks_behind(bundle, [0, 3]).tolist() == [1, 5, 9, 2]


def test_it_stays_before_a_window_that_ends_before_a_later_element_of_the_key() -> None:
    bundle = elements([1, 5, 9, 2], [[(0, 10)], [(0, 10)], [(0, 10), (2, 4)], [(0, 10)]])
    assert watermarks_behind(bundle, [0, 3]).tolist() == [1, 2, 2, 2]


@given(st.data())
def test_it_never_goes_back_nor_passes_a_window_of_an_element_of_the_key(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6).map(sorted), min_size=1, max_size=3))
    bound = st.tuples(st.integers(-20, 30), st.integers(1, 10)).map(lambda pair: (pair[0], sum(pair)))
    bounds = [data.draw(st.lists(bound, min_size=1, max_size=2)) for key in keys for _ in key]
    firsts = [sum(map(len, keys[:number])) for number in range(len(keys))]
    times = [time for key in keys for time in key]
    reached = watermarks_behind(elements(times, bounds), firsts).tolist()
    for first, until in pairwise([*firsts, len(times)]):
        assert reached[first:until] == sorted(reached[first:until])
        for row in range(first, until):
            assert reached[row] <= times[row]
            ended = [end for later in range(row, until) for _, end in bounds[later] if end <= times[later]]
            assert all(reached[row] < end - 1 for end in ended)
