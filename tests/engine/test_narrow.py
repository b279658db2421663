"""Narrow integers take few bytes, and are read as they were."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.lanes.ipc import from_ipc, to_ipc, to_narrow_ipc
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals
from dataflow_model.runners.engine.lanes.narrow import narrowed, widened
from dataflow_model.runners.engine.lanes.order_lanes import RowOrders
from dataflow_model.runners.engine.lanes.value_lanes import Pairs
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from dataflow_model.runners.engine.lanes.lanes import Lane

_WORDS = st.integers(-(2**63), 2**63 - 1)
_RANGES = st.sampled_from([0, 1, 255, 256, 2**16, 2**32 - 1, 2**32, 2**63])


@st.composite
def arrays(draw: DrawFn) -> Any:
    """Draw 64-bit integers in any range, few of them and many."""
    first, width = draw(_WORDS), draw(_RANGES)
    last = min(first + width, 2**63 - 1)
    drawn = draw(st.lists(st.integers(first, last), max_size=4))
    return np.array([first, last, *drawn] * draw(st.sampled_from([0, 1, 40])), np.int64)


@given(arrays())
def test_narrowed_integers_are_widened_to_the_original_values(numbers: Any) -> None:
    restored = widened(*narrowed(numbers))
    assert restored.dtype == np.int64
    assert restored.tolist() == numbers.tolist()


@given(arrays(), st.booleans())
def test_a_narrowed_table_is_read_back_unchanged(numbers: Any, has_null: bool) -> None:
    others = pa.array([None if has_null else 7, *range(len(numbers))][: len(numbers)], pa.int64())
    columns = {"n": pa.array(numbers), "other": others, "real": pa.array(numbers.astype(float))}
    table = pa.table(columns).replace_schema_metadata({"kept": "as it is"})
    restored = from_ipc(to_narrow_ipc(table))
    assert restored.equals(table)
    assert restored.schema.equals(table.schema, check_metadata=True)


def _lanes(numbers: Any) -> list[Lane[Any]]:
    rows = RowOrders(("b", "a"), np.abs(numbers % 2), numbers).between((1,), (-1,))
    numbered = RowOrders.of_origin("a", numbers).numbered(np.arange(len(numbers)))
    assert numbered is not None
    column = pa.chunked_array([pa.array(numbers)])
    return [Integers(numbers), Intervals(numbers, numbers + 60), rows, numbered, Pairs(column, column)]


@given(st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=3), st.sampled_from([1, 100]))
def test_the_pickle_and_the_copy_of_a_lane_have_the_same_content(few: list[int], times: int) -> None:
    for lane in _lanes(np.array(few * times, np.int64)):
        assert list(load(dump_compact(lane))) == list(lane)
        assert list(copy.copy(lane)) == list(lane)


def test_the_global_window_survives_its_pickle() -> None:
    starts, ends = np.full(100, int(MIN_TIMESTAMP)), np.full(100, int(MAX_TIMESTAMP))
    windows = Intervals(starts, ends, is_global=True)
    assert load(dump_compact(windows)) == windows


@pytest.mark.parametrize("index", range(5))
def test_integers_that_are_close_together_take_few_bytes(index: int) -> None:
    lane = _lanes(np.arange(10_000) + 1_700_000_000_000_000)[index]
    assert len(dump_compact(lane)) < 5 * len(lane)


def test_a_lane_that_was_pickled_whole_can_still_be_read() -> None:
    class Whole:
        def __reduce__(self) -> Any:  # as the class itself was pickled by default
            return object.__new__, (Integers,), {"array": np.arange(3)}

    restored = pickle.loads(pickle.dumps(Whole()))
    assert isinstance(restored, Integers)
    assert list(restored) == [0, 1, 2]


def test_arrow_data_that_was_not_narrowed_can_be_read() -> None:
    table = pa.table({"n": range(1_000)})
    assert from_ipc(to_ipc(table)).equals(table)
