"""Hypothesis strategies for windows, window functions, triggers, strategies and scripts.

Needs the package hypothesis; import it as `from dataflow_model.testing import strategies`. All times are whole seconds
within a couple of minutes from the epoch, so that bounds, deadlines and watermarks often fall together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from dataflow_model.plan.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
    WindowingStrategy,
)
from dataflow_model.testing.streams import TestStream
from dataflow_model.time import Duration, EventTime, duration, event_time
from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
    Trigger,
)
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, Window
from dataflow_model.windowing import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "accumulation_modes",
    "test_streams",
    "triggers",
    "window_fns",
    "windowing_strategies",
    "windows",
]

_LATEST: Final = 120
_LONGEST: Final = 30


def windows() -> st.SearchStrategy[Window]:
    """Draw windows: intervals within two minutes from the epoch, and the global window.

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
        merging: only those whose windows merge, or only the others; `None` for both.

    Example:
        >>> from hypothesis import find
        >>> find(window_fns(merging=True), lambda fn: True)
        Sessions('1 second')
    """
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


def triggers(max_depth: int = 3) -> st.SearchStrategy[Trigger]:
    """Draw trigger trees, those that may finish included.

    Args:
        max_depth: the most levels of the tree; 1 draws leaves only.

    Example:
        >>> from hypothesis import find
        >>> find(triggers(max_depth=1), lambda trigger: isinstance(trigger, AfterCount))
        AfterCount(1)
    """
    leaves: st.SearchStrategy[Trigger] = st.one_of(
        st.builds(AfterCount, st.integers(1, 4)),
        st.builds(AfterProcessingTime, _durations(0, 20)),
        st.just(AfterWatermark()),
        st.just(DefaultTrigger()),
    )
    if max_depth <= 1:
        return leaves
    below = triggers(max_depth - 1)
    several = st.lists(below, min_size=1, max_size=3)
    composites: st.SearchStrategy[Trigger] = st.one_of(
        st.builds(Repeatedly, below),
        several.map(lambda parts: AfterEach(*parts)),
        several.map(lambda parts: AfterAny(*parts)),
        several.map(lambda parts: AfterAll(*parts)),
        st.builds(lambda first, until: first.or_finally(until), below, below),
        st.builds(AfterWatermark, st.none() | below, st.none() | below),
    )
    return st.one_of(leaves, composites, composites)


def accumulation_modes() -> st.SearchStrategy[AccumulationMode]:
    """Draw the accumulation modes that there are: discarding and accumulating.

    Example:
        >>> from hypothesis import find
        >>> find(accumulation_modes(), lambda mode: True)
        <AccumulationMode.CLEAR_ALWAYS: 'clear_always'>
    """
    return st.sampled_from([AccumulationMode.CLEAR_ALWAYS, AccumulationMode.ACCUMULATE_ALWAYS])


@st.composite
def windowing_strategies(
    draw: st.DrawFn,
    *,
    fns: st.SearchStrategy[WindowFn] | None = None,
    trees: st.SearchStrategy[Trigger] | None = None,
    lateness: st.SearchStrategy[Any] | None = None,
    late_data: st.SearchStrategy[LateData | None] | None = None,
) -> WindowingStrategy:
    """Draw windowing strategies, `may_lose_data` always set.

    Args:
        draw: given by hypothesis.
        fns: window functions; all kinds unless given.
        trees: triggers; trees of three levels unless given.
        lateness: anything that a duration can be made of; 0 to 40 seconds unless given.
        late_data: what becomes of expired elements; dropped unless given.

    Example:
        >>> from hypothesis import find
        >>> find(windowing_strategies(), lambda strategy: strategy.accumulates).may_lose_data
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
def test_streams(
    draw: st.DrawFn,
    *,
    keys: Sequence[Any] = ("a", "b"),  # noqa: PT028 - no test, whatever its name
    max_steps: int = 25,  # noqa: PT028
    late: bool = True,  # noqa: PT028
) -> TestStream:
    """Draw scripts of pairs whose values are 1, 2, 4, …: any sum tells which elements are in it.

    Args:
        draw: given by hypothesis.
        keys: the keys to draw from.
        max_steps: the most steps.
        late: whether elements may come behind the watermark.

    Example:
        >>> from hypothesis import find
        >>> find(test_streams(), lambda script: len(script.steps) == 1).steps
        (WatermarkStep(watermark=EventTime(1970-01-01T00:00:00Z)),)
    """
    script, clock, watermark, value = TestStream(), 0, 0, 1
    first = "add" if draw(st.booleans()) else "watermark"
    for number in range(draw(st.integers(0, max_steps))):
        kinds = ["clock", "add", "add", "add", "bundle", "watermark"]
        match first if number == 0 and first == "watermark" else draw(st.sampled_from(kinds)):
            case "clock":
                clock += draw(st.integers(0, 12))
                script = script.processing_time(clock)
            case "watermark":
                watermark += draw(st.integers(0, 20))
                script = script.watermark(watermark)
            case kind:
                some: list[tuple[Any, int]] = []
                for _ in range(1 if kind == "add" else draw(st.integers(1, 4))):
                    at = watermark + draw(st.integers(-_LONGEST if late else 0, _LONGEST))
                    some.append((value, max(at, 0)))
                    value *= 2
                script = script.bundle(some, key=draw(st.sampled_from(list(keys))))
    return script


test_streams.__test__ = False  # type: ignore[attr-defined] # pytest: a strategy, not a test


def _at(seconds: int) -> EventTime:
    return event_time(seconds)


def _durations(least: int, most: int) -> st.SearchStrategy[Duration]:
    return st.integers(least, most).map(lambda seconds: duration(seconds))  # noqa: PLW0108 - typed for mypy
