"""Drawn pipelines over files whose rows are replayed at the times when they were seen, some with sinks of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dataflow_model as dm
from tests.support.golden.parts import apply, collect
from tests.support.inputs import SECOND, write_history
from tests.support.laws import chains

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden.parts import Built
    from tests.support.spec.drawing import Pick

__all__ = ["OUT", "replayed_files"]

OUT = "out"
"""The folder in which a pipeline writes files."""
_SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
Row = tuple[int, int, str, int]


def replayed_files(pick: Pick) -> Built:
    """Draw one to three files, an estimator of their watermark, one or two groupings, and perhaps a sink of files."""
    files = [_rows(pick) for _ in range(pick([1, 1, 2, 3]))]
    watermark = pick(
        [
            dm.BoundedOutOfOrderness(pick([0, 1, 4])),
            dm.Monotonic(),
            dm.Explicit(_is_punctuation),
            dm.AdaptiveLateness(0.2),
            dm.WallTime("2 seconds"),
        ]
    )
    groupings, sink = chains.chain(pick, pick([1, 1, 2])), pick([None, None, "json", "csv", "parquet"])

    def build(p: dm.Pipeline, folder: Path) -> None:
        for number, rows in enumerate(files):
            write_history(folder / "rows" / f"{number}.parquet", rows)
        read = p | "rows" >> dm.io.ReadParquet(
            folder / "rows", event_time="at", processing_time="seen", watermark=watermark
        )
        pairs = read | "pairs" >> dm.Map(_pair)
        apply(groupings, pairs)
        if sink is not None:
            written = pairs | "tens" >> dm.Window.into(dm.FixedWindows(10)).allowed_lateness(5)
            sums = written | "sums" >> dm.Sum.per_key()
            collect(sums, "written panes")
            _ = sums | "write" >> _sink(sink, folder / OUT)

    return (*files, watermark, *groupings.groupings, sink), build


def _sink(kind: str, folder: Path) -> Any:
    sinks: dict[str, Any] = {"json": dm.io.WriteJson, "csv": dm.io.WriteCsv, "parquet": dm.io.WriteParquet}
    return sinks[kind](folder, schema=_SCHEMA, panes=True)


def _rows(pick: Pick) -> list[Row]:
    """Draw rows of event time, time when they were seen, key and value, in the order in which they were seen."""
    clock, rows = pick(range(4)), []
    for number in range(pick(range(8, 30))):
        clock += pick([0, 0, 0, 1, 1, 2, 5])
        at = max(0, clock - pick([0, 0, 1, 3, 6, 20]))
        rows.append((at * SECOND, clock * SECOND, pick("aadbg"), 1 << number))
    return rows


def _pair(row: Any) -> tuple[str, int]:
    return row.key, row.n


def _is_punctuation(row: Any) -> bool:
    return bool(row.n % 7 == 1)
