"""Rows: columns by attribute and by name, whatever the names are."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.rows import row_type

NAMES = ("user-id", "a.b, c: %", "class", "_fields", "_0", "", "x", "count")
ODD: Any = row_type(pa.schema([pa.field(name, pa.int64()) for name in NAMES]))


def test_each_column_is_read_by_its_name_whatever_that_is() -> None:
    row = ODD(*range(len(NAMES)))
    assert [row[name] for name in NAMES] == list(range(len(NAMES)))
    assert (row.x, row.count, row._0, getattr(row, "user-id")) == (6, 7, 4, 0)
    assert (row[0], row[-1], row[1:3]) == (0, 7, (1, 2))


def test_rows_with_odd_names_are_still_named_tuples() -> None:
    row = ODD(*range(len(NAMES)))
    assert row._asdict() == dict(zip(NAMES, row, strict=True))
    assert row._replace(**{"user-id": 9, "x": 8}) == (9, 1, 2, 3, 4, 5, 8, 7)
    assert repr(ODD(*"abcdefgh")).startswith("Row('user-id'='a', 'a.b, c: %'='b', class='c', _fields='d'")
    with pytest.raises(ValueError, match="unexpected field names: \\['when'\\]"):
        row._replace(when=1)


@pytest.mark.parametrize("library", [pickle, cloudpickle])
def test_rows_with_odd_names_pickle_by_the_name_of_their_type(library: Any) -> None:
    row = ODD(*range(len(NAMES)))
    restored = library.loads(library.dumps(row))
    assert restored == row
    assert type(restored) is ODD


def test_a_name_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(KeyError, match="there is no column 'delay'; the columns are carrier, flight"):
        row_type(pa.schema({"carrier": pa.string(), "flight": pa.int64()}))("UA", 1)["delay"]


def test_a_column_with_an_odd_name_is_a_key_and_reaches_a_sink() -> None:
    table = pa.table({"user-id": ["ann", "bob", "ann"], "points": [1, 2, 3]})
    with dm.Pipeline() as p:
        sums = p | dm.Create(table) | dm.WithKeys("user-id", value="points") | dm.Sum.per_key()
        _ = sums | "sums" >> dm.io.Collect()
    assert p.result is not None
    assert sorted(record.value for record in p.result.collected("sums")) == [("ann", 4), ("bob", 2)]
