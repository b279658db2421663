"""Records of a straight line: a sink that reads only values gets these, without a record for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from dataflow_model.io.shapes import fit
from dataflow_model.plan.record_columns import values_of_records
from dataflow_model.runners.engine.order import of_row
from dataflow_model.runners.engine.straight import FreshRecords

if TYPE_CHECKING:
    from dataflow_model.runners.engine.order import Order

TIMES = np.array([10, 11, 12])
CLOCK = np.array([20, 21, 22])


def order(row: int) -> Order:
    return of_row("rows:a.parquet", row)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> FreshRecords:
    """Records that may not be made."""

    def refuse(_: FreshRecords) -> None:
        pytest.fail("a record was made for each element")

    monkeypatch.setattr(FreshRecords, "made", refuse)
    return FreshRecords([("a", 1), ("b", 2), ("c", 3)], TIMES, CLOCK, None, order)


def test_values_are_read_without_making_a_record_for_each_element(unread: FreshRecords) -> None:
    assert values_of_records(unread) == [("a", 1), ("b", 2), ("c", 3)]
    assert len(unread) == 3


def test_a_file_gets_its_columns_without_a_record_for_each_element(unread: FreshRecords) -> None:
    schema = pa.schema({"key": pa.string(), "value": pa.int64()})
    batch, misfits = fit(unread, schema, panes=False)
    assert batch.to_pydict() == {"key": ["a", "b", "c"], "value": [1, 2, 3]}
    assert misfits == []


@pytest.mark.parametrize(("places", "rows"), [(None, [0, 1, 2]), ([0, 2, 2], [0, 2, 2])])
def test_a_record_has_the_times_and_the_place_of_the_row_it_was_read_from(
    places: list[int] | None, rows: list[int]
) -> None:
    records = FreshRecords(["x", "y", "z"], TIMES, CLOCK, places, order)
    assert [record.value for record in records] == ["x", "y", "z"]
    assert [int(record.event_time) for record in records] == [TIMES[row] for row in rows]
    assert [int(record.processing_time) for record in records] == [CLOCK[row] for row in rows]
    assert [record.order[-2:] for record in records] == [("rows:a.parquet", row) for row in rows]
    assert records[-1].value == "z"
    assert [record.value for record in records[:2]] == ["x", "y"]
