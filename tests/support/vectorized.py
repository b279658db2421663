"""One pipeline in two forms: with functions on columns, and with functions of one element that say the same."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pc: Any = importlib.import_module("pyarrow.compute")  # it makes its functions then, unseen by type checkers
SINKS = ("numbers", "pairs", "panes", "either")


def of_third(batch: pa.RecordBatch) -> pa.Array:
    """Drop every third row."""
    return pc.not_equal(batch["n"].to_numpy() % 3, 0)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return pairs of the key and the number, doubled."""
    return pa.record_batch({"key": batch["key"], "value": pc.multiply(batch["n"], 2)})


def shifted(batch: pa.RecordBatch, by: int) -> Any:
    """Return plain numbers as an array of NumPy."""
    return batch["value"].to_numpy() + by


def negated(batch: pa.RecordBatch) -> pa.Table:
    """Return pairs with the value negated, as a table."""
    return pa.table({"key": batch["key"], "value": pc.negate(batch["value"])})


def is_even(batch: pa.RecordBatch) -> pa.Array:
    """Keep even values."""
    return pc.equal(pc.bit_wise_and(batch["value"], 1), 0)


class Either(dm.DoFn):
    """Adds 1, in both forms."""

    def process(self, pair: tuple[str, int]) -> Iterator[tuple[str, int]]:
        """Add 1 to one."""
        yield pair[0], pair[1] + 1

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add 1 to all."""
        yield pa.record_batch({"key": batch["key"], "value": pc.add(batch["value"], 1)})


def both_forms(folder: Path, *, vectorized: bool) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline over a history of rows: before and behind a grouping that takes panes back."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(
            folder, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("4 microseconds")
        )
        kept: Any
        pairs: Any
        if vectorized:
            kept = rows | "some" >> dm.Filter(of_third, vectorized=True)
            pairs = kept | "pair" >> dm.Map(doubled, vectorized=True).with_output_types(tuple[str, int])
            numbers = pairs | "shift" >> dm.Map(shifted, by=5, vectorized=True)
        else:
            kept = rows | "some" >> dm.Filter(lambda row: row.n % 3 != 0)
            pairs = kept | "pair" >> dm.Map(lambda row: (row.key, row.n * 2)).with_output_types(tuple[str, int])
            numbers = pairs | "shift" >> dm.Map(lambda pair, by: pair[1] + by, by=5)
        _ = numbers | "numbers" >> dm.io.Collect()
        _ = pairs | "pairs" >> dm.io.Collect()
        _ = pairs | "each" >> dm.ParDo(Either()) | "either" >> dm.io.Collect()
        trigger = dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
        windows = dm.Window.into(dm.SlidingWindows("20 microseconds", "10 microseconds")).trigger(trigger)
        strategy = windows.allowed_lateness("30 microseconds").accumulating_and_retracting()
        sums = pairs | "windows" >> strategy | "sums" >> dm.Sum.per_key()
        if vectorized:
            even = sums | "even" >> dm.Filter(is_even, vectorized=True)
            behind = even | "negate" >> dm.Map(negated, vectorized=True)
        else:
            even = sums | "even" >> dm.Filter(lambda pair: pair[1] % 2 == 0)
            behind = even | "negate" >> dm.Map(lambda pair: (pair[0], -pair[1]))
        _ = behind | "panes" >> dm.io.Collect()

    return build
