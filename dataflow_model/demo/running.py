"""Run the demo's job: the same function on each runner, with its time."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.demo.answers import Outcome
from dataflow_model.demo.pipeline import flights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.logical.runner import Runner

ROWS_PER_BATCH: Final = 120_000
"""The year in three micro-batches; their size changes no pane, only how often state is made durable."""


def run_local(path: Path) -> Outcome:
    """Run the job in process."""
    return run_on(dm.LocalRunner(), "LocalRunner", path)


def run_local_stream(path: Path) -> Outcome:
    """Run the job as a stream in process, from a checkpoint, in the same micro-batches as on Spark."""
    with tempfile.TemporaryDirectory(prefix="dataflow-model-demo-") as checkpoint:
        runner = dm.LocalRunner(checkpoint=checkpoint, max_rows_per_batch=ROWS_PER_BATCH)
        return run_on(runner, "LocalRunner, streaming", path)


@contextlib.contextmanager
def spark_runs() -> Iterator[Any]:
    """Yield a function `(mode, path) -> Outcome` that runs on one Spark session, which is closed at the end."""
    from dataflow_model.runners.spark.deployment.session import local_session

    descriptor, log = tempfile.mkstemp(prefix="dataflow-model-demo-", suffix=".log")  # only for this user
    os.close(descriptor)
    spark = local_session("dataflow-model demo", 2, log=log)

    def run(mode: str, path: Path) -> Outcome:
        if mode == "batch":
            return run_on(dm.SparkRunner(spark, mode="batch"), "Spark batch", path)
        with tempfile.TemporaryDirectory(prefix="dataflow-model-demo-") as checkpoint:
            runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=ROWS_PER_BATCH)
            return run_on(runner, "Spark streaming", path)

    try:
        yield run
    except Exception as error:
        error.add_note(f"Spark's log of this run is in {log}")
        raise
    else:
        Path(log).unlink(missing_ok=True)
    finally:
        spark.stop()


def run_on(runner: Runner, name: str, path: Path) -> Outcome:
    """Run the job on a runner to its end.

    Example:
        >>> from dataflow_model.demo import flights_file
        >>> path = first_rows(flights_file(), 100, Path(tempfile.mkdtemp(), "flights.parquet"))
        >>> outcome = run_on(dm.LocalRunner(), "local", path)
        >>> outcome.rows, outcome.dropped
        (100, 0)
    """
    p = dm.Pipeline(runner=runner)
    job = flights(p, path)
    _ = job.hourly | "hourly panes" >> dm.io.Collect()
    _ = job.cancelled | "cancelled panes" >> dm.io.Collect()
    start = time.perf_counter()
    result = p.run(until="drained")
    result.wait_until_finish()
    seconds = time.perf_counter() - start
    return Outcome(
        name,
        pq.ParquetFile(path).metadata.num_rows,
        seconds,
        result.collected("hourly panes"),
        result.collected("cancelled panes"),
        sum(
            count
            for counters in result.metrics().values()
            for counter, count in counters.items()
            if counter.startswith("dropped_")
        ),
    )


def first_rows(path: Path, rows: int, target: Path) -> Path:
    """Write the first rows of a Parquet file to another file, in the same order."""
    with pq.ParquetFile(path) as file, pq.ParquetWriter(target, file.schema_arrow) as writer:
        for batch in file.iter_batches(use_threads=False):
            writer.write_batch(batch.slice(0, rows))
            rows -= min(rows, batch.num_rows)
            if rows == 0:
                break
    return target
