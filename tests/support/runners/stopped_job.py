"""A program that runs pipelines with a large table, then stops its session under two others; prints what happened.

Usage: python -m tests.support.runners.stopped_job FOLDER; FOLDER/rows holds the input of a stream. Other tests
need their session, hence a program of its own. The last line that it prints is a JSON object.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dataflow_model as dm
from dataflow_model.runners.spark import local_session
from tests.support.inputs import summing
from tests.support.waiting import PATIENCE, wait_for_batch

TABLE = bytes(60_000_000)


def sized(p: dm.Pipeline) -> None:
    """Two stages and a source, each of which knows the table."""
    pairs = p | dm.Create([1]) | dm.Map(lambda x: ("a", x + len(TABLE)))
    _ = pairs | dm.Sum.per_key() | dm.Max.per_key() | "sizes" >> dm.io.Collect()


def ended(result: Any) -> tuple[str, str, str]:
    """Return what a run whose session was stopped says."""
    try:
        result.wait_until_finish(PATIENCE)
    except Exception as error:  # noqa: BLE001 - whatever it says
        return type(error).__name__, str(error), result.state.name
    return "nothing", "", result.state.name


def refused(runner: Any, source: Any) -> list[str]:
    """Return what a runner says that cannot start."""
    p = dm.Pipeline(runner=runner)
    _ = p | "source" >> source | dm.io.Collect()
    try:
        p.run()
    except Exception as error:  # noqa: BLE001 - whatever it says
        return [type(error).__name__, str(error).splitlines()[0]]
    return []


def doubled(spark: Any, checkpoint: pathlib.Path) -> list[Any]:
    """Return the output of a small stream."""
    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint))
    _ = p | dm.Create([1, 2]) | dm.Map(lambda x: 2 * x) | "doubled" >> dm.io.Collect()
    result: Any = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected("doubled")]


def main(folder: pathlib.Path) -> None:
    """Run all, and print."""
    report: dict[str, Any] = {}
    spark = local_session("table", log=str(folder / "log"))
    with ThreadPoolExecutor(2) as threads:  # the first streams of a session, which register its source and sink
        streams = [threads.submit(doubled, spark, folder / name) for name in ("one", "other")]
        report["first streams"] = [stream.result() for stream in streams]
    for mode in ("batch", "streaming"):
        checkpoint = None if mode == "batch" else str(folder / "sized")
        p = dm.Pipeline(runner=dm.SparkRunner(spark, mode=mode, checkpoint=checkpoint))
        sized(p)
        result: Any = p.run()
        result.wait_until_finish()
        report[f"{mode} table"] = [record.value for record in result.collected("sizes")]

    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / "followed")))
    summing(folder / "rows", follow=True)(p)
    result = p.run()
    wait_for_batch(result, 0)
    frame = spark.createDataFrame([(5,)], "at long")
    spark.stop()
    report["streaming stopped"] = ended(result)
    report["batch on a stopped session"] = refused(dm.SparkRunner(spark, mode="batch"), dm.Create([1]))

    spark = local_session("another", log=str(folder / "log"))
    stream = dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / "old frame"))
    report["DataFrame of a stopped session"] = refused(stream, dm.io.ReadDataFrame(frame, event_time="at"))
    mark = folder / "begun"

    def hang(x: int) -> int:
        mark.touch()
        time.sleep(PATIENCE)
        return x

    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch"))
    _ = p | dm.Create([1]) | dm.Map(hang) | dm.io.Collect()
    result = p.run()
    while not mark.exists():
        time.sleep(0.05)
    spark.stop()
    report["batch stopped"] = ended(result)
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a worker still sleeps


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
