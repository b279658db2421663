"""Columns in nanoseconds: values keep what a `datetime` cannot hold, and no instant is written as another."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.rows import values_of

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


def test_times_with_digits_of_nanoseconds_are_inferred_as_such(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("at,seen\n2013-01-01T00:00:00.123456789Z,2013-01-01 00:00:00.1234567\n")
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadCsv(tmp_path / "rows.csv", event_time="at") | "rows" >> dm.io.Collect()
    assert p.result is not None
    [record] = p.result.collected("rows")
    assert record.value == (pd.Timestamp("2013-01-01T00:00:00.123456789Z"), pd.Timestamp("2013-01-01 00:00:00.1234567"))
    assert record.event_time == dm.event_time("2013-01-01T00:00:00.123456Z")
