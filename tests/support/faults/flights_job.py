"""The streaming flights job as a program of its own, which a test starts, hurts, kills and starts again.

Usage: python -m tests.support.faults.flights_job FOLDER; the folder holds a pickled `Job`.
"""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import sys
import threading
from typing import Any, ClassVar, Final

import attrs
import pyarrow as pa

import dataflow_model as dm
from dataflow_model.demo.pipeline import flights
from dataflow_model.runners.sharded.tasks import faults
from tests.support.settings import SPARK_SETTINGS

LABELS: Final = ("hourly panes", "cancelled panes")
HOURLY: Final = pa.schema({"carrier": pa.string(), "departures": pa.int64(), "mean_delay": pa.float64()})
PATIENT: Final = {
    "spark.stage.maxConsecutiveAttempts": "100",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.maxNumFailures": "100",
    "spark.executorEnv.TZ": "UTC",
}
"""What a cluster needs whose executors are killed more often than an administrator would put up with."""
BREATH: Final = 0.5
"""Seconds between a failure and the next start."""


@attrs.frozen(kw_only=True)
class StreamJob:
    """One run of a program, however often it is started.

    Attributes:
        folder: what the program and the test tell each other.
        fault: what goes wrong by itself.
        program: the module that is run.
    """

    folder: pathlib.Path
    fault: faults.Fault = faults.NO_FAULT
    program: ClassVar[str]

    @property
    def log(self) -> pathlib.Path:
        """What the program, Spark and its workers say."""
        return self.folder / "log"

    @property
    def starts(self) -> pathlib.Path:
        """A line each time that the run starts."""
        return self.folder / "starts"

    @property
    def failures(self) -> pathlib.Path:
        """A line each time that the run fails."""
        return self.folder / "failures"

    @property
    def kept(self) -> pathlib.Path:
        """What the run has collected, pickled, once it is over."""
        return self.folder / "kept.pickle"

    def started(self) -> int:
        """Return how often the run was started."""
        return _lines(self.starts)

    def failed(self) -> int:
        """Return how often the run has failed."""
        return _lines(self.failures)

    def micro_batches(self) -> int:
        """Return how many micro-batches have begun."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class SparkJob(StreamJob):
    """One run of a program on Spark, however often it is started.

    Attributes:
        rows_per_batch: how many rows a micro-batch reads.
        master: Spark's; `local[2,8]` tries a task eight times.
        resumes: how often the program starts the run again, when it fails, before it gives up.
        disk: where checkpoint and output are; in the folder if not given.
    """

    rows_per_batch: int = 500
    master: str = "local[2]"
    resumes: int = 0
    disk: pathlib.Path | None = None

    @property
    def checkpoint(self) -> pathlib.Path:
        return (self.disk or self.folder) / "checkpoint"

    def micro_batches(self) -> int:
        """Return how many micro-batches have begun."""
        return len([path for path in (self.checkpoint / "spark" / "offsets").glob("*") if path.name.isdigit()])

    def run(self, spark: Any) -> Any:
        """Run it to its end, and return what it keeps."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class Job(SparkJob):
    """One run of the flights job, however often it is started.

    Attributes:
        flights: the input.
    """

    flights: pathlib.Path
    program: ClassVar[str] = "tests.support.faults.flights_job"

    @property
    def out(self) -> pathlib.Path:
        return (self.disk or self.folder) / "out"

    def run(self, spark: Any) -> dict[str, list[Any]]:
        """Run it to its end, and return what it has collected, by label."""
        runner = dm.SparkRunner(
            spark, mode="streaming", checkpoint=str(self.checkpoint), max_rows_per_batch=self.rows_per_batch
        )
        p = dm.Pipeline(runner=runner)
        build(p, str(self.flights), str(self.out))
        result = p.run()
        result.wait_until_finish()
        return {label: list(result.collected(label)) for label in LABELS}


def _lines(file: pathlib.Path) -> int:
    return file.read_text().count("\n") if file.exists() else 0


def build(p: dm.Pipeline, path: str, out: str) -> None:
    """Put two kinds of sinks behind the demo's job: files with panes, and what the test reads back whole."""
    job = flights(p, path)
    _ = job.hourly | "rows" >> dm.Map(_row) | "parquet" >> dm.io.WriteParquet(out, schema=HOURLY, panes=True)
    _ = job.hourly | "hourly panes" >> dm.io.Collect()
    _ = job.cancelled | "cancelled panes" >> dm.io.Collect()


def _row(pair: Any) -> dict[str, Any]:
    return {"carrier": pair[0], "departures": pair[1].count, "mean_delay": pair[1].mean}


def session(master: str) -> Any:
    """Return a session that puts up with what is to come."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("hurt")
    for name, value in (SPARK_SETTINGS | PATIENT).items():
        builder = builder.config(name, value)
    if master.startswith("local-cluster"):
        builder = builder.config("spark.task.maxFailures", "100")
    return builder.getOrCreate()


def main(folder: str) -> None:
    """Run the job of a folder from its checkpoint to its end."""
    job: SparkJob = pickle.loads(pathlib.Path(folder, "job.pickle").read_bytes())
    spark = session(job.master)
    faults.arm(job.fault)
    while not job.kept.exists():
        try:
            with job.starts.open("a") as starts:
                starts.write(f"{os.getpid()}\n")
            job.kept.write_bytes(pickle.dumps(job.run(spark)))
        except Exception as error:
            with job.failures.open("a") as failures:
                failures.write(f"{json.dumps(str(error))}\n")
            if job.failed() > job.resumes:
                raise
            threading.Event().wait(BREATH)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
