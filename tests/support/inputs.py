"""Files of rows that tests read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

SECOND = 1_000_000
Row = tuple[int, int, int]
"""Event time, processing time and value; times in seconds."""


def write_rows(file: Path, first: int, last: int) -> None:
    """Write a file as a followed directory wants it: whole when it appears."""
    numbers = list(range(first, last))
    file.parent.mkdir(exist_ok=True)
    fresh = file.with_name(f"_{file.name}")
    pq.write_table(pa.table({"at": numbers, "seen": numbers, "key": [n % 3 for n in numbers], "n": numbers}), fresh)
    fresh.rename(file)


def summing(folder: Path, *, follow: bool = False) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", processing_time="seen", follow=follow)
        pairs = rows | "pair" >> dm.Map(lambda row: (row.key, row.n))
        windowed = pairs | "windows" >> dm.Window.into(dm.FixedWindows("10 microseconds")).accumulating()
        _ = windowed | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


def write_replay(folder: Path, rng: random.Random, *, cases: int, files: int, rows: int) -> None:
    """Write rows of many cases, sorted by the clock in each file; many share a tick, many are late."""
    folder.mkdir()
    for file in range(files):
        clock = rng.randrange(5)
        columns: dict[str, list[Any]] = {"known_at": [], "at": [], "case": [], "key": [], "value": []}
        for row in range(rows // files):
            clock += rng.choice([0, 0, 0, 0, 1, 1, 2, 7]) if row % cases == 0 else rng.choice([0] * 30 + [1])
            columns["known_at"].append(clock * SECOND)
            columns["at"].append((clock + rng.randint(-40, 3)) * SECOND)
            columns["case"].append(rng.randrange(cases))
            columns["key"].append(rng.choice("abc"))
            columns["value"].append(rng.randrange(1_000))
        pq.write_table(pa.table(columns), folder / f"part-{file}.parquet", row_group_size=97)


def write_seconds(path: Path, rows: list[Row]) -> None:
    """Write a file of rows whose times are in seconds."""
    columns = {name: [row[index] for row in rows] for index, name in enumerate(("at", "seen", "value"))}
    micros = {name: [number * 10**6 for number in columns[name]] for name in ("at", "seen")}
    pq.write_table(pa.table({**micros, "value": columns["value"]}), path)


def write_history(file: Path, rows: Sequence[tuple[int, int, str, int]]) -> None:
    """Write rows of (event time, when it was seen, key, number)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    names = ("at", "seen", "key", "n")
    pq.write_table(pa.table({name: [row[index] for row in rows] for index, name in enumerate(names)}), file)
