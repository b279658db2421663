"""Orders in columns compare as the tuples that they stand for."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from dataflow_model.plan.columns.orders import OrderColumns

NUMBERS = st.integers(0, 3)


@st.composite
def orders(draw: st.DrawFn, parts: int) -> tuple[OrderColumns, list[tuple[Any, ...]]]:
    """Return orders in columns, and the tuples: a part is a number or a name, of each record or of all."""
    count = draw(st.integers(0, 4))
    columns: list[Any] = []
    shown: list[list[Any]] = []
    for index in range(parts):
        value = NUMBERS if index != 1 else st.sampled_from(["a", "b"])
        if draw(st.booleans()):
            common = draw(value)
            columns.append(common)
            shown.append([common] * count)
        else:
            each = draw(st.lists(value, min_size=count, max_size=count))
            columns.append(np.array(each, np.int64) if index != 1 else each)
            shown.append(each)
    tuples = list(zip(*shown, strict=True))
    if draw(st.booleans()):
        return OrderColumns.of(tuples), tuples
    return OrderColumns(count, tuple(columns)), tuples


@given(st.lists(st.integers(1, 3).flatmap(orders), max_size=4))
def test_orders_in_columns_are_sorted_as_tuples(several: list[tuple[OrderColumns, list[tuple[Any, ...]]]]) -> None:
    together = OrderColumns.joined([columns for columns, _ in several])
    tuples = [order for _, of_one in several for order in of_one]
    assert together.tuples() == tuples
    rows = together.ascending()
    indices = list(range(len(tuples))) if rows is None else rows.tolist()
    assert indices == sorted(range(len(tuples)), key=tuples.__getitem__)
    picked = np.array(indices[::2], np.int64)
    assert together.taken(picked).tuples() == [tuples[row] for row in picked]
