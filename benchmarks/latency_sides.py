"""The computations of the latency benchmark on Spark: one keyed stage by hand, and three in a row."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

__all__ = ["STAGES", "count_by_hand", "lags_by_hand", "lags_by_us", "sum_by_hand", "sum_by_us"]

STAGES: Final = ("by key", "by tens", "all")
_SCHEMA: Final = "key bigint, n bigint, sent bigint, at timestamp"
_COUNTED: Final = "key bigint, count bigint, n bigint, sent bigint"


class _CountProcessor(StatefulProcessor):
    """Number the records of one key, by hand."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Give each record its number."""
        del timerValues
        had = self._count.get()
        count = had[0] if had else 0
        for chunk in rows:
            numbers = range(count + 1, count + 1 + len(chunk))
            count += len(chunk)
            yield pd.DataFrame({"key": key[0], "count": numbers, "n": chunk["n"], "sent": chunk["sent"]})
        self._count.update((count,))

    def close(self) -> None:
        """Do nothing: Spark keeps the state."""


def count_by_hand(spark: SparkSession, source: Path, out: Path, checkpoint: Path) -> StreamingQuery:
    """Start numbering the records of each key with `transformWithStateInPandas`."""
    rows = spark.readStream.schema(_SCHEMA).parquet(str(source))
    counted = rows.groupBy("key").transformWithStateInPandas(_CountProcessor(), _COUNTED, "Append", "None")
    return _json(counted, out, checkpoint)


def sum_by_us(spark: SparkSession, source: Path, out: Path, checkpoint: Path) -> Any:
    """Start three sums per second in a row: by key, by tens of keys, of all."""
    pipeline = dm.Pipeline(runner=dm.SparkRunner(spark, mode="streaming", checkpoint=str(checkpoint)))
    rows = pipeline | dm.io.ReadParquet(source, event_time="at", follow=True) | dm.WithKeys("key", value="n")
    by_key, by_tens, total = STAGES
    _ = (
        rows
        | dm.Window.into(dm.FixedWindows("1 second"))
        | by_key >> dm.Sum.per_key()
        | "tens" >> dm.Map(lambda pair: (pair[0] // 10, pair[1]))
        | by_tens >> dm.Sum.per_key()
        | "one" >> dm.Map(lambda pair: (0, pair[1]))
        | total >> dm.Sum.per_key()
        | dm.io.WriteJson(out, schema=pa.schema({"key": pa.int64(), "value": pa.int64()}))
    )
    return pipeline.run()


def lags_by_us(result: Any) -> dict[str, float]:
    """Return how far each stage's watermark is behind now, in milliseconds."""
    transforms = result.report().transforms
    lags = {stage: transforms[stage].watermark_lag for stage in STAGES}
    return {stage: int(lag) / 1_000 for stage, lag in lags.items() if lag is not None}


def sum_by_hand(spark: SparkSession, source: Path, out: Path, checkpoint: Path) -> StreamingQuery:
    """Start the same three sums with `groupBy(window)`."""
    rows = spark.readStream.schema(_SCHEMA).parquet(str(source)).withWatermark("at", "0 seconds")
    sums = _sums(rows, sf.window("at", "1 second"), sf.col("key"), "n")
    tens = _sums(sums, sf.window("window", "1 second"), sf.expr("key div 10"), "value")
    total = _sums(tens, sf.window("window", "1 second"), sf.lit(0), "value")
    return _json(total.select("key", "value"), out, checkpoint)


def lags_by_hand(query: StreamingQuery) -> dict[str, float]:
    """Return how far the query's one watermark is behind now, in milliseconds."""
    progress = query.lastProgress
    text = None if progress is None else progress.eventTime.get("watermark")
    if text is None or text.startswith("1970"):
        return {}
    watermark = dt.datetime.fromisoformat(text).timestamp()
    return dict.fromkeys(STAGES, (time.time() - watermark) * 1_000)


def _sums(rows: DataFrame, window: Any, key: Any, value: str) -> DataFrame:
    return rows.groupBy(window.alias("window"), key.alias("key")).agg(sf.sum(value).alias("value"))


def _json(frame: DataFrame, out: Path, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    return writer.format("json").option("path", str(out)).start()
