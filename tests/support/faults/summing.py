"""A small pipeline for faults that need no process of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.runners.sharded.tasks import faults
from tests.support.faults.outcomes import files_of
from tests.support.pipelines import run, seen, streaming

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record

__all__ = ["FILES", "SINK", "Sums"]

SINK = "panes"
FILES = "files"
NETS = pa.schema({"key": pa.int64(), "value": pa.int64()})
ROWS = 240
PER_WINDOW = 20


class Sums:
    """Sums per key and window, chained to a second grouping so that there are two keyed stages.

    Args:
        folder: where the input and the checkpoint go.
        replays: whether rows say when they were seen; under the wall clock otherwise.
    """

    def __init__(self, folder: Path, *, replays: bool = True) -> None:
        folder.mkdir(exist_ok=True)
        self.rows = folder / "rows.parquet"
        self.out = folder / "out"
        self.checkpoint = folder / "checkpoint"
        self.replays = replays
        numbers = range(ROWS)
        columns = {
            "at": list(numbers),
            "seen": [n + (n * 31 % 50 if n % 4 == 0 else n % 7) for n in numbers],  # a part of every fourth is late
            "key": [n // 10 % 9 for n in numbers],  # a key comes, expires, and comes again
            "n": list(numbers),
        }
        pq.write_table(pa.table(columns).sort_by([("seen", "ascending"), ("at", "ascending")]), self.rows)

    def build(self, p: dm.Pipeline, out: Path | None = None) -> Any:
        """Build the pipeline, and return what its sinks take."""
        rows = p | "rows" >> dm.io.ReadParquet(
            self.rows,
            event_time="at",
            processing_time="seen" if self.replays else None,
            watermark=dm.BoundedOutOfOrderness("10 microseconds"),
        )
        windowing = (
            dm.Window.into(dm.FixedWindows(f"{PER_WINDOW} microseconds"))
            .trigger(dm.AfterWatermark(early=dm.AfterCount(4), late=dm.AfterCount(1)))
            .allowed_lateness("60 microseconds")
            .accumulating_and_retracting()
        )
        sums = rows | "pair" >> dm.Map(lambda row: (row.key, row.n)) | windowing | "sums" >> dm.Sum.per_key()
        odd = sums | "by oddness" >> dm.Map(lambda pair: (pair[0] % 2, pair[1])) | "both" >> dm.Sum.per_key()
        _ = odd | SINK >> dm.io.Collect()
        _ = odd | FILES >> dm.io.WriteParquet(out or self.out, schema=NETS, panes=True)
        return odd

    def uninterrupted(self) -> dict[str, list[Any]]:
        """Return what a run commits that nothing happens to."""
        apart = self.out.with_name("uninterrupted")
        result = run(dm.LocalRunner(), lambda p: self.build(p, apart))
        return {SINK: seen(result.collected(SINK)), FILES: files_of(apart)}

    def committed(self) -> list[Record]:
        """Return what the checkpoint keeps for `Collect`, also of a run that has failed."""
        return read_collected(str(self.checkpoint / "dataflow"), SINK)

    def outcome(self, records: Sequence[Record], out: Path | None = None) -> dict[str, list[Any]]:
        """Return what a run has committed, given what it has collected."""
        return {SINK: seen(records), FILES: files_of(out or self.out)}

    def runner(self, spark: SparkSession, **options: Any) -> dm.SparkRunner:
        """Return a runner that goes on from the checkpoint."""
        return streaming(spark, self.checkpoint, **{"max_rows_per_batch": 40, **options})

    def run(self, spark: SparkSession, fault: faults.Fault = faults.NO_FAULT, **options: Any) -> dict[str, list[Any]]:
        """Run from the checkpoint to the end with a fault, and return what has been committed."""
        faults.arm(fault)
        try:
            result = run(self.runner(spark, **options), self.build, until=None)
        finally:
            faults.disarm()
        return self.outcome(result.collected(SINK))
