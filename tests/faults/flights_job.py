"""The streaming flights job as a program of its own, which a test starts, kills and starts again.

Usage: python flights_job.py FLIGHTS CHECKPOINT OUT ROWS_PER_BATCH. Prints `done` when the run has ended; what it has
collected is then in OUT/collected.pickle.
"""

from __future__ import annotations

import pathlib
import pickle
import sys

import dataflow_model as dm
from dataflow_model.demo.pipeline import flights
from dataflow_model.runners.spark.session import local_session


def build(p: dm.Pipeline, path: str, out: str) -> None:
    """Put two sinks behind the demo's job: files with panes, and what the test reads back whole."""
    job = flights(p, path)
    flat = job.hourly | "flat" >> dm.MapTuple(lambda carrier, row: Hourly(carrier, row.count, row.mean))
    _ = flat | "parquet" >> dm.io.WriteParquet(out + "/hourly", panes=True)
    _ = job.hourly | "hourly panes" >> dm.io.Collect()
    _ = job.cancelled | "cancelled panes" >> dm.io.Collect()


def main(path: str, checkpoint: str, out: str, rows: int) -> None:
    """Run the job from its checkpoint to its end."""
    spark = local_session("killed", cores=2)
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=rows)
    p = dm.Pipeline(runner=runner)
    build(p, path, out)
    result = p.run()
    result.wait_until_finish()
    kept = {label: result.collected(label) for label in ("hourly panes", "cancelled panes")}
    pathlib.Path(out, "collected.pickle").write_bytes(pickle.dumps(kept))
    print("done", flush=True)  # noqa: T201 - the test reads it
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
