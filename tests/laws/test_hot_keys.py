"""Laws of fan-out: the final answers are those of the combiner without it, whatever arrives and however it is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.laws.examples import share_of_examples
from tests.support.laws.hot_keys import (
    COMBINERS,
    DIRECT,
    FANNED,
    Combining,
    both_ways,
    combine_both_ways,
    comparable,
    final_answers,
    movable_by_none,
    parts_of_a,
    windowings,
)
from tests.support.pipelines import run, seen
from tests.support.retractions.drawing import UNMERGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.logical.strategy import WindowingStrategy

pytestmark = AT_THE_END_OF_TIME

DROPS = ("dropped_because_late", "dropped_because_closed", "dropped_retractions")
SCRIPTS = strategies.test_streams(signals=strategies.SIGNALS, percentiles=strategies.PERCENTILES)
SCHEDULES = st.builds(
    Schedule,
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([(1,), (2, 5), (4,), (1_000,)]),
    st.sets(st.integers(0, 6), max_size=2).map(frozenset),
    st.dictionaries(st.integers(0, 5), st.integers(0, 6), max_size=1),
)


FANOUTS = st.sampled_from([1, 2, 3, 7, parts_of_a])


def combinings(windows: WindowingStrategy) -> st.SearchStrategy[Combining]:
    return st.sampled_from([combining for combining in COMBINERS if windows.accumulates or combining.fold is not None])


def check_answers(result: Any, windows: WindowingStrategy, combining: Combining, *, but: Any = None) -> None:
    """Compare the final answers, without those of nothing if `but` is the combiner."""
    answers = [final_answers(result.collected(f"{name} panes"), windows, combining) for name in (DIRECT, FANNED)]
    if but is not None:
        of_nothing = comparable(but.extract_output(but.create_accumulator()))
        answers = [{key: value for key, value in of.items() if value != of_nothing} for of in answers]
    assert answers[1] == answers[0]
    counters = result.metrics()
    for name in DROPS:
        direct, parts, total = (
            counters.get(label, {}).get(name, 0) for label in (DIRECT, f"{FANNED}/Parts", f"{FANNED}/Total")
        )
        assert (parts, total) == (direct, 0), name


def check_stream(local: Any, schedule: Schedule, build: Callable[[dm.Pipeline], None]) -> None:
    """Compare the panes of a sharded stream, cut and interrupted, with those of the local runner."""
    runner: Any = MicroBatchRunner(schedule)
    stream = run(runner, build)
    for name in (DIRECT, FANNED):
        assert seen(stream.collected(f"{name} panes")) == seen(local.collected(f"{name} panes"))


SESSIONS = windowings(strategies.window_fns(merging=True))


@share_of_examples(0.4)
@given(st.data(), SCRIPTS, windowings() | SESSIONS, FANOUTS, SCHEDULES)
def test_final_answers_are_the_same_with_and_without_fanout(
    data: st.DataObject, script: TestStream, windows: WindowingStrategy, fanout: Any, schedule: Schedule
) -> None:
    combining = data.draw(combinings(windows))
    build = both_ways(script, windows, combining, fanout)
    local = run(dm.LocalRunner(clock=0), build)
    check_answers(local, windows, combining)
    check_stream(local, schedule, build)


ONE_PANE = st.builds(
    lambda fn, stamped: movable_by_none(attrs.evolve(dm.Window.into(fn).strategy, timestamp_combiner=stamped)),
    strategies.window_fns(),
    st.sampled_from(dm.TimestampCombiner),
)


@given(SCRIPTS, ONE_PANE, FANOUTS)
def test_windows_with_one_pane_have_the_same_event_times_with_and_without_fanout(
    script: TestStream, windows: WindowingStrategy, fanout: Any
) -> None:
    result = run(dm.LocalRunner(clock=0), both_ways(script, windows, Combining(sum, sum), fanout))
    direct, fanned = (
        sorted((repr(record.value), repr(record.window), int(record.event_time)) for record in records)
        for records in (result.collected(f"{DIRECT} panes"), result.collected(f"{FANNED} panes"))
    )
    assert fanned == direct


@pytest.mark.parametrize(
    ("windows", "stamped"),
    [(dm.FixedWindows(10), "latest"), (dm.Sessions(10), "latest"), (dm.Sessions(10), "earliest")],
)
def test_fanout_is_rejected_with_a_way_out_where_late_elements_would_move_event_times(
    windows: dm.WindowFn, stamped: Any
) -> None:
    pairs = dm.Pipeline() | dm.Create([("a", 1)]) | dm.Window.into(windows).timestamp_combiner(stamped)
    problem = rf"(?s)'Sum.PerKey' combines in parts.*'{stamped}'.*\nHint: use .timestamp_combiner\('end_of_window'"
    with pytest.raises(dm.InvalidArgument, match=problem):
        _ = pairs | dm.Sum.per_key().with_hot_key_fanout(2)


@pytest.mark.parametrize("fanout", [2, 3, 4, 7, 31])
@pytest.mark.parametrize("times", [(0, 8), (0, 12, 8), (12, 0, 8)])
def test_a_late_element_joins_an_open_session_whatever_part_of_the_fanout_it_is_in(
    fanout: int, times: tuple[int, ...]
) -> None:
    """The last element is late, and its part's session ends after the one that it joins."""
    *first, late = times
    script = TestStream().bundle([(1, at) for at in first], key="hot").watermark(9).add(2, late, key="hot")
    windows = dm.Window.into(dm.Sessions(10)).strategy
    result = run(dm.LocalRunner(clock=0), both_ways(script.watermark(11), windows, Combining(sum, sum), fanout))
    check_answers(result, windows, Combining(sum, sum))
    assert len(final_answers(result.collected(f"{FANNED} panes"), windows, Combining(sum, sum))) == 1


# Chains -------------------------------------------------------------------------------------------------------------


def by_remainder(key: str, value: int) -> tuple[int, int]:
    """Give a key that changes with the value, so that a retraction and its replacement part."""
    del key
    return value % 2, value


@st.composite
def refined(draw: st.DrawFn) -> tuple[WindowingStrategy, WindowingStrategy]:
    """Draw a retracting strategy, and one of a grouping behind it; nothing is dropped."""
    first = attrs.evolve(draw(UNMERGED), timestamp_combiner=dm.TimestampCombiner.END_OF_WINDOW)
    second = draw(UNMERGED)
    how = draw(st.sampled_from(["discarding", "accumulating", "retracting"]))
    if how == "discarding":
        mode = dm.AccumulationMode.CLEAR_ALWAYS
        return first, attrs.evolve(movable_by_none(second), accumulation_mode=mode, retracting=False)
    return first, attrs.evolve(second, retracting=how == "retracting")


def can_take_back(combining: Combining, windows: WindowingStrategy) -> bool:
    """Return whether a combiner is accepted behind retractions."""
    return windows.accumulates or (combining.per_key().fn.can_subtract and combining.fold is not None)


@share_of_examples(0.3)
@given(st.data(), SCRIPTS, refined(), FANOUTS, SCHEDULES)
def test_final_answers_after_a_retracting_grouping_are_the_same_with_and_without_fanout(
    data: st.DataObject,
    script: TestStream,
    both: tuple[WindowingStrategy, WindowingStrategy],
    fanout: Any,
    schedule: Schedule,
) -> None:
    first, second = both
    combining = data.draw(st.sampled_from([candidate for candidate in COMBINERS if can_take_back(candidate, second)]))

    def build(pipeline: dm.Pipeline) -> None:
        refining = pipeline | script | "first" >> dm.Window.into(first) | dm.Sum.per_key()
        pairs = refining | dm.MapTuple(by_remainder) | "second" >> dm.Window.into(second)
        combine_both_ways(pairs, combining, fanout)

    local = run(dm.LocalRunner(clock=0), build)
    check_answers(local, second, combining, but=combining.per_key().fn)
    check_stream(local, schedule, build)


@given(SCRIPTS, refined(), FANOUTS, st.sampled_from([dm.Sum(), dm.Count(), dm.Max()]))
def test_a_grouping_after_fanout_applies_its_retractions(
    script: TestStream, both: tuple[WindowingStrategy, WindowingStrategy], fanout: Any, combine: Any
) -> None:
    first, second = both
    total = Combining(dm.Sum(), sum)

    def build(pipeline: dm.Pipeline) -> None:
        pairs = pipeline | script | "first" >> dm.Window.into(first)
        sums = combine_both_ways(pairs, Combining(combine, None), fanout)
        for name, collection in zip((DIRECT, FANNED), sums, strict=True):
            again = collection | f"{name} again" >> dm.Window.into(second)
            _ = again | f"{name} total" >> dm.Sum.per_key() | f"{name} totals" >> dm.io.Collect()

    result = run(dm.LocalRunner(clock=0), build)
    check_answers(result, first, Combining(combine, None))
    totals = [final_answers(result.collected(f"{name} totals"), second, total) for name in (DIRECT, FANNED)]
    direct, fanned = ({key: value for key, value in of.items() if value != "0"} for of in totals)
    assert fanned == direct
