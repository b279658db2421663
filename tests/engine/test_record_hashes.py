"""Hashes of record ids: the same however the orders are stored, and spread evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.order_lanes import RowOrders
from dataflow_model.runners.engine.lanes.record_ids import record_hashes, record_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPELINE = dm.Pipeline()
_ = PIPELINE | dm.Create([1])
PLAN = PIPELINE.plan()


def hashes(orders: Any, causes: Sequence[int]) -> list[int]:
    """Return the hashes of elements that have been made of records with these orders."""
    return list(map(int, record_hashes(PLAN, "Create", bundle(orders), causes)))


def bundle(orders: Any) -> Bundle:
    """Return a source's bundle with these orders."""
    return Bundle.fresh([None] * len(orders), [0] * len(orders), orders, 0)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2**62)), min_size=1), st.data())
def test_hashes_of_records_depend_only_on_the_record_id(records: list[tuple[str, int]], data: st.DataObject) -> None:
    causes = sorted(data.draw(st.lists(st.integers(0, len(records) - 1))))
    names, sequences = zip(*records, strict=True)
    lane = RowOrders(("b", "a"), np.array([name == "a" for name in names], np.int64), np.array(sequences))
    of_lane, of_list = hashes(lane, causes), hashes(records, causes)
    assert of_lane == of_list
    assert all(0 <= hashed < 2**32 for hashed in of_lane)
    ids = list(record_ids(PLAN, "Create", bundle(records), causes))
    assert len(set(zip(ids, of_lane, strict=True))) == len(set(ids))
    assert hashes(lane, range(len(records))) == hashes(lane, list(range(len(records))))


def test_rows_of_dataframes_have_hashes_whatever_their_sequence_column_contains() -> None:
    numbers = np.array([-(2**63), -5, 3, 2**63 - 1])
    orders = [("a", int(number)) for number in numbers]
    assert hashes(orders, [0, 1, 2, 3]) == hashes(RowOrders(("a",), np.zeros(4, np.int64), numbers), [0, 1, 2, 3])
    assert len({*hashes([("a", "x"), ("a", "y"), ("a", None), ("a", 2**70)], [0, 1, 2, 3])}) == 4


@pytest.mark.parametrize("fanout", [2, 3, 16, 100])
@pytest.mark.parametrize("step", [1, 16, 2**20, 10_007])
def test_hashes_spread_records_evenly_whatever_their_distance(fanout: int, step: int) -> None:
    orders = RowOrders.of_origin("a", np.arange(4_000) * step)
    sizes = np.bincount(np.array(hashes(orders, list(range(4_000)))) % fanout, minlength=fanout)
    expected = 4_000 / fanout
    assert np.abs(sizes - expected).max() < 5 * expected**0.5 + 1


def test_hashes_spread_the_elements_of_one_record() -> None:
    of_one = np.array(hashes([("a", 7)], [0] * 4_000)) % 16
    assert np.abs(np.bincount(of_one, minlength=16) - 250).max() < 80
