"""A program that runs the flights on a cluster and in process, and prints how the panes differ.

Usage: python flights_job.py MASTER|submit|sc://… batch|streaming FLIGHTS FOLDER [SETTING=VALUE …]. The environment
says which Python the executors run. `FLIGHTS_COPY` in it is a URL where a batch job copies the flights to, and reads
them as a DataFrame. The last line that the program prints is a JSON object.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.demo import flights
from dataflow_model.demo.answers import differences, fold, pane_differences, plain_answers
from dataflow_model.demo.pipeline import by_carrier

if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS = 3_000
"""What a micro-batch reads."""


def session(where: str, settings: Mapping[str, str]) -> Any:
    """Return a session on the cluster."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("flights")
    if where == "submit":
        return builder.getOrCreate()
    if where.startswith("sc://"):
        return builder.remote(where).getOrCreate()
    builder = builder.master(where)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def look(_: Any) -> tuple[str, str, str]:
    """Return which Python, package and build of the core run."""
    from dataflow_model.runners.engine.core.build import build_of_core

    return sys.executable, dm.__file__, build_of_core().name


def copied(spark: Any, path: str, url: str) -> Any:
    """Copy the flights to a URL, and return a source that reads the copy."""
    spark.read.parquet(f"file://{path}").write.parquet(url)
    return dm.io.ReadDataFrame(spark.read.parquet(url), event_time="scheduled_departure")


def run(runner: Any, path: str, source: Any = None) -> Any:
    """Run the flights, and return the result; it has ended.

    Args:
        runner: what runs them.
        path: the file of the flights.
        source: what reads them instead of `ReadParquet`.
    """
    p = dm.Pipeline(runner=runner)
    job = flights(p, path) if source is None else by_carrier(p | "flights" >> source)
    _ = job.hourly | "hourly panes" >> dm.io.Collect(panes=True)
    _ = job.cancelled | "cancelled panes" >> dm.io.Collect()
    _ = p | "places" >> dm.Create(range(8)) | dm.Reshuffle() | dm.Map(look) | "who" >> dm.io.Collect()
    result = p.run(until="drained")
    result.wait_until_finish()
    return result


def main(where: str, mode: str, path: str, folder: str, *settings: str) -> None:
    """Run everything."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("dataflow_model").addHandler(handler)
    spark = session(where, dict(setting.split("=", 1) for setting in settings))
    checkpoint = os.path.join(folder, "checkpoint")  # noqa: PTH118
    began = time.monotonic()
    runner = (
        dm.SparkRunner(spark)
        if mode == "batch"
        else dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=ROWS)
    )
    copy = os.environ.get("FLIGHTS_COPY") if mode == "batch" else None
    result = run(runner, path, copied(spark, path, copy) if copy else None)
    seconds = time.monotonic() - began
    hourly = result.collected("hourly panes")
    outcome = {
        "state": result.state.name,
        "timings": collections.Counter(record.pane.timing.name for record in hourly),
        "who": sorted({record.value for record in result.collected("who")}),
        "notes": result.report().notes,
        "logged": logged,
        "seconds": seconds,
    }
    if mode == "batch":
        plain, _ = plain_answers(path)
        outcome["differences"] = differences(fold(hourly), plain)
    else:
        local = run(dm.LocalRunner(), path)
        outcome["differences"] = pane_differences(hourly, local.collected("hourly panes"))
        outcome["differences"] += pane_differences(
            result.collected("cancelled panes"), local.collected("cancelled panes")
        )
    print(json.dumps(outcome), flush=True)  # noqa: T201 - the test reads it
    os._exit(0)


if __name__ == "__main__":
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[3]))
    main(*sys.argv[1:])
