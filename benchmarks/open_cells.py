"""What state that grows costs a stream in process: by the number of open cells, one for each key and window.

Run `python -m benchmarks.open_cells`; `docs/speed.md` quotes what it prints. It needs neither Spark nor Java. Each
number of cells is measured in a process of its own, so that its memory can be told from that of the others.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from benchmarks.processes import resident
from dataflow_model.runners.local.streaming import Options, opened_stream
from dataflow_model.runners.runs.options import state_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dataflow_model.runners.local.stream import LocalStream

__all__ = ["Cost", "measured", "table"]

CELLS: Final = (100_000, 1_000_000, 10_000_000)
CHANGED: Final = 10_000
"""How many elements a measured micro-batch has, each for a cell that is drawn."""
WINDOWS: Final = 10
"""Open windows of each key."""
_SECOND: Final = 1_000_000
_WINDOW_SECONDS: Final = 10
_AT_ONCE: Final = 100_000
_MICRO_BATCHES: Final = 20
_SCHEMA: Final = pa.schema({"key": pa.int64(), "n": pa.int64(), "at": pa.timestamp("us", "UTC")})


@attrs.frozen
class Cost:
    """What a number of open cells costs.

    Attributes:
        cells: how many there are.
        load: elements per second while they are created, one element each.
        p50, p99: percentiles of the time of a micro-batch that changes some of them, in milliseconds.
        memory: bytes of memory per cell that the process has gained after the last micro-batch.
        stored: bytes per cell of the checkpoint.
        restart: seconds from the restart of the run to the output of its first micro-batch.
    """

    cells: int
    load: float
    p50: float
    p99: float
    memory: float
    stored: float
    restart: float


def _opened(folder: Path, max_state_memory: int | None) -> AbstractContextManager[LocalStream]:
    """Open a sum per key and window with an early pane for each element, where it was left."""
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(
        folder / "in", event_time="at", follow=True, schema=_SCHEMA, watermark=dm.BoundedOutOfOrderness("1 hour")
    )
    windows = dm.Window.into(dm.FixedWindows(f"{_WINDOW_SECONDS} seconds"))
    sums = (
        rows
        | dm.WithKeys("key", value="n")
        | windows.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating()
        | dm.Sum.per_key()
    )
    _ = sums | dm.io.WriteParquet(folder / "out", schema=pa.schema({"key": pa.int64(), "value": pa.int64()}))
    options = Options(str(folder / "checkpoint"), None, _AT_ONCE, dm.Duration(micros=_SECOND), max_state_memory)
    return opened_stream(p.plan(), options)


def _write(folder: Path, name: str, keys: NDArray[np.int64], windows: NDArray[np.int64]) -> None:
    times = pa.array((windows * _WINDOW_SECONDS + 1) * _SECOND, pa.timestamp("us", "UTC"))
    part = folder / "_part"
    pq.write_table(pa.table([pa.array(keys), pa.array(np.ones_like(keys)), times], schema=_SCHEMA), part)
    part.rename(folder / f"{name}.parquet")


def _timed_step(stream: LocalStream) -> float:
    start = time.perf_counter()
    assert stream.step(), "there is a new file"
    return time.perf_counter() - start


def measured(cells: int, changed: int = CHANGED, max_state_memory: int | None = None) -> Cost:
    """Return what a number of cells costs; a multiple of ten."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = folder / "in"
        source.mkdir()
        draw = np.random.default_rng(1)

        def change(name: str) -> None:
            _write(source, name, draw.integers(0, cells // WINDOWS, changed), draw.integers(0, WINDOWS, changed))

        with _opened(folder, max_state_memory) as stream:
            before = resident(os.getpid())
            numbers = np.arange(cells)
            spent = 0.0
            for first in range(0, cells, _AT_ONCE):
                part = numbers[first : first + _AT_ONCE]
                _write(source, f"{first:09}", part // WINDOWS, part % WINDOWS)
                spent += _timed_step(stream)
            times = []
            for number in range(_MICRO_BATCHES):
                change(f"change-{number}")
                times.append(_timed_step(stream) * 1_000)
            memory = (resident(os.getpid()) - before) / cells
        stored = sum(file.stat().st_size for file in (folder / "checkpoint").rglob("*") if file.is_file()) / cells
        change("restart")
        start = time.perf_counter()
        with _opened(folder, max_state_memory) as stream:
            _timed_step(stream)
            restart = time.perf_counter() - start
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return Cost(cells, cells / spent, cuts[49], cuts[98], memory, stored, restart)


def table(counts: Sequence[int] = CELLS, changed: int = CHANGED, max_state_memory: int | None = None) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    yield "| cells | created per s | micro-batch p50, ms | p99, ms | memory per cell | stored per cell | restart, s |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for count in counts:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            cost = process.submit(measured, count, changed, max_state_memory).result()
        times = f"{cost.load:,.0f} | {cost.p50:,.0f} | {cost.p99:,.0f}"
        yield f"| {cost.cells:,} | {times} | {cost.memory:,.0f} | {cost.stored:,.0f} | {cost.restart:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "cells",
        nargs="*",
        type=int,
        default=list(CELLS),
        help="numbers of open cells, in multiples of ten (default: %(default)s)",
    )
    parser.add_argument("--max-state-memory", help="the memory for state, such as '100 MB' (default: not bounded)")
    arguments = parser.parse_args()
    for line in table(arguments.cells, max_state_memory=state_memory(arguments.max_state_memory)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
