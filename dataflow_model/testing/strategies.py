"""Hypothesis strategies for windows, window functions, triggers, strategies and scripts.

They need the package hypothesis; import them with `from dataflow_model.testing import strategies`. All times are whole
seconds within a few minutes of the epoch, so that bounds, deadlines and watermarks often coincide.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from hypothesis import strategies as st

from dataflow_model.plan.logical.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
    WindowingStrategy,
)
from dataflow_model.testing.chains import Chain, ChainedGrouping, all_together, by_remainder
from dataflow_model.testing.streams import TestStream
from dataflow_model.time import Duration, EventTime, duration, event_time
from dataflow_model.transforms import Count, Max, Sum
from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterBytes,
    AfterCount,
    AfterEach,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AfterWatermark,
    Always,
    AtPeriod,
    DataTrigger,
    DefaultTrigger,
    Never,
    OrFinally,
    RepeatCount,
    Repeatedly,
    RepeatUntil,
    TimeDomain,
    Trigger,
)
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, Window
from dataflow_model.windowing import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    _Kind: TypeAlias = tuple[type[Trigger], st.SearchStrategy[Any]]

_LATEST: Final = 120
_LONGEST: Final = 30


def windows() -> st.SearchStrategy[Window]:
    """Draw windows: intervals within two minutes of the epoch, and the global window.

    Example:
        >>> from hypothesis import find
        >>> find(windows(), lambda window: window != GLOBAL_WINDOW)
        [1970-01-01T00:00:00Z, 1970-01-01T00:00:01Z)
    """
    starts, sizes = st.integers(0, _LATEST), st.integers(1, _LONGEST)
    intervals = st.builds(lambda start, size: IntervalWindow(_at(start), _at(start + size)), starts, sizes)
    return st.one_of(intervals, st.just(GLOBAL_WINDOW))


def window_fns(*, merging: bool | None = None) -> st.SearchStrategy[WindowFn]:
    """Draw window functions of every kind.

    Args:
        merging: `True` draws only functions whose windows merge, `False` only others, `None` both.

    Example:
        >>> from hypothesis import find
        >>> find(window_fns(merging=True), lambda fn: True)
        Sessions('1 second')
    """
    return _window_fns(merging=merging)


# Hypothesis validates each new strategy object, which takes longer than drawing from it: so each is created only once.
@functools.cache
def _window_fns(*, merging: bool | None) -> st.SearchStrategy[WindowFn]:
    sessions = st.builds(Sessions, _durations(1, 20))
    if merging:
        return sessions
    others: list[st.SearchStrategy[Any]] = [
        st.builds(FixedWindows, _durations(1, _LONGEST), _durations(0, 10)),
        st.builds(SlidingWindows, _durations(5, _LONGEST), _durations(5, _LONGEST), _durations(0, 10)),
        st.just(GlobalWindows()),
        st.just(CalendarWindows.days(1, timezone="America/New_York")),
    ]
    return st.one_of(*others) if merging is False else st.one_of(*others[:1], sessions, *others[1:])


SIGNALS: Final = ("go", "stop")
"""The names of the signals that drawn triggers wait for."""
PERCENTILES: Final = (50, 90)
"""The percentiles of the watermark below 100 that drawn triggers wait for."""


@attrs.frozen
class AfterTotal(DataTrigger):
    """Fire once the values since the last firing add up to `least`; the data trigger that `triggers` draws.

    Example:
        >>> AfterTotal(10).should_emit(7, 4)
        (True, 0)
    """

    least: int

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        """Add up the values."""
        total = (state or 0) + element
        return (True, 0) if total >= self.least else (False, total)

    def merge_state(self, states: Sequence[Any]) -> Any:
        """Add up the values."""
        return sum(states)


def is_mark(element: Any) -> bool:
    """Return whether a number is one more than a multiple of three; the punctuation that `triggers` draws.

    Example:
        >>> [number for number in (1, 2, 4, 8, 16) if is_mark(number)]
        [1, 4, 16]
    """
    return bool(element % 3 == 1)


def triggers(max_depth: int = 3, *, only: Collection[type[Trigger]] | None = None) -> st.SearchStrategy[Trigger]:
    """Draw trigger trees of every kind, including trees that may finish; the elements must be numbers.

    Args:
        max_depth: the maximum depth of the tree; 1 draws only leaves.
        only: the classes to draw from, at least one of them a leaf; by default all.

    Example:
        >>> from hypothesis import find
        >>> find(triggers(max_depth=1), lambda trigger: isinstance(trigger, AfterCount))
        AfterCount(1)
        >>> find(triggers(only=[AfterCount, Repeatedly]), lambda trigger: isinstance(trigger, Repeatedly))
        Repeatedly(AfterCount(1))
    """
    return _triggers(max(max_depth, 1), None if only is None else frozenset(only))


@functools.cache
def _triggers(max_depth: int, only: frozenset[type[Trigger]] | None) -> st.SearchStrategy[Trigger]:
    leaves = st.one_of(_chosen(_leaves(), only))
    if max_depth == 1:
        return leaves
    composites = _chosen(_composites(_triggers(max_depth - 1, only)), only)
    return st.one_of(leaves, *composites, *composites) if composites else leaves


def _chosen(kinds: Iterable[_Kind], only: Collection[type[Trigger]] | None) -> list[st.SearchStrategy[Trigger]]:
    return [drawn for kind, drawn in kinds if only is None or kind in only]


def _leaves() -> list[_Kind]:
    lengths, numbers = _durations(0, 20), st.integers(1, 4)
    domains, references = st.sampled_from(TimeDomain), st.integers(0, 10)
    by_length = st.builds(AtPeriod, _durations(1, 20), domain=domains, reference=references)
    by_calendar = st.builds(
        AtPeriod,
        st.sampled_from(["1 day", "2 weeks", "1 month"]),
        domain=domains,
        reference=st.sampled_from(["1970-01-01T00:00:30", "2013-01-31T08:00"]),
        timezone=st.sampled_from(["UTC", "Europe/London"]),
    )
    return [
        (AfterCount, st.builds(AfterCount, numbers)),
        (AfterProcessingTime, st.builds(AfterProcessingTime, lengths)),
        (AfterWatermark, st.just(AfterWatermark())),
        (DefaultTrigger, st.just(DefaultTrigger())),
        (AfterEventTime, st.builds(AfterEventTime, lengths)),
        (AtPeriod, st.one_of(by_length, by_length, by_calendar)),
        (AfterBytes, st.builds(AfterBytes, st.integers(1, 10))),
        (AfterPunctuation, st.just(AfterPunctuation(is_mark))),
        (AfterTotal, st.builds(AfterTotal, st.integers(1, 40))),
        (AfterSignal, st.builds(AfterSignal, st.sampled_from(SIGNALS))),
        (AfterWatermark, st.builds(AfterWatermark, percentile=st.sampled_from(PERCENTILES))),
        (Always, st.just(Always())),
        (Never, st.just(Never())),
    ]


def _composites(below: st.SearchStrategy[Trigger]) -> list[_Kind]:
    several = st.lists(below, min_size=1, max_size=3)
    return [
        (Repeatedly, st.builds(Repeatedly, below)),
        (AfterEach, several.map(lambda parts: AfterEach(*parts))),
        (AfterAny, several.map(lambda parts: AfterAny(*parts))),
        (AfterAll, several.map(lambda parts: AfterAll(*parts))),
        (OrFinally, st.builds(OrFinally, below, below)),
        (AfterWatermark, st.builds(AfterWatermark, st.none() | below, st.none() | below)),
        (RepeatCount, st.builds(RepeatCount, below, st.integers(1, 3))),
        (RepeatUntil, st.builds(RepeatUntil, below, below)),
    ]


def accumulation_modes() -> st.SearchStrategy[AccumulationMode]:
    """Draw the four accumulation modes; they differ in effect only by triggers that choose a firing mode.

    Example:
        >>> from hypothesis import find
        >>> find(accumulation_modes(), lambda mode: True)
        <AccumulationMode.CLEAR_ALWAYS: 'clear_always'>
    """
    return st.sampled_from(AccumulationMode)


@st.composite
def windowing_strategies(
    draw: st.DrawFn,
    *,
    fns: st.SearchStrategy[WindowFn] | None = None,
    trees: st.SearchStrategy[Trigger] | None = None,
    lateness: st.SearchStrategy[Any] | None = None,
    late_data: st.SearchStrategy[LateData | None] | None = None,
) -> WindowingStrategy:
    """Draw windowing strategies; `may_lose_data` is always set.

    Args:
        draw: hypothesis's draw function.
        fns: window functions; by default all kinds.
        trees: triggers; by default trees of up to three levels.
        lateness: values that `duration` accepts; by default 0 to 40 seconds.
        late_data: what happens to expired elements; by default they are dropped.

    Example:
        >>> import dataflow_model as dm
        >>> from hypothesis import find, strategies as st
        >>> early = dm.AfterWatermark(early=dm.AfterCount(10))
        >>> find(windowing_strategies(trees=st.just(early)), lambda strategy: strategy.accumulates).may_lose_data
        True
    """
    return WindowingStrategy(
        window_fn=draw(window_fns() if fns is None else fns),
        trigger=draw(triggers() if trees is None else trees),
        accumulation_mode=draw(accumulation_modes()),
        allowed_lateness=duration(draw(st.sampled_from([0, 0, 5, 15, 40]) if lateness is None else lateness)),
        on_time=draw(st.sampled_from(OnTimeBehavior)),
        closing=draw(st.sampled_from(ClosingBehavior)),
        timestamp_combiner=draw(st.sampled_from(TimestampCombiner)),
        late_data=None if late_data is None else draw(late_data),
        may_lose_data=True,
    )


@st.composite
def chains(
    draw: st.DrawFn,
    max_groupings: int = 3,
    *,
    windowings: st.SearchStrategy[WindowingStrategy] | None = None,
) -> Chain:
    """Draw chains of two or more groupings, to call with a collection of pairs whose values are numbers.

    For each grouping, windows, trigger, mode, retractions, timestamps and lateness are drawn, or it inherits them; so
    are the combiner and the keys by which it groups the panes of the grouping before. Combinations that a plan rejects
    after a retracting grouping are not drawn.

    Args:
        draw: hypothesis's draw function.
        max_groupings: the maximum number of groupings, at least two.
        windowings: the strategies of the groupings; by default `windowing_strategies()`. An accumulating strategy may
            be made retracting. After a retracting grouping, a strategy gets at least its lateness and windows that do
            not merge.

    Example:
        >>> from hypothesis import find
        >>> by_default = chains(windowings=st.just(WindowingStrategy()))
        >>> find(by_default, lambda chain: len(chain.groupings) == 3).labels
        ['grouping 1', 'grouping 2', 'grouping 3']
    """
    if windowings is None:
        windowings = windowing_strategies()
    count = draw(st.integers(2, max_groupings))
    groupings: list[ChainedGrouping] = []
    before: WindowingStrategy | None = None
    for number in range(1, count + 1):
        rekey = draw(st.sampled_from([None, by_remainder, all_together])) if before else None
        combine: Any = draw(st.sampled_from([Sum(), Count()] if number < count else [Sum(), Max(), None]))
        ways = ["anew", "when and how", "inherited"] if before else ["anew"]
        way = draw(st.sampled_from(ways))
        strategy: WindowingStrategy | None = None
        if way != "inherited":
            strategy = draw(windowings)
            if strategy.accumulates:
                strategy = attrs.evolve(strategy, retracting=draw(st.booleans()))
            if before is not None and before.retracting:
                strategy = _behind_retractions(draw, strategy, before)
                combine = combine if strategy.accumulates else Sum()
            before = strategy
        groupings.append(ChainedGrouping(strategy, combine, rekey, keeps_windows=way == "when and how"))
    return Chain(tuple(groupings))


def _behind_retractions(draw: st.DrawFn, strategy: WindowingStrategy, before: WindowingStrategy) -> WindowingStrategy:
    """Return a strategy allowed after a retracting grouping: windows that do not merge, and enough lateness."""
    return attrs.evolve(
        strategy,
        window_fn=draw(window_fns(merging=False)) if strategy.merges else strategy.window_fn,
        allowed_lateness=max(strategy.allowed_lateness, before.allowed_lateness),
    )


@st.composite
def test_streams(
    draw: st.DrawFn,
    *,
    keys: Sequence[Any] = ("a", "b"),  # noqa: PT028 - no test, whatever its name
    max_steps: int = 25,  # noqa: PT028
    late: bool = True,  # noqa: PT028
    signals: Sequence[str] = (),  # noqa: PT028
    percentiles: Sequence[float] = (),  # noqa: PT028
) -> TestStream:
    """Draw scripts of pairs whose values are 1, 2, 4, …, so that any sum identifies the elements in it.

    Args:
        draw: hypothesis's draw function.
        keys: the keys to draw from.
        max_steps: the maximum number of steps.
        late: whether elements may arrive behind the watermark.
        signals: the names of the signals to draw from, such as `SIGNALS`; by default none.
        percentiles: the percentiles of the watermark below 100 that may run ahead of it, such as `PERCENTILES`.

    Example:
        >>> from hypothesis import find
        >>> find(test_streams(), lambda script: len(script.steps) == 1).steps
        (WatermarkStep(watermark=EventTime(1970-01-01T00:00:00Z), percentile=100.0),)
    """
    script, clock, watermark, value = TestStream(), 0, 0, 1
    ahead = dict.fromkeys(sorted(percentiles), 0)
    kinds = ["clock", "add", "add", "add", "bundle", "watermark"]
    kinds += [*["signal"] * bool(signals), *["ahead"] * bool(ahead)]
    first = "add" if draw(st.booleans()) else "watermark"
    for number in range(draw(st.integers(0, max_steps))):
        match first if number == 0 and first == "watermark" else draw(st.sampled_from(kinds)):
            case "clock":
                clock += draw(st.integers(0, 12))
                script = script.processing_time(clock)
            case "watermark":
                watermark += draw(st.integers(0, 20))
                script = script.watermark(watermark)
            case "ahead":
                percentile = draw(st.sampled_from(list(ahead)))
                behind = [watermark, *(at for share, at in ahead.items() if share >= percentile)]
                ahead[percentile] = max(behind) + draw(st.integers(0, 20))
                script = script.watermark(ahead[percentile], percentile=percentile)
            case "signal":
                script = script.signal(draw(st.sampled_from(list(signals))))
            case kind:
                elements: list[tuple[Any, int]] = []
                for _ in range(1 if kind == "add" else draw(st.integers(1, 4))):
                    at = watermark + draw(st.integers(-_LONGEST if late else 0, _LONGEST))
                    elements.append((value, max(at, 0)))
                    value *= 2
                script = script.bundle(elements, key=draw(st.sampled_from(list(keys))))
    return script


test_streams.__test__ = False  # type: ignore[attr-defined] # pytest: a strategy, not a test


def _at(seconds: int) -> EventTime:
    return event_time(seconds)


def _durations(least: int, most: int) -> st.SearchStrategy[Duration]:
    return st.integers(least, most).map(lambda seconds: duration(seconds))  # noqa: PLW0108 - typed for mypy
