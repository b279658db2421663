"""Windowing strategies and scripts on a grid of a few seconds, so that bounds, deadlines and watermarks fall together.

Everything is picked from lists through one function: hypothesis gives one whose picks shrink, `random` a fast one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.spec.triggers_of_users import Both, EveryThird, FiresWith, OddResult, Restless, Timeout, one_in_three

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy

    Pick = Callable[[Sequence[Any]], Any]

EVENT_TIME, PROCESSING_TIME = dm.TimeDomain.EVENT_TIME, dm.TimeDomain.PROCESSING_TIME
SECONDS, FEW = range(7), range(1, 4)
SILENT = "a user's that finishes in silence"
LEAVES: dict[str, Callable[[Pick], Any]] = {
    "AfterWatermark": lambda _: dm.AfterWatermark(),
    "DefaultTrigger": lambda _: dm.DefaultTrigger(),
    "AfterCount": lambda pick: dm.AfterCount(pick(FEW)),
    "AfterProcessingTime": lambda pick: dm.AfterProcessingTime(pick(SECONDS)),
    "AfterEventTime": lambda pick: dm.AfterEventTime(pick(SECONDS)),
    "AtPeriod": lambda pick: dm.AtPeriod(pick(FEW)),
    "AtPeriod in event time": lambda pick: dm.AtPeriod(pick(FEW), domain=EVENT_TIME, reference=dm.EventTime(1_000_000)),
    "AfterBytes": lambda pick: dm.AfterBytes(pick(range(1, 40))),
    "AfterPunctuation": lambda _: dm.AfterPunctuation(one_in_three),
    "Always": lambda _: dm.Always(),
    "Never": lambda _: dm.Never(),
    "a DataTrigger": lambda _: EveryThird(),
    "a user's that peeks": lambda _: OddResult(),
    "a user's with a timer": lambda pick: Timeout(pick(SECONDS), PROCESSING_TIME, timer_mode(pick)),
    "a user's with a timer in event time": lambda pick: Timeout(pick(SECONDS), EVENT_TIME, timer_mode(pick)),
    "a user's with modes": lambda pick: FiresWith(modes(pick)),
    SILENT: lambda pick: FiresWith((*modes(pick), "done")),
    "AfterSignal": lambda _: dm.AfterSignal("now"),
    "AfterWatermark of a percentile": lambda pick: dm.AfterWatermark(percentile=pick([50, 90])),
}
RESTLESS = "a user's that uses everything"
BOTH = "a user's composite"
MORE_LEAVES: dict[str, Callable[[Pick], Any]] = {
    **LEAVES,
    RESTLESS: lambda pick: Restless(pick(SECONDS), timer_mode(pick)),
    BOTH: lambda pick: Both(several(pick), pick(SECONDS), timer_mode(pick)),
}
"""With those of which the specification says nothing."""
COMPOSITES = ["leaf", "Repeatedly", "Repeatedly", "RepeatCount", "Each", "Any", "All", "until", "until", "watermark"]
WINDOW_FNS = [
    dm.FixedWindows(4),
    dm.FixedWindows(3, 1),
    dm.SlidingWindows(4, 2),
    dm.SlidingWindows(2, 3),
    dm.GlobalWindows(),
    dm.Sessions(2),
    dm.Sessions(3),
    dm.Sessions(4),
]
MODES = [(mode, False) for mode in dm.AccumulationMode] + [
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, True),
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, True),
    (dm.AccumulationMode.ACCUMULATE_BY_DEFAULT, True),
]
COMBINERS = [dm.Sum(), dm.Sum(), dm.Max(), None]


@attrs.frozen
class Case:
    """A script for groupings in sequence: those after the first assign windows anew or keep what they are given."""

    script: TestStream
    strategies: tuple[WindowingStrategy, ...]
    combine: dm.CombineFn[Any, Any, Any] | None
    assigns: bool = True


def modes(pick: Pick) -> tuple[Any, ...]:
    return tuple(pick([None, "clear", *dm.FiringMode]) for _ in range(pick(SECONDS)))


def timer_mode(pick: Pick) -> dm.FiringMode:
    mode: dm.FiringMode = pick(list(dm.FiringMode))
    return mode


def tree(pick: Pick, leaves: Sequence[str], depth: int = 3) -> Any:
    """Draw a trigger tree of at most `depth` levels."""

    def below() -> Any:
        return tree(pick, leaves, depth - 1)

    match pick(COMPOSITES) if depth > 1 else "leaf":
        case "Repeatedly":
            return dm.Repeatedly(below())
        case "RepeatCount":
            return dm.RepeatCount(below(), pick(FEW))
        case "until":
            first, until = below(), below()
            return dm.RepeatUntil(first, until) if pick([True, False]) else first.or_finally(until)
        case "watermark":
            early, late = (below() if pick([True, False]) else None for _ in range(2))
            return dm.AfterWatermark(early, late)
        case "leaf":
            return MORE_LEAVES[pick(leaves)](pick)
        case name:
            return getattr(dm, f"After{name}")(*(below() for _ in range(pick(FEW))))


def several(pick: Pick) -> tuple[Any, ...]:
    """Draw a few small trees."""
    leaves = [leaf for leaf in MORE_LEAVES if leaf != SILENT]
    return tuple(tree(pick, leaves, 2) for _ in range(pick(FEW)))


def windowing_strategy(pick: Pick, window_fns: Sequence[Any], leaves: Sequence[str], lateness: int = 0) -> Any:
    mode, retracting = pick(MODES)
    window_fn = pick(window_fns)
    if window_fn.is_merging:  # what a part that finished without firing means to the merged window, nothing says
        leaves = [leaf for leaf in leaves if leaf != SILENT]
    trigger = tree(pick, leaves)
    policies = [dm.LateData.DROP, dm.LateData.DROP, dm.LateData.DUPLICATE_WINDOW]
    return dm.WindowingStrategy(
        window_fn=window_fn,
        trigger=trigger,
        accumulation_mode=mode,
        retracting=retracting,
        allowed_lateness=dm.Duration(micros=lateness + pick([0, 0, 2, 4, 10, 50]) * 1_000_000),
        on_time=pick(list(dm.OnTimeBehavior)),
        closing=pick(list(dm.ClosingBehavior)),
        timestamp_combiner=pick(list(dm.TimestampCombiner)),
        late_data=pick(policies),
        may_lose_data=True,
    )


def script(
    pick: Pick, kinds: Sequence[str], keys: Sequence[str] = "aaab", lengths: Sequence[int] = range(1, 21)
) -> TestStream:
    """Draw a script of pairs whose values are 1, 2, 4, …: any sum tells which elements are in it."""
    steps, clock, watermark, ahead, value = TestStream(), 0, 0, 0, 1
    for _ in range(pick(lengths)):
        match pick(kinds):
            case "clock":
                clock += pick(range(5))
                steps = steps.processing_time(clock)
            case "watermark":
                watermark += pick(range(5))
                steps = steps.watermark(watermark)
            case "percentile":
                ahead = max(ahead, watermark + pick(SECONDS))
                steps = steps.watermark(ahead, percentile=pick([50, 90]))
            case "signal":
                steps = steps.signal("now")
            case kind:
                bundle = [
                    (value << number, max(watermark + pick([0, *range(-6, 7)]), 0))
                    for number in range(pick(FEW) if kind == "bundle" else 1)
                ]
                value <<= len(bundle)
                steps = steps.bundle(bundle, key=pick(keys))
    return steps


STEPS = [
    "element", "element", "element", "bundle", "clock", "clock", "watermark", "watermark", "percentile", "signal",
]  # fmt: skip


def case(pick: Pick) -> Case:
    """Draw a case of one grouping."""
    strategy = windowing_strategy(pick, WINDOW_FNS, list(LEAVES))
    return Case(script(pick, STEPS), (strategy,), pick(COMBINERS))


def chain(pick: Pick) -> Case:
    """Draw a case of two groupings, or of three."""
    strategies = [windowing_strategy(pick, WINDOW_FNS, list(LEAVES))]
    assigns = pick([True, False])
    for _ in range(pick([1, 1, 2])):
        before = strategies[-1]
        window_fns = [fn for fn in WINDOW_FNS if not (before.retracting and fn.is_merging)]  # the others are rejected
        after = windowing_strategy(pick, window_fns, list(LEAVES), int(before.allowed_lateness))
        kept = {} if assigns else {"window_fn": before.window_fn, "merged": before.window_fn.is_merging}
        strategies.append(attrs.evolve(after, **kept))
    return Case(script(pick, STEPS), tuple(strategies), dm.Sum(), assigns)


def rekey(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """Group sums by something else, so that a value and its retraction may part."""
    return "xyz"[pair[1] % 3], pair[1]


@st.composite
def cases(draw: st.DrawFn, make: Callable[[Pick], Case] = case) -> Case:
    """Draw cases that shrink."""
    return make(lambda options: draw(st.sampled_from(options)))


def random_case(seed: int, make: Callable[[Pick], Case] = case) -> Case:
    """Return the case of a seed, fast."""
    return make(random.Random(seed).choice)
