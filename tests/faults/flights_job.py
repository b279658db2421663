"""The streaming flights job as a program of its own, which a test starts, kills and starts again.

Usage: python flights_job.py FLIGHTS CHECKPOINT OUT KEPT ROWS_PER_BATCH
"""

from __future__ import annotations

import pathlib
import pickle
import sys
from typing import Any

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.demo.pipeline import flights
from dataflow_model.runners.spark.session import local_session

LABELS = ("hourly panes", "cancelled panes")
HOURLY = pa.schema({"carrier": pa.string(), "departures": pa.int64(), "mean_delay": pa.float64()})


def build(p: dm.Pipeline, path: str, out: str) -> None:
    """Put two kinds of sinks behind the demo's job: files with panes, and what the test reads back whole."""
    job = flights(p, path)
    _ = job.hourly | "rows" >> dm.Map(_row) | "parquet" >> dm.io.WriteParquet(out, schema=HOURLY, panes=True)
    _ = job.hourly | "hourly panes" >> dm.io.Collect()
    _ = job.cancelled | "cancelled panes" >> dm.io.Collect()


def _row(pair: Any) -> dict[str, Any]:
    return {"carrier": pair[0], "departures": pair[1].count, "mean_delay": pair[1].mean}


def main(path: str, checkpoint: str, out: str, kept: str, rows: int) -> None:
    """Run the job from its checkpoint to its end; what it has collected is then in the file `kept`."""
    spark = local_session("killed", cores=2)
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=rows)
    p = dm.Pipeline(runner=runner)
    build(p, path, out)
    result = p.run()
    result.wait_until_finish()
    collected = {label: result.collected(label) for label in LABELS}
    pathlib.Path(kept).write_bytes(pickle.dumps(collected))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
