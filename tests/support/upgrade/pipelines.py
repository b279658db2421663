"""Pipelines whose runs are stopped and continued."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

import dataflow_model as dm
from tests.support.side_inputs import joined

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def retracting(folder: Path, retractable: bool | Literal["memoised"] = True) -> Build:
    def build(p: dm.Pipeline) -> None:
        sessions = dm.Window.into(dm.Sessions("6 microseconds")).trigger(
            dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
        )
        strategy = sessions.allowed_lateness("50 microseconds").accumulating_and_retracting()
        counts = pairs(p, folder) | strategy | "counts" >> dm.Count.per_key()
        lengths = counts | "lengths" >> dm.Map(lambda pair: (pair[1], 1)).retractable(retractable)
        wide = dm.Window.into(dm.FixedWindows("60 microseconds")).trigger(dm.Repeatedly(dm.AfterProcessingTime(5)))
        late = wide.allowed_lateness("90 microseconds")
        totals = lengths | "wide" >> late.accumulating_and_retracting() | "t" >> dm.Sum.per_key()
        _ = totals | "panes" >> dm.io.Collect()

    return build


def memoising(folder: Path) -> Build:
    return retracting(folder, "memoised")


def by_percentile(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows("20 microseconds")).allowed_lateness("9 microseconds")
        strategy = windows.trigger(dm.AfterWatermark(percentile=60), may_lose_data=True)
        counts = pairs(p, folder) | strategy | "counts" >> dm.Count.per_key() | "again" >> dm.Reshuffle()
        with_percentiles = counts | "told" >> dm.Map(
            lambda pair, watermark_percentile: (pair[0], (pair[1], watermark_percentile))
        )
        _ = with_percentiles | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


class Quiet(dm.DoFn):
    """Tell a key's sum when it has been quiet."""

    total = dm.CombiningStateSpec(dm.Sum())
    rest = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: tuple[str, int], total: dm.CombiningState[int, int], rest: dm.Timer) -> None:
        total.add(pair[1])
        rest.set_after("7 microseconds")

    @dm.on_timer(rest)
    def at_rest(self, key: str, total: dm.CombiningState[int, int]) -> Iterator[tuple[str, int]]:
        yield key, total.read()
        total.clear()


def stateful(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        quiet = pairs(p, folder) | "quiet" >> dm.ParDo(Quiet())
        twenties = dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = quiet | twenties | "counts" >> dm.Count.per_key() | "panes" >> dm.io.Collect()

    return build


def deduplicated(folder: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        once = pairs(p, folder) | "once" >> dm.Deduplicate(lambda pair: pair[1] % 90, horizon="60 microseconds")
        windowed = once | dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = windowed | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


def looking_up(_: Path) -> Build:
    return joined


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


PIPELINES = [plain, chained, retracting, memoising, by_percentile, stateful, deduplicated, looking_up]
