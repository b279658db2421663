"""A duration in the place of a watermark estimator is the delay of a `BoundedOutOfOrderness`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm

if TYPE_CHECKING:
    from pathlib import Path

HOUR = dm.BoundedOutOfOrderness("1 hour")
TABLE = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("at\n2013-01-01T00:00Z\n")
    (tmp_path / "rows.json").write_text('{"at": "2013-01-01T00:00Z"}\n')
    return {
        "csv": lambda watermark: dm.io.ReadCsv(tmp_path / "rows.csv", event_time="at", watermark=watermark),
        "json": lambda watermark: dm.io.ReadJson(tmp_path / "rows.json", event_time="at", watermark=watermark),
        "parquet": lambda watermark: dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", watermark=watermark),
        "table": lambda watermark: dm.io.ReadTable(TABLE, event_time="at", watermark=watermark),
        "injector": lambda watermark: dm.Injector(
            dm.io.ReadTable(TABLE, event_time="at"), partition_by="at", watermark=watermark
        ),
    }


@pytest.mark.parametrize("reader", ["csv", "json", "parquet", "table", "injector"])
@pytest.mark.parametrize("watermark", ["1 hour", 3600, datetime.timedelta(hours=1), dm.duration("1 hour"), HOUR])
def test_every_source_accepts_a_duration_as_its_watermark(files: dict[str, Any], reader: str, watermark: Any) -> None:
    assert files[reader](watermark).source.watermark == HOUR


@pytest.mark.parametrize("reader", ["csv", "json", "parquet", "table", "injector"])
@pytest.mark.parametrize(
    ("watermark", "message"),
    [("soon", "soon"), ("-1 hour", "must not be negative"), (True, "must be an estimator or a duration, got True")],
)
def test_a_watermark_that_is_neither_an_estimator_nor_a_duration_is_rejected(
    files: dict[str, Any], reader: str, watermark: Any, message: str
) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=message):
        files[reader](watermark)
