"""Columns in nanoseconds: values keep what a `datetime` cannot hold, and no instant is written as another."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.rows import values_of

if TYPE_CHECKING:
    from pathlib import Path


def test_only_instants_with_nanoseconds_are_timestamps_of_pandas() -> None:
    column = pa.array([1001, 2000, None, -1], pa.timestamp("ns", "America/New_York"))
    values = values_of(column)
    assert values == [
        pd.Timestamp(1001, tz="UTC"),
        dt.datetime(1970, 1, 1, microsecond=2, tzinfo=dt.UTC),
        None,
        pd.Timestamp(-1, tz="UTC"),
    ]
    assert [type(value) for value in values] == [pd.Timestamp, dt.datetime, type(None), pd.Timestamp]
    assert values[0].utcoffset() == dt.timedelta(0)
    assert values_of(column.cast(pa.timestamp("ns")))[0] == pd.Timestamp(1001)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_two_keys_of_a_file_one_nanosecond_apart_are_two_groups(kind: pa.DataType, tmp_path: Path) -> None:
    keys = pa.array([1001, 1002, 1001], kind)
    pq.write_table(pa.table({"at": pa.array([1, 2, 3]), "key": keys, "n": [1, 2, 4]}), tmp_path / "a.parquet")
    p = dm.Pipeline()
    _ = (
        p
        | dm.io.ReadParquet(tmp_path, event_time="at")
        | dm.WithKeys("key", value="n")
        | dm.Sum.per_key()
        | "sums" >> dm.io.Collect()
    )
    result = p.run()
    result.wait_until_finish()
    assert sorted(record.value[1] for record in result.collected("sums")) == [2, 5]


KIND = pa.timestamp("ns", "UTC")


def written(values: list[Any], to: Path) -> tuple[list[int | None], int]:
    """Write values to a column of nanoseconds; return it as numbers, and the number of dead letters."""
    p = dm.Pipeline()
    rows = p | dm.Create([{"at": value} for value in values])
    _ = rows | "write" >> dm.io.WriteParquet(to, schema=pa.schema([("at", KIND)]))
    result = p.run()
    result.wait_until_finish()
    parts = [pq.read_table(part)["at"].cast(pa.int64()).to_pylist() for part in sorted(to.glob("part-*"))]
    return [number for part in parts for number in part], result.metrics()["write"]["dead_letters"]


def test_a_column_of_nanoseconds_holds_those_of_its_values_and_takes_numbers_for_microseconds(tmp_path: Path) -> None:
    at = dt.datetime(1970, 1, 1, microsecond=3, tzinfo=dt.UTC)
    assert written([pd.Timestamp(1001, tz="UTC"), at, 5, None], tmp_path) == ([1001, 3000, 5000, None], 0)


def test_an_instant_that_a_column_of_nanoseconds_cannot_hold_is_a_dead_letter(tmp_path: Path) -> None:
    at = dt.datetime(3000, 1, 1, tzinfo=dt.UTC)  # 64 bits of nanoseconds end in the year 2262
    assert written([at, 5], tmp_path) == ([5000], 1)


def test_times_with_digits_of_nanoseconds_are_inferred_as_nanoseconds(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("at,seen\n2013-01-01T00:00:00.123456789Z,2013-01-01 00:00:00.1234567\n")
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadCsv(tmp_path / "rows.csv", event_time="at") | "rows" >> dm.io.Collect()
    assert p.result is not None
    [record] = p.result.collected("rows")
    assert record.value == (pd.Timestamp("2013-01-01T00:00:00.123456789Z"), pd.Timestamp("2013-01-01 00:00:00.1234567"))
    assert record.event_time == dm.event_time("2013-01-01T00:00:00.123456Z")


MILLENNIUM = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - those of NumPy have no zone
A_MINUTE = dt.timedelta(minutes=1)
FOREIGN = [
    (np.datetime64("2000-01-01T00:00:00"), pa.timestamp("us"), MILLENNIUM),
    (np.datetime64("2000-01-01T00"), pa.timestamp("us"), MILLENNIUM),
    (np.datetime64("2000-01-01"), pa.date32(), MILLENNIUM.date()),
    (np.datetime64("2000-01"), pa.date32(), MILLENNIUM.date()),
    (np.datetime64(1001, "ns"), pa.timestamp("ns"), pd.Timestamp(1001)),
    (pd.Timestamp(1001, tz="UTC"), pa.timestamp("ns", "UTC"), pd.Timestamp(1001, tz="UTC")),
    (pd.Timestamp(MILLENNIUM), pa.timestamp("us"), MILLENNIUM),
    (np.timedelta64(60, "s"), pa.duration("us"), A_MINUTE),
    (np.timedelta64(1001, "ns"), pa.duration("ns"), pd.Timedelta(1001)),
    (pd.Timedelta(A_MINUTE), pa.duration("us"), A_MINUTE),
    (pd.Timedelta(1001), pa.duration("ns"), pd.Timedelta(1001)),
]
"""Times of NumPy and pandas, the type of a column of them, and what is read back."""


@pytest.mark.parametrize(("value", "kind", "read"), FOREIGN)
@pytest.mark.parametrize("is_given", [False, True])
def test_times_of_numpy_and_pandas_are_written_and_read_back(
    value: Any, kind: pa.DataType, read: Any, is_given: bool, tmp_path: Path
) -> None:
    schema = pa.schema({"at": kind, "inside": pa.list_(kind)}) if is_given else None
    with dm.Pipeline() as p:
        _ = p | dm.Create([{"at": value, "inside": [value]}]) | dm.io.WriteParquet(tmp_path, schema=schema)
    table = pq.read_table(tmp_path)
    assert table.schema.field("at").type == kind
    assert values_of(table["at"].combine_chunks()) == [read]
    assert values_of(table["inside"].combine_chunks()) == [[read]]


@pytest.mark.parametrize("missing", [pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT")])
@pytest.mark.parametrize("kind", [None, pa.timestamp("us"), pa.duration("us")])
def test_a_missing_time_of_numpy_or_pandas_is_null(missing: Any, kind: pa.DataType | None, tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        rows = p | dm.Create([{"at": missing}])
        _ = rows | dm.io.WriteParquet(tmp_path, schema=None if kind is None else pa.schema({"at": kind}))
    assert pq.read_table(tmp_path)["at"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pd.Timestamp(1001), pa.timestamp("us")),
        (np.datetime64(1001, "ns"), pa.timestamp("us")),
        ([pd.Timestamp(1001)], pa.list_(pa.timestamp("us"))),
        (pd.Timedelta(1001), pa.duration("us")),
        (pd.Timedelta("1.5s"), pa.duration("s")),
        (np.timedelta64(1500, "ms"), pa.duration("s")),
        (np.timedelta64(5), pa.duration("s")),
        (np.timedelta64(5, "M"), pa.duration("s")),
        (np.datetime64(5, "s"), pa.int64()),
        (np.datetime64("12024-01-01"), pa.timestamp("us")),
        (np.datetime64(1, "ps"), pa.timestamp("ns")),
    ],
)
def test_a_time_of_numpy_or_pandas_that_its_column_would_change_is_a_dead_letter(
    value: Any, kind: pa.DataType, tmp_path: Path
) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([{"at": value}]) | "write" >> dm.io.WriteParquet(tmp_path, schema=pa.schema({"at": kind}))
    result = p.run()
    result.wait_until_finish()
    assert result.metrics()["write"]["dead_letters"] == 1
