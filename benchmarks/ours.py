"""The same jobs through this package's public API.

Each takes what its counterpart in `theirs` takes. With a folder the panes' index and timing are written too, two
columns more than theirs. Without one they go to the `Discard` sink on the workers, as theirs go to Spark's `noop` sink.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import dataflow_model as dm
from benchmarks.data import DELAY, HOT_KEY, Events
from benchmarks.discard import Discard
from benchmarks.local_functions import (
    PAID_WITHIN,
    Statistics,
    as_pair,
    both_of,
    buckets,
    hot_pair,
    scaled,
    scaled_columns,
    total_of,
)
from benchmarks.triggered import WINDOWS, arriving, windowing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = [
    "batch_hot_key",
    "batch_known_hot_key",
    "batch_like_keys",
    "batch_map",
    "batch_one_by_one",
    "batch_sessions",
    "batch_sums",
    "batch_triggered",
    "batch_vectorized",
    "streaming_join",
    "streaming_one_by_one",
    "streaming_retracting",
    "streaming_sums",
    "streaming_triggered",
    "streaming_vectorized",
]

_TIMEOUT: Final = 1800.0


def batch_sums(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window."""
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        _sums(pipeline, events, WINDOWS, out)


def batch_triggered(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window, with early panes."""
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        _ = _pairs(pipeline, events) | windowing().accumulating() | dm.Sum.per_key() | _sink(events, out, panes=True)


def batch_sessions(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and session."""
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        _sums(pipeline, events, dm.Sessions("5 seconds"), out)


def batch_map(spark: SparkSession, events: Events, out: Path | None, function: Callable[[Any], Any]) -> None:
    """Call a Python function for each pair of key and value."""
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        _ = _pairs(pipeline, events) | dm.Map(function) | _sink(events, out, panes=False)


def batch_hot_key(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Combine in Python where nine events of ten have one key; every key is split into parts."""
    combine = dm.CombinePerKey(Statistics()).with_hot_key_fanout(16)
    _batch_combine(spark, events, out, dm.Map(hot_pair), combine)


def batch_known_hot_key(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Do the same, but split only the key that most events have."""
    combine = dm.CombinePerKey(Statistics()).with_hot_key_fanout(lambda key: 16 if key == HOT_KEY else 1)
    _batch_combine(spark, events, out, dm.Map(hot_pair), combine)


def batch_like_keys(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Combine in Python where all keys are alike."""
    _batch_combine(spark, events, out, dm.Map(as_pair), dm.CombinePerKey(Statistics()))


def batch_vectorized(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Call a function on columns."""
    _batch_map(spark, events, out, dm.Map(scaled_columns, vectorized=True))


def batch_one_by_one(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Call the function of one element that says the same."""
    _batch_map(spark, events, out, dm.Map(scaled))


def streaming_vectorized(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Call a function on columns, in micro-batches of a file's size, until the input is drained."""
    _streaming_map(spark, events, out, dm.Map(scaled_columns, vectorized=True))


def streaming_one_by_one(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Call the function of one element that says the same."""
    _streaming_map(spark, events, out, dm.Map(scaled))


def streaming_sums(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key and 10-second window, in micro-batches of a file's size, until the input is drained."""
    with _drained(spark, events) as pipeline:
        _sums(pipeline, events, WINDOWS, out)


def streaming_triggered(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Do the same with early and late panes: events are replayed as they arrived, the watermark two seconds behind."""
    with _drained(spark, events) as pipeline:
        pairs = arriving(pipeline, events) | windowing().accumulating()
        _ = pairs | dm.Sum.per_key() | _sink(events, out, panes=True)


def streaming_retracting(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Sum per key with panes that take back the panes before them, and sum those per group of keys."""
    panes = windowing().accumulating_and_retracting()
    with _drained(spark, events) as pipeline:
        sums = arriving(pipeline, events) | panes | "of keys" >> dm.Sum.per_key()
        grouped = sums | dm.Map(buckets)
        _ = grouped | "of groups" >> dm.Sum.per_key() | _sink(events, out, panes=True)


def streaming_join(spark: SparkSession, events: Events, out: Path | None) -> None:
    """Join orders with their payments of the next quarter of an hour, in micro-batches of a file's size for each."""
    with _drained(spark, events, rows=2 * events.rows_per_file) as pipeline:
        sides = []
        for name, folder in zip(("orders", "payments"), events.orders(), strict=True):
            read = dm.io.ReadParquet(folder, event_time="event_time", watermark=dm.BoundedOutOfOrderness(DELAY))
            sides.append(pipeline | name >> read | f"pairs of {name}" >> dm.WithKeys("key", value="value"))
        joined = tuple(sides) | dm.Join(between=("0 s", PAID_WITHIN)) | dm.Map(both_of)
        _ = joined | _sink(events, out, panes=False)


@contextlib.contextmanager
def _drained(spark: SparkSession, events: Events, rows: int | None = None) -> Iterator[dm.Pipeline]:
    """Run what is built in micro-batches of so many rows, by default those of a file, until the input is drained."""
    with tempfile.TemporaryDirectory() as checkpoint:
        most = rows or events.rows_per_file
        runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=most)
        pipeline = dm.Pipeline(runner=runner)
        yield pipeline
        pipeline.run(until="drained").wait_until_finish(_TIMEOUT)


def _batch_map(spark: SparkSession, events: Events, out: Path | None, mapping: Any) -> None:
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        _ = _rows(pipeline, events) | mapping | _sink(events, out, panes=False)


def _batch_combine(spark: SparkSession, events: Events, out: Path | None, pair: Any, combine: Any) -> None:
    with dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch")) as pipeline:
        pairs = _rows(pipeline, events) | "pair" >> pair
        combined = pairs | dm.Window.into(WINDOWS) | "combine" >> combine
        _ = combined | "total" >> dm.Map(total_of) | _sink(events, out, panes=True)


def _streaming_map(spark: SparkSession, events: Events, out: Path | None, mapping: Any) -> None:
    with _drained(spark, events) as pipeline:
        _ = _rows(pipeline, events) | mapping | _sink(events, out, panes=False)


def _rows(pipeline: Any, events: Events) -> Any:
    watermark = dm.BoundedOutOfOrderness(DELAY)
    return pipeline | dm.io.ReadParquet(events.events, event_time="event_time", watermark=watermark)


def _pairs(pipeline: Any, events: Events) -> Any:
    return _rows(pipeline, events) | dm.WithKeys("key", value="value")


def _sums(pipeline: Any, events: Events, windows: Any, out: Path | None) -> None:
    _ = _pairs(pipeline, events) | dm.Window.into(windows) | dm.Sum.per_key() | _sink(events, out, panes=True)


def _sink(events: Events, out: Path | None, *, panes: bool) -> Any:
    if out is None:
        return dm.Write(Discard())
    schema = pa.schema({"key": pa.string() if events.string_keys else pa.int64(), "value": pa.int64()})
    return dm.io.WriteParquet(str(out), schema=schema, panes=panes)
