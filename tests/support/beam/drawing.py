"""Scripts and strategies of the subset that Beam's Python runner shares with us."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream

WINDOW_FNS = [
    dm.FixedWindows(4),
    dm.FixedWindows(3, 1),
    dm.SlidingWindows(4, 2),
    dm.Sessions(2),
    dm.Sessions(3),
    dm.GlobalWindows(),
]
LEAVES = [dm.AfterCount(1), dm.AfterCount(2), dm.AfterCount(3), dm.AfterWatermark()]
LATENESS = [0.5, 2.5, 6.5, 50.5]
"""No whole seconds, so that no watermark meets an expiry: there Beam still accepts. Where windows merge none expires
before the end of the script: Beam would merge with windows that are gone."""


@st.composite
def triggers(draw: st.DrawFn, depth: int = 3) -> Any:
    """Draw trees of at most `depth` levels without clocks.

    `or_finally` gets what finishes when it fires, and `AfterAll` what has no turns of its own: there Beam differs.
    """
    kinds = ["repeatedly", "repeatedly", "each", "any", "all", "finally", "watermark", "leaf"]
    kind = draw(st.sampled_from(kinds)) if depth > 1 else "leaf"
    below = triggers(depth - 1)
    match kind:
        case "repeatedly":
            return dm.Repeatedly(draw(below))
        case "finally":
            return draw(below).or_finally(draw(st.sampled_from(LEAVES)))
        case "watermark":
            early = draw(below) if draw(st.booleans()) else None
            return dm.AfterWatermark(early, draw(below) if draw(st.booleans()) else None)
        case "each" | "any" | "all":
            part = st.sampled_from([*LEAVES, dm.DefaultTrigger()]) if kind == "all" else below
            parts = [draw(part) for _ in range(draw(st.integers(1, 3)))]
            return {"each": dm.AfterEach, "any": dm.AfterAny, "all": dm.AfterAll}[kind](*parts)
        case _:
            return draw(st.sampled_from([*LEAVES, dm.DefaultTrigger()]))


@st.composite
def windowing_strategies(draw: st.DrawFn, fns: Any = None, trees: Any = None) -> Any:
    """Draw strategies that discard or accumulate, under Beam's only behaviours: on time always, closing never."""
    modes = [dm.AccumulationMode.CLEAR_ALWAYS, dm.AccumulationMode.ACCUMULATE_ALWAYS]
    fn = draw(st.sampled_from(WINDOW_FNS) if fns is None else fns)
    return dm.WindowingStrategy(
        window_fn=fn,
        trigger=draw(triggers() if trees is None else trees),
        accumulation_mode=draw(st.sampled_from(modes)),
        allowed_lateness=dm.duration(1_000 if fn.is_merging else draw(st.sampled_from(LATENESS))),
        may_lose_data=True,
    )


@st.composite
def scripts(draw: st.DrawFn, max_steps: int = 12) -> TestStream:
    """Draw elements and watermarks; the values are 1, 2, 4, …, so that any sum tells which elements are in it."""
    script, watermark, value = TestStream(), 0, 1
    for _ in range(draw(st.integers(1, max_steps))):
        if draw(st.sampled_from([True, True, False])):
            script = script.add(value, max(watermark + draw(st.integers(-6, 6)), 0), key=draw(st.sampled_from("aab")))
            value *= 2
        else:
            watermark += draw(st.integers(1, 4))
            script = script.watermark(watermark)
    return script
