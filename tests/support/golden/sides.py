"""Drawn pipelines whose functions have side inputs: static ones, and ones that change while the pipeline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from tests.support.golden.parts import collect, long_script
from tests.support.laws import chains
from tests.support.spec.drawing import WINDOW_FNS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden.parts import Built
    from tests.support.spec.drawing import Pick

__all__ = ["side_inputs"]

_FNS = [dm.FixedWindows(4), dm.FixedWindows(7), dm.SlidingWindows(4, 2), dm.Sessions(3), dm.GlobalWindows()]


def side_inputs(pick: Pick) -> Built:
    """Draw a main input, a side input as a list, a dict or a single value, and a grouping of what is looked up."""
    main, side = long_script(pick), long_script(pick)
    main_fn, side_fn = pick(_FNS[:4]), pick(_FNS)
    lateness, trigger = pick([0, 3]), pick(chains.BUSY)
    view, kind = pick(["list", "dict", "single"]), pick(["changing", "changing", "changing", "static"])
    retracting, again = pick([True, False]) or side_fn.is_merging, pick(WINDOW_FNS)
    drops = pick([True, False])

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        windowed = p | "main" >> main | "main windows" >> dm.Window.into(main_fn).allowed_lateness(lateness)
        if kind == "static":
            seen: Any = p | "side" >> dm.Create([("a", 1), ("d", 2), ("a", 4)])
        else:
            windows = dm.Window.into(side_fn).trigger(trigger).allowed_lateness(5)
            seen = (
                p
                | "side" >> side
                | "side windows" >> windows.accumulation(dm.AccumulationMode.ACCUMULATE_ALWAYS, retracting=retracting)
            )
        argument = _viewed(seen, view)
        look: Any = dm.Map(_looked_up, side=argument)
        if drops:
            looked_up, dropped = windowed | "look" >> look.with_dropped_output()
            collect(dropped, "dropped")
        else:
            looked_up = windowed | "look" >> look
        collect(looked_up, "looked up")
        counted = looked_up | "again" >> dm.Window.into(again).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
        collect(counted | "sums" >> dm.Sum.per_key(), "panes")

    parts = (main.steps, side.steps, main_fn, side_fn, lateness, trigger, view, kind, retracting, again, drops)
    return parts, build


def _viewed(seen: Any, view: str) -> Any:
    """Return a collection of pairs as an argument; a single value is the sum of all."""
    match view:
        case "list":
            return dm.AsList(seen)
        case "dict":
            return dm.AsDict(seen | "side sums" >> dm.Sum.per_key())
        case _:
            total = seen | "side keys" >> dm.Map(_with_one_key) | "side sums" >> dm.Sum.per_key()
            return dm.AsSingleton(total, default=("all", 0))


def _with_one_key(pair: Any) -> tuple[str, Any]:
    return "all", pair[1]


def _looked_up(pair: Any, side: Any) -> tuple[Any, int]:
    """Pair the key with a number that tells the value and all that was seen."""
    match side:
        case dict():
            seen = sum(value * (number + 1) for number, (_, value) in enumerate(sorted(side.items())))
        case tuple():
            seen = side[1]
        case _:
            seen = sum(value for _, value in side)
    return pair[0], pair[1] + 1_000 * seen
