"""Sorting digit by digit gives what NumPy's own sorting by several keys gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.runners.engine.lanes.radix import in_order_of

_FIRST = st.sampled_from([-(2**63), -5, 0, 1_700_000_000_000_000])
_RANGES = [1, 2, 2**16 - 1, 2**16, 2**16 + 1, 2**31, 2**48, 2**63 - 1]


@given(
    st.lists(
        st.tuples(_FIRST, st.sampled_from(_RANGES)),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 40),
    st.integers(0, 2**32 - 1),
)
@example([(-(2**63), 2**63 - 1), (0, 2**63 - 1)], 40, 0)
def test_the_radix_sort_orders_rows_by_key_and_is_stable(ranges: list[tuple[int, int]], rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = [first + random.integers(0, width, rows) for first, width in ranges]
    for some in (keys, [key[random.integers(0, max(rows // 2, 1), rows)] for key in keys] if rows else keys):
        assert in_order_of(*some).tolist() == np.lexsort(some).tolist()


def test_the_radix_sort_handles_the_whole_range_of_integers() -> None:
    key = np.array([2**63 - 1, -(2**63), 0, -1])
    assert in_order_of(key).tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("count", [0, 1])
def test_the_radix_sort_handles_few_rows(count: int) -> None:
    assert in_order_of(np.zeros(count, np.int64)).tolist() == list(range(count))
