"""Drawn pipelines of the keyed transforms that are neither groupings nor functions of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from tests.support.golden.parts import LEAVES, collect, long_script
from tests.support.laws import chains
from tests.support.laws.hot_keys import movable_by_none, parts_of_a
from tests.support.spec.drawing import WINDOW_FNS, windowing_strategy

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from tests.support.golden.parts import Built
    from tests.support.spec.drawing import Pick

__all__ = ["keyed"]

_TRANSFORMS = [
    "deduplicated", "batches", "distinct", "latest", "in parts", "in parts of one key", "dead letters", "reshuffled",
    "globally", "retractable", "memoised", "exploded",
]  # fmt: skip


def keyed(pick: Pick) -> Built:
    """Draw a transform, the windows in which it stands, and a grouping behind it."""
    stream, transform = long_script(pick), pick(_TRANSFORMS)
    strategy = windowing_strategy(pick, WINDOW_FNS, list(LEAVES))
    if transform.startswith("in parts"):
        strategy = movable_by_none(attrs.evolve(strategy, trigger=dm.Repeatedly(strategy.trigger)))
    if transform == "distinct":  # whose elements are not numbers that triggers could read
        strategy = attrs.evolve(strategy, trigger=pick(chains.BUSY))
    number, again = pick([1, 2, 3]), pick([fn for fn in WINDOW_FNS if not fn.is_merging])
    lateness = max(strategy.allowed_lateness, dm.duration(pick([0, 5, 50])))
    behind = dm.WindowingStrategy(
        again,
        pick(chains.BUSY),
        dm.AccumulationMode.ACCUMULATE_ALWAYS,
        retracting=pick([True, False]),
        allowed_lateness=lateness,
    )

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        pairs = _applied(transform, p | "script" >> stream, strategy, number)
        collect(pairs, "out")
        windowed = pairs | "windows behind" >> dm.Window.into(behind)
        collect(windowed | "counts" >> dm.Count.per_key(), "panes")

    return (stream.steps, transform, strategy, number, behind), build


def _applied(transform: str, pairs: Any, strategy: WindowingStrategy, number: int) -> Any:
    """Apply a transform; it emits pairs."""
    if transform == "batches":  # whose timers need windows that do not merge
        strategy = dm.WindowingStrategy(dm.FixedWindows(4), allowed_lateness=dm.duration(5))
    windowed = pairs | "windows" >> dm.Window.into(strategy)
    match transform:
        case "deduplicated":
            once, dropped = pairs | "once" >> dm.Deduplicate(_remainder, horizon=number).with_dropped_output()
            collect(dropped, "dropped")
            return once
        case "batches":
            return windowed | "batches" >> dm.GroupIntoBatches(number + 1, max_age=number)
        case "distinct":
            return windowed | "few" >> dm.Map(_few) | "distinct" >> dm.Distinct()
        case "latest":
            return windowed | "latest" >> dm.Latest.per_key()
        case "in parts":
            return windowed | "sums" >> dm.Sum.per_key().with_hot_key_fanout(number)
        case "in parts of one key":
            return windowed | "most" >> dm.Max.per_key().with_hot_key_fanout(parts_of_a)
        case "dead letters":
            good, bad = pairs | "odd" >> dm.Map(_only_odd).with_exception_handling()
            collect(bad | "failed" >> dm.Map(_failed), "dead letters")
            return good
        case "reshuffled":
            return windowed | "sums" >> dm.Sum.per_key() | "again" >> dm.Reshuffle()
        case "globally":
            values = windowed | "values" >> dm.Values()
            return values | "sum" >> dm.Sum.globally() | "key" >> dm.Map(_with_one_key)
        case "retractable" | "memoised":
            sums = windowed | "sums" >> dm.Sum.per_key()
            return sums | "few" >> dm.Map(_few).retractable("memoised" if transform == "memoised" else True)
        case _:
            return windowed | "sums" >> dm.Sum.per_key() | "explode" >> dm.FlatMap(_exploded)


def _remainder(pair: Any) -> int:
    return int(pair[1]) % 11


def _few(pair: Any) -> tuple[Any, int]:
    return pair[0], pair[1] % 3


def _only_odd(pair: Any) -> Any:
    if pair[1] % 3 == 1:
        raise ValueError(pair)
    return pair


def _failed(letter: Any) -> tuple[Any, str]:
    return letter.element, letter.reason


def _with_one_key(value: Any) -> tuple[str, Any]:
    return "all", value


def _exploded(pair: Any) -> list[Any]:
    return [("xyz"[index], pair[1]) for index in range(pair[1] % 3)]
