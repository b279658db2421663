"""Pipelines whose runs are stopped and continued."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import dataflow_model as dm

if TYPE_CHECKING:
    from pathlib import Path


ROWS = 240
Build = Any


def history(seed: int, first: int = 0, rows: int = ROWS) -> list[tuple[int, int, str, int]]:
    """Return rows that come out of order, some of them late, several at one tick."""
    chance = random.Random(seed)
    return [
        (max(0, number - chance.choice([0, 0, 1, 3, 9, 40])), number // 3, chance.choice("abcdefg"), number)
        for number in range(first, first + rows)
    ]


def pairs(p: dm.Pipeline, folder: Path, label: str = "rows") -> Any:
    read = p | label >> dm.io.ReadParquet(
        folder, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("4 microseconds")
    )
    return read | f"{label} pairs" >> dm.Map(lambda row: (row.key, row.n))


def sums(elements: Any, mode: dm.AccumulationMode = dm.AccumulationMode.ACCUMULATE_ALWAYS) -> Any:
    trigger = dm.AfterWatermark(early=dm.AfterCount(3), late=dm.AfterCount(1))
    windows = dm.Window.into(dm.FixedWindows("20 microseconds")).trigger(trigger)
    strategy = windows.allowed_lateness("30 microseconds").accumulation(mode)
    return elements | "windows" >> strategy | "sums" >> dm.Sum.per_key()


def plain(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        _ = sums(pairs(p, folder)) | "panes" >> dm.io.Collect()

    return build


def chained(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        by_letter = sums(pairs(p, folder), dm.AccumulationMode.CLEAR_ALWAYS)
        regrouped = by_letter | "halves" >> dm.Map(lambda pair: (pair[0] < "d", pair[1]))
        _ = regrouped | "again" >> dm.Reshuffle() | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


TWENTY = "20 microseconds"


def branched(folder: Path, *branches: str, percentile: float = 100) -> Build:
    """Return a pipeline with some of several groupings."""

    def build(p: dm.Pipeline) -> None:
        elements = pairs(p, folder)
        if "sums" in branches:
            _ = sums(elements) | "panes" >> dm.io.Collect()
        if "counts" in branches:
            trigger = dm.AfterWatermark(percentile=percentile)
            windows = dm.Window.into(dm.FixedWindows(TWENTY)).trigger(trigger, may_lose_data=True)
            _ = elements | "count windows" >> windows | "counts" >> dm.Count.per_key() | "counted" >> dm.io.Collect()

    return build


def several(*folders: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        sources = tuple(pairs(p, folder, folder.name) for folder in folders)
        together = sources | "all" >> dm.Flatten() | "again" >> dm.Reshuffle()
        _ = sums(together) | "panes" >> dm.io.Collect()

    return build
