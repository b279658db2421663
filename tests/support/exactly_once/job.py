"""A streaming job as a program of its own, which a test starts, stops in mid-air, or lets fail.

Usage: python job.py MASTER CHECKPOINT OUT SOURCE [POINT]

`SOURCE` is a directory of JSON lines that is followed, or `script`. `POINT` names a crash point; the worker that comes
to it first is killed in micro-batch 1.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import sys
from typing import Any

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.testing import CrashPoint, TestStream

ROWS = pa.schema({"at": pa.string(), "key": pa.string(), "value": pa.int64()})
SUMS = pa.schema({"key": pa.string(), "value": pa.int64()})
SCRIPT = TestStream()
for second in range(24):
    SCRIPT = SCRIPT.processing_time(second).add(second, event_time=second, key="abcd"[second % 4]).watermark(second)


def build(p: dm.Pipeline, out: str, source: str = "script") -> None:
    """Sum by key and window, retracting; a table has what stands, files what has gone out."""
    if source == "script":
        pairs: Any = p | SCRIPT
    else:
        rows = p | dm.io.ReadJson(source, event_time="at", schema=ROWS, follow=True)
        pairs = rows | "pairs" >> dm.Map(_pair).with_output_types(tuple[str, int])
    windowing = dm.Window.into(dm.FixedWindows("8 seconds")).trigger(dm.Repeatedly(dm.AfterCount(1)))
    sums = pairs | windowing.accumulating_and_retracting() | dm.Sum.per_key()
    url = f"sqlite:///{out}/test.db"
    _ = sums | "table" >> dm.io.WriteTable(url, table="sums", keys=("key", "window_start"), schema=SUMS, panes=True)
    _ = sums | "files" >> dm.io.WriteJson(f"{out}/files", schema=SUMS, panes=True)
    _ = sums | "kept" >> dm.io.Collect()


def _pair(row: Any) -> tuple[str, int]:
    return row.key, row.value


def main(master: str, checkpoint: str, out: str, source: str, point: str | None = None) -> None:
    """Run to the end, or to the error, whose class and message are then in the file `error`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=18)
    p = dm.Pipeline(runner=runner)
    build(p, out, source)
    crash = contextlib.nullcontext() if point is None else CrashPoint(point, micro_batch=1)
    try:
        with crash:
            result = p.run()
        result.wait_until_finish()
    except dm.DataflowError as error:
        pathlib.Path(out, "error").write_text(f"{type(error).__name__}: {error}")
        raise
    was_reached = isinstance(crash, CrashPoint) and crash.was_reached
    pathlib.Path(out, "kept").write_bytes(pickle.dumps((result.collected("kept"), was_reached)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
