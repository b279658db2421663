"""Sums per key and window of a topic's messages: read by Spark's own connector, and by ours, in one session of Spark.

Usage: python -m tests.support.kafka.spark_source SERVERS TOPIC MODE FOLDER JARS. MODE is `batch` or `streaming`. The
file `panes.json` in the folder gets, by reader, the panes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

import dataflow_model as dm
from tests.support.settings import SPARK_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["ROWS", "main"]

ROWS: Final = 40
"""The number of rows in the topic."""
_PATIENCE: Final = 240


def _by_spark(spark: SparkSession, servers: str, topic: str, mode: str) -> Any:
    """Return a source of the rows that Spark's connector reads."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    options |= {"kafka.isolation.level": "read_committed"}
    reader: Any = spark.read if mode == "batch" else spark.readStream
    rows: DataFrame = reader.format("kafka").options(**options).load()
    rows = rows.selectExpr("key", "value", "timestamp", "CAST(partition AS STRING) AS origin", "offset")
    how: dict[str, Any] = {"event_time": "timestamp", "watermark": "1 second", "watermark_origin": "origin"}
    if mode == "streaming":
        how |= {"origin": "origin", "sequence": "offset"}
    return dm.io.ReadDataFrame(rows, **how)


def _panes(runner: dm.SparkRunner, read: Any) -> list[Any]:
    p = dm.Pipeline(runner=runner)
    pairs = p | "in" >> read | dm.Map(lambda row: (row.key.decode(), int(row.value))).with_output_types(tuple[str, int])
    _ = pairs | dm.Window.into(dm.FixedWindows("10 seconds")) | dm.Sum.per_key() | "out" >> dm.io.Collect(panes=True)
    result = p.run()
    deadline = time.monotonic() + _PATIENCE
    while runner.mode == "streaming" and result.metrics().get("in", {}).get("elements_out", 0) < ROWS:
        assert time.monotonic() < deadline, result.metrics()
        time.sleep(0.2)
    if runner.mode == "streaming":
        result.drain()
    result.wait_until_finish()
    rows = result.table("out").arrow.to_pylist()
    return sorted([str(value) for value in row.values()] for row in rows)


def main(arguments: Sequence[str]) -> None:
    """Write the panes."""
    servers, topic, mode, folder, jars = arguments
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(map(str, sorted(Path(jars).glob("*.jar")))))
    spark = builder.config("spark.local.dir", f"{folder}/local").getOrCreate()

    def runner(reader: str) -> dm.SparkRunner:
        where: dict[str, Any] = {} if mode == "batch" else {"checkpoint": f"{folder}/{reader}"}
        return dm.SparkRunner(spark, mode=mode, **where)  # type: ignore[arg-type]

    ours = dm.io.ReadKafka(
        topic, bootstrap_servers=servers, watermark="1 second", end="latest" if mode == "batch" else None
    )
    found = {
        "ours": _panes(runner("ours"), ours),
        "spark": _panes(runner("spark"), _by_spark(spark, servers, topic, mode)),
    }
    Path(folder, "panes.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
