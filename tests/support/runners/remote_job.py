"""A program that runs one pipeline in batch and in streaming on a session that it makes, and prints what came of it.

Usage: python remote_job.py connect|cluster FOLDER; FOLDER/rows holds the input. A Connect session cannot share a
process with a classic one, and a cluster's executors are told by the environment where their Python is: hence a program
of its own. The last line that it prints is a JSON object.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import dataflow_model as dm

TABLE = bytes(2_000_000)
"""More than travels with a command: workers have to find the program in a file."""


def build(p: dm.Pipeline, rows: pathlib.Path) -> None:
    """Two groupings in a chain, a sink of each kind, a dead letter, and a side input."""
    names = p | "names" >> dm.Create([(key, key.upper()) for key in "abc"])
    read = p | "rows" >> dm.io.ReadParquet(
        rows, event_time="at", processing_time="known_at", watermark=dm.BoundedOutOfOrderness(10)
    )
    good, dead = read | "pair" >> dm.Map(_pair, dm.AsDict(names)).with_exception_handling()
    windowed = good | "windows" >> dm.Window.into(dm.FixedWindows(10)).allowed_lateness(60)
    summed = windowed | "sums" >> dm.Sum.per_key()
    chained = summed | "wider" >> dm.Window.into(dm.FixedWindows(20)) | "chained" >> dm.Count.per_key()
    _ = summed | "summed" >> dm.io.Collect()
    _ = chained | "panes" >> dm.io.Collect()
    _ = dead | "dead" >> dm.io.Collect()


def raising(p: dm.Pipeline, rows: pathlib.Path) -> None:
    """A pipeline whose user code raises on an executor."""
    read = p | "rows" >> dm.io.ReadParquet(rows, event_time="at", processing_time="known_at")
    _ = read | "share" >> dm.Map(lambda row: row.value // 0) | "kept" >> dm.io.Collect()


def _pair(row: Any, names: dict[str, str]) -> tuple[str, int]:
    if row.value % 100 == 0:
        raise ValueError(f"{row.value} is too round")
    return names[row.key], row.value + TABLE[row.value % len(TABLE)]


def session(kind: str) -> Any:
    """Return a session of this kind."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local-cluster[2,1,1024]")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(runner: Any, rows: pathlib.Path) -> dict[str, Any]:
    """Run the pipeline and return what its sinks have received."""
    p = dm.Pipeline(runner=runner)
    build(p, rows)
    result = p.run(until="drained")
    result.wait_until_finish()
    values_by_sink = {
        label: [repr((record.value, record.window, record.pane, record.processing_time)) for record in kept]
        for label, kept in ((label, result.collected(label)) for label in ("summed", "panes"))
    }
    dead = [(letter.element.value, letter.reason) for letter in (record.value for record in result.collected("dead"))]
    counts = {
        label: {name: count for name, count in counted.items() if count} for label, counted in result.metrics().items()
    }
    return {"state": result.state.name, **values_by_sink, "dead": sorted(dead), "metrics": counts}


def failure(runner: Any, rows: pathlib.Path) -> str:
    """Run the pipeline that raises, and return what it raises."""
    p = dm.Pipeline(runner=runner)
    raising(p, rows)
    try:
        p.run(until="drained").wait_until_finish()
    except dm.UserCodeError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - the test wants to see it
        return f"{type(error)}: {error}"
    return "nothing"


def main(kind: str, folder: pathlib.Path) -> None:
    """Run everything."""
    spark = session(kind)
    rows = folder / "rows"

    def streaming(name: str) -> dm.SparkRunner:
        return dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / name), max_rows_per_batch=130)

    before = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    outcome = {
        "session": type(spark).__module__,
        "local": run(dm.LocalRunner(), rows),
        "batch": run(dm.SparkRunner(spark), rows),
        "streaming": run(streaming("checkpoint"), rows),
        "batch failure": failure(dm.SparkRunner(spark), rows),
        "streaming failure": failure(streaming("failing"), rows),
        "settings are back": spark.conf.get("spark.sql.streaming.stateStore.providerClass") == before,
    }
    print(json.dumps(outcome), flush=True)  # noqa: T201 - the test reads it
    os._exit(0)  # a server of its own is not waited for


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
