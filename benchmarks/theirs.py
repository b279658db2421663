"""The hand-written alternatives: what a Spark programmer would write without this package.

Each takes the session, the events, and the folder to write Parquet to; without a folder the result is consumed by
Spark's `noop` sink, which takes every row and keeps none. A function on columns is compared with our own pipeline one
element at a time, and a hot key with our own pipeline where all keys are alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.data import DELAY, Events
from benchmarks.local_functions import BUCKETS
from benchmarks.ours import batch_like_keys, batch_one_by_one, streaming_one_by_one

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

__all__ = [
    "batch_like_keys",
    "batch_one_by_one",
    "batch_sessions",
    "batch_sums",
    "map_in_arrow",
    "per_key_processor",
    "streaming_join",
    "streaming_one_by_one",
    "streaming_sums",
    "streaming_sums_of_groups",
    "streaming_sums_of_sums",
]

_WINDOW_MICROS: Final = 10_000_000

Loop = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def batch_sums(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window: `groupBy(window, key)`."""
    _write(_sums(spark.read.parquet(events.events), sf.window("event_time", "10 seconds")), out)


def batch_sessions(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and session: `groupBy(session_window, key)`."""
    _write(_sums(spark.read.parquet(events.events), sf.session_window("event_time", "5 seconds")), out)


def map_in_arrow(spark: SparkSession, events: Events, out: Path | None, function: Callable[[Any], Any]) -> None:
    """Call a Python function for each pair of key and value, in a loop inside `mapInArrow`."""

    def loop(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            pairs = zip(chunk.column(0).to_pylist(), chunk.column(1).to_pylist(), strict=True)
            mapped = [function(pair) for pair in pairs]
            keys, values = ([pair[at] for pair in mapped] for at in (0, 1))
            yield pa.RecordBatch.from_arrays(
                [pa.array(keys, chunk.schema.field(0).type), pa.array(values, pa.int64())], names=["key", "value"]
            )

    pairs = spark.read.parquet(events.events).select("key", "value")
    _write(pairs.mapInArrow(loop, f"key {events.key_type}, value bigint"), out)


def streaming_sums(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window: streaming aggregation in append mode, a file a micro-batch."""
    _stream(_sums(_read_stream(spark, events), sf.window("event_time", "10 seconds")), out)


def streaming_sums_of_groups(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per group of keys and 10-second window: the same aggregation with fewer keys."""
    rows = _read_stream(spark, events).withColumn("key", sf.col("key") % BUCKETS)
    _stream(_sums(rows, sf.window("event_time", "10 seconds")), out)


def streaming_sums_of_sums(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window, and these sums per group of keys: two aggregations, one behind the other."""
    of_keys = _sums_in_windows(_read_stream(spark, events), sf.window("event_time", "10 seconds"))
    of_groups = of_keys.withColumn("key", sf.col("key") % BUCKETS)
    _stream(_sums(of_groups, sf.window("window", "10 seconds")), out)


def streaming_join(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Join orders with their payments of the next quarter of an hour: a stream-stream join with a condition on time."""
    orders, payments = (_read_stream(spark, events, folder) for folder in events.orders())
    payments = payments.toDF("paid_key", "paid_at", "paid")
    is_within = sf.expr("key = paid_key AND paid_at BETWEEN event_time AND event_time + INTERVAL 15 MINUTES")
    _stream(orders.join(payments, is_within).select("key", (sf.col("value") + sf.col("paid")).alias("value")), out)


def per_key_processor(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window: `transformWithStateInPandas` with state and timers for each key."""
    schema = f"key {events.key_type}, window_start timestamp, window_end timestamp, value bigint"
    grouped = _read_stream(spark, events).groupBy("key")
    _stream(grouped.transformWithStateInPandas(WindowSums(), schema, "Append", "EventTime"), out)


class WindowSums(StatefulProcessor):
    """The sums of the key's open windows in one value, and one event-time timer at the end of the first of them.

    A map with an entry and a timer for each window would be simpler; its many small calls make it several times slower.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        self._open = handle.getValueState("open", "ends array<bigint>, sums array<bigint>, timer bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Add the rows to their windows' sums."""
        del key, timerValues
        had = self._open.get()
        sums, timer = (dict(zip(had[0], had[1], strict=True)), had[2]) if had else ({}, None)
        for chunk in rows:
            micros = chunk["event_time"].to_numpy().astype("datetime64[us]").astype("int64")
            ends = (micros // _WINDOW_MICROS + 1) * (_WINDOW_MICROS // 1000)
            for end, value in zip(ends.tolist(), chunk["value"].tolist(), strict=True):
                sums[end] = sums.get(end, 0) + value
        self._keep(sums, timer)
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Emit the sums of all windows that have ended."""
        del expiredTimerInfo
        had = self._open.get()
        if had is None:
            return
        watermark = timerValues.getCurrentWatermarkInMs()
        sums = dict(zip(had[0], had[1], strict=True))
        ended = [end for end in sums if end <= watermark]
        if ended:
            ends = np.array(ended, "datetime64[ms]")
            starts, values = ends - np.timedelta64(_WINDOW_MICROS // 1000, "ms"), [sums.pop(end) for end in ended]
            yield pd.DataFrame({"key": key[0], "window_start": starts, "window_end": ends, "value": values})
        self._keep(sums, None)

    def close(self) -> None:
        """Do nothing: Spark keeps the state."""

    def _keep(self, sums: dict[int, int], timer: int | None) -> None:
        """Store the open windows and see to a timer for the first; one that stands too late is replaced."""
        if not sums:
            self._open.clear()
            return
        first = min(sums)
        if timer is None or first < timer:
            if timer is not None:
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(first)
            timer = first
        self._open.update((list(sums), list(sums.values()), timer))


def _sums(rows: DataFrame, window: Any) -> DataFrame:
    return _sums_in_windows(rows, window).select(
        "key", sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end"), "value"
    )


def _sums_in_windows(rows: DataFrame, window: Any) -> DataFrame:
    return rows.groupBy(window.alias("window"), "key").agg(sf.sum("value").alias("value"))


def _read_stream(spark: SparkSession, events: Events, folder: str | None = None) -> DataFrame:
    return (
        spark.readStream.schema(f"key {events.key_type}, event_time timestamp, value bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(folder or events.with_sentinel)
        .withWatermark("event_time", DELAY)
    )


def _write(result: DataFrame, out: Path | None) -> None:
    if out is None:
        result.write.format("noop").mode("overwrite").save()
    else:
        result.write.parquet(str(out))


def _stream(result: DataFrame, out: Path | None) -> None:
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = result.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        writer = writer.format("noop") if out is None else writer.format("parquet").option("path", str(out))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
