"""Counting by a column on Spark reads no values; keys that no kernel takes are counted all the same."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm

if TYPE_CHECKING:
    import pathlib

    from pyspark.sql import SparkSession

DAY = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TABLES = {
    "timestamps": pa.table({"at": [0, 1], "k": pa.array([DAY, DAY]), "v": [1.5, 2.5]}),
    "durations": pa.table({"at": [0, 1], "k": pa.array([dt.timedelta(1), None]), "v": [1.5, 2.5]}),
    "event times near the end": pa.table({"at": [2**62, 1], "k": [7, 7], "v": [1.5, 2.5]}),
    "zeros of both signs": pa.table({"at": [0, 1], "k": [-0.0, 0.0], "v": [1.5, 2.5]}),
}

QUICK = "timestamps"


def _counts(path: str, runner: Any) -> list[str]:
    with dm.Pipeline(runner=runner) as p:
        (
            p
            | dm.io.ReadParquet(path, event_time="at")
            | dm.WithKeys("k", value="v")
            | dm.Window.into(dm.FixedWindows("1 hour"))
            | dm.Count.per_key()
            | "counts" >> dm.io.Collect()
        )
    assert p.result is not None
    return sorted(repr(record.value) for record in p.result.collected("counts"))


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in TABLES if name != QUICK)]
)
def test_counting_by_a_column_that_has_no_kernel_gives_what_local_runner_gives(
    tmp_path: pathlib.Path, spark: SparkSession, name: str
) -> None:
    path = str(tmp_path / "in.parquet")
    pq.write_table(TABLES[name], path)
    assert _counts(path, dm.SparkRunner(spark, mode="batch")) == _counts(path, dm.LocalRunner())
