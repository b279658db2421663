"""Compact pickles restore what they were made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataflow_model.runners.engine.lanes.lanes import Integers
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.values.pickles import load


@pytest.mark.parametrize(
    "array",
    [
        np.arange(100, dtype=np.int32),
        np.arange(100, dtype=np.float64),
        np.arange(100, dtype=">i8"),
        np.arange(100).reshape(10, 10),
        np.arange(200)[::2],
        np.array([], np.int64),
        np.array(["a", None], object),
    ],
)
def test_arrays_of_other_types_are_restored_unchanged(array: Any) -> None:
    restored = load(dump_compact(array))
    assert restored.dtype == array.dtype
    assert restored.tolist() == array.tolist()


def test_columns_that_share_an_array_share_it_after_pickling() -> None:
    clocks = 1_800_000_000_000_000 + np.arange(50_000) * 7
    lanes = Integers(clocks), InstantLane(clocks, np.zeros(50_000, np.int64))
    pickled = dump_compact(lanes)
    assert len(pickled) < 50_000 * 4 + 1_000
    ticks, instants = load(pickled)
    assert ticks.array is instants.clocks
    assert ticks == lanes[0]
    assert instants == lanes[1]


def test_functions_without_an_importable_name_are_pickled_by_value() -> None:
    def double(number: int) -> int:
        return 2 * number

    numbers, doubled = load(dump_compact((np.arange(100), double)))
    assert doubled(int(numbers[21])) == 42
