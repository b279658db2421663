"""Files of a partitioned input, and sums over them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dataflow_model.plan.logical.runner import PipelineResult, Runner


Row = tuple[int, int, int, str]
"""Event time and processing time in seconds, value, partition."""
BY_TEN = dm.Window.into(dm.FixedWindows(10)).allowed_lateness(3_600).trigger(dm.Repeatedly(dm.AfterWatermark()))
ONCE_95 = dm.AfterWatermark(percentile=95)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a file of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    times = [pa.array([second * 10**6 for second in columns[index]], pa.int64()) for index in (0, 1)]
    value, partition = pa.array(columns[2], pa.int64()), pa.array(columns[3], pa.string())
    pq.write_table(pa.table([*times, value, partition], ["at", "seen", "value", "partition"]), path)


def summed(folder: Path, windowing: dm.WindowInto = BY_TEN, **options: Any) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a sum per window."""
    options = {"processing_time": "seen", **options}

    def build(pipeline: dm.Pipeline) -> None:
        rows = pipeline | "rows" >> dm.io.ReadParquet(folder, event_time="at", **options)
        pairs = rows | dm.Map(lambda row: ("k", row.value)) | windowing
        _ = pairs | "sum" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()

    return build


def run(runner: Runner, build: Callable[[dm.Pipeline], Any]) -> PipelineResult:
    """Build a pipeline and run it to its end."""
    pipeline = dm.Pipeline(runner=runner)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


class Collected(Protocol):
    """What has kept the records of a sink."""

    def collected(self, label: str) -> list[Any]: ...


def panes(result: Collected) -> list[tuple[Any, str, int]]:
    """Return value, timing and processing time in seconds of the panes."""
    return [
        (record.value[1], record.pane.timing.name, int(record.processing_time) // 10**6)
        for record in result.collected("kept")
    ]


def twenty(folder: Path, straggler: int = 300) -> None:
    """Write twenty files: nineteen short ones, and one that goes on long after the others."""
    for number in range(19):
        write(folder / f"part-{number:02}.parquet", [(1, 100, 1, ""), (2, 101, 1, "")])
    write(folder / "part-19.parquet", [(3, 100 + second, 1000, "") for second in range(straggler)])


WHOLE = dm.Window.into(dm.GlobalWindows()).trigger(ONCE_95, may_lose_data=True)


def three_files(folder: Path) -> None:
    """Write three files of an unruly input in three partitions."""
    chance = random.Random(5)
    for name in "abc":
        clock, rows = 100, []
        for number in range(60):
            clock += chance.randint(0, 3)
            rows.append((number + chance.randint(-15, 5) + 20, clock, number, chance.choice("xyz")))
        write(folder / f"{name}.parquet", rows)
