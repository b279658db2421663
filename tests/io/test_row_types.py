"""Rows: columns by attribute and by name, whatever the names are."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING, Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.records import table_of_records
from dataflow_model.plan.columns.rows import row_type, rows_of

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_missing_column_name_is_an_error_with_the_existing_names() -> None:
    with pytest.raises(KeyError, match="there is no column 'delay'; the columns are carrier, flight"):
        row_type(pa.schema({"carrier": pa.string(), "flight": pa.int64()}))("UA", 1)["delay"]


def test_a_column_with_an_odd_name_is_a_key_and_reaches_a_sink() -> None:
    table = pa.table({"user-id": ["ann", "bob", "ann"], "points": [1, 2, 3]})
    with dm.Pipeline() as p:
        sums = p | dm.Create(table) | dm.WithKeys("user-id", value="points") | dm.Sum.per_key()
        _ = sums | "sums" >> dm.io.Collect()
    assert p.result is not None
    assert sorted(record.value for record in p.result.collected("sums")) == [("ann", 4), ("bob", 2)]


def test_timestamps_in_structs_lists_and_maps_are_in_utc_like_those_of_columns() -> None:
    noon = dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC)
    zoned, naive = pa.timestamp("us", "Asia/Kolkata"), pa.timestamp("us")
    nested = pa.struct({"at": zoned, "local": naive})
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "column": (zoned, noon),
        "struct": (nested, {"at": noon, "local": noon.replace(tzinfo=None)}),
        "list": (pa.list_(zoned), [noon, None]),
        "large": (pa.large_list(zoned), [noon]),
        "fixed": (pa.list_(zoned, 2), [noon, noon]),
        "map": (pa.map_(zoned, pa.list_(nested)), [(noon, [{"at": noon, "local": None}])]),
    }
    batch = pa.record_batch({name: pa.array([value, None], kind) for name, (kind, value) in kinds.items()})
    row, empty = rows_of(batch)
    assert row == tuple(value for _, value in kinds.values())
    assert set(empty) == {None}
    seen = [row.column, row.struct["at"], row.list[0], row.large[0], *row.fixed, row.map[0][0], row.map[0][1][0]["at"]]
    assert [at.hour for at in seen] == [12] * 8
    assert {at.utcoffset() for at in seen} == {dt.timedelta(0)}


NAMES_OF_ATTRIBUTES = ("_fields", "__doc__", "__class__", "__bad__", "_replace", "__dict__")


@pytest.mark.parametrize("name", NAMES_OF_ATTRIBUTES)
@pytest.mark.parametrize(
    "by",
    [
        lambda name: dm.WithKeys(name, value="points"),
        lambda name: dm.GroupBy(name).aggregate_field("points", sum, "total"),
        lambda name: dm.GroupBy(key=name).aggregate_field("points", sum, "total"),
    ],
)
def test_a_column_with_the_name_of_an_attribute_of_rows_is_a_key(name: str, by: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({name: ["ann", "bob"], "points": [1, 2]}), tmp_path / "a.parquet")
    with dm.Pipeline() as p:
        read = p | dm.io.ReadParquet(tmp_path, event_time=None) | "plain" >> dm.Map(lambda row: row)
        _ = read | by(name) | "out" >> dm.io.Collect()
    assert sorted(tuple(record.value) for record in p.result.collected("out")) == [("ann", 1), ("bob", 2)]


def test_a_column_with_the_name_of_an_attribute_of_rows_is_displayed() -> None:
    rows = row_type(pa.schema({"_fields": pa.int64(), "__doc__": pa.string()}))
    with dm.Pipeline() as p:
        _ = p | dm.Create([rows(5, "late")]) | "out" >> dm.io.Collect()
    _, rows_shown = table_of_records(p.result.collected("out"))
    assert next(iter(rows_shown))[:2] == [5, "late"]
