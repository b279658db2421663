"""Laws of one grouping: batch and stream agree, bundles do not matter, nothing is lost, panes are in sequence."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep
from dataflow_model.testing import TestStream, assert_panes, panes_of, run_script, strategies
from tests.support.laws.answers import batch_answer, elements_of
from tests.support.laws.drawing import AT_THE_END_OF_TIME, ENDLESS, FOREVER, scripts, windowing_strategies
from tests.support.laws.recutting import recut
from tests.support.scripting import run

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

pytestmark = AT_THE_END_OF_TIME

# Nothing is lost: trees that never finish, and windows that outlive the script.
EVERYTHING = windowing_strategies(retracting=False, trees=ENDLESS, lateness=FOREVER)
UNMERGED = windowing_strategies(
    retracting=False, fns=strategies.window_fns(merging=False), trees=ENDLESS, lateness=FOREVER
)


def discarded(panes: list[dm.Pane], answer: dict[tuple[Any, Any], int]) -> dict[tuple[Any, Any], int]:
    """Fold discarding panes: add up, in the final windows."""
    sums = dict.fromkeys(answer, 0)
    for pane in panes:
        home = (pane.key, pane.window)
        if home not in sums:  # it has merged since
            home = next(
                (key, window)
                for key, window in sums
                if key == pane.key and window.start <= pane.window.start and pane.window.end <= window.end
            )
        sums[home] += pane.value
    return sums


# Batch and stream.


@given(scripts(), EVERYTHING)
def test_discarding_panes_add_up_to_the_batch_answer(script: TestStream, strategy: WindowingStrategy) -> None:
    strategy = attrs.evolve(strategy, accumulation_mode=dm.AccumulationMode.CLEAR_ALWAYS)
    answer = batch_answer(script, strategy.window_fn)
    assert discarded(run_script(script, strategy, dm.Sum()), answer) == answer


@given(scripts(), UNMERGED)
def test_the_last_accumulating_pane_is_the_batch_answer(script: TestStream, strategy: WindowingStrategy) -> None:
    strategy = attrs.evolve(strategy, accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS)
    panes = run_script(script, strategy, dm.Sum())
    assert {(pane.key, pane.window): pane.value for pane in panes} == batch_answer(script, strategy.window_fn)


@given(scripts(), strategies.window_fns())
def test_without_watermarks_the_batch_answer_is_emitted_at_the_end_of_the_input(
    script: TestStream, fn: dm.WindowFn
) -> None:
    only = TestStream([step for step in script.steps if isinstance(step, AddStep)])
    panes = run_script(only, dm.Window.into(fn), dm.Sum())
    assert {(pane.key, pane.window): pane.value for pane in panes} == batch_answer(script, fn)
    assert {pane.info.timing for pane in panes} <= {dm.PaneTiming.ON_TIME}


@given(scripts(), strategies.window_fns(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_change_merged_windows(script: TestStream, fn: dm.WindowFn, random: Any) -> None:
    steps = [AddStep((element,)) for step in script.steps if isinstance(step, AddStep) for element in step.elements]
    random.shuffle(steps)
    panes = run_script(TestStream(steps), dm.Window.into(fn), dm.Sum())
    assert {(pane.key, pane.window): pane.value for pane in panes} == batch_answer(script, fn)


@given(scripts(), UNMERGED, EVERYTHING)
def test_discarding_panes_of_two_groupings_add_up_to_the_batch_answer(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy
) -> None:
    clear = dm.AccumulationMode.CLEAR_ALWAYS
    first = attrs.evolve(first, accumulation_mode=clear, timestamp_combiner=dm.TimestampCombiner.END_OF_WINDOW)
    second = attrs.evolve(second, accumulation_mode=clear)
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    sums = pipeline | script | "1" >> dm.Window.into(first) | "first" >> dm.Sum.per_key()
    rekeyed = sums | dm.MapTuple(lambda key, value: ("all", value)) | "2" >> dm.Window.into(second)
    _ = rekeyed | "second" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    middle = TestStream(
        [
            AddStep(((("all", value), window.max_timestamp),))
            for (_, window), value in batch_answer(script, first.window_fn).items()
        ]
    )
    answer = batch_answer(middle, second.window_fn)
    assert discarded(panes_of(result.collected("panes")), answer) == answer


# Bundles.


@given(st.data(), scripts(), windowing_strategies())
def test_other_bundles_of_the_same_events_change_no_pane(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy
) -> None:
    assert_panes(run_script(data.draw(recut(script)), strategy, dm.Sum()), run_script(script, strategy, dm.Sum()))


# Conservation.


@given(
    scripts(),
    windowing_strategies(retracting=False, late_data=st.sampled_from(dm.LateData)),
)
def test_every_element_is_in_one_discarding_pane_for_each_window_or_counted_as_dropped(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    strategy = attrs.evolve(strategy, accumulation_mode=dm.AccumulationMode.CLEAR_ALWAYS)
    given = run(script, strategy)
    shown: Counter[tuple[Any, Any]] = Counter()
    for pane in given.panes:
        home = pane.key if strategy.merges else (pane.key, pane.window)
        shown.update((home, bit) for bit in range(pane.value.bit_length()) if pane.value >> bit & 1)
    assert set(shown.values()) <= {1}
    dropped = sum(given.counters.get(f"dropped_because_{why}", 0) for why in ("late", "closed"))
    placed = sum(len(strategy.window_fn.assign(at, (key, value))) for key, value, at in elements_of(script))
    assert len(shown) + dropped == placed


# The sequence of panes.


@given(scripts(), windowing_strategies())
def test_the_panes_of_a_window_are_numbered_and_timed_in_sequence(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    by_window: defaultdict[Any, list[dm.PaneInfo]] = defaultdict(list)
    for pane in run_script(script, strategy, dm.Sum()):
        if not pane.is_retraction:  # which repeats the info of what it takes back
            by_window[pane.key, pane.window].append(pane.info)
    for infos in by_window.values():
        assert [info.index for info in infos] == list(range(len(infos)))
        assert [info.is_first for info in infos] == [True, *[False] * (len(infos) - 1)]
        assert not any(info.is_last for info in infos[:-1])
        timings = [info.timing.name for info in infos]
        assert timings == sorted(timings, key=["EARLY", "ON_TIME", "LATE"].index)
        assert timings.count("ON_TIME") <= 1
        early = timings.count("EARLY")
        assert [info.on_time_index for info in infos] == [-1] * early + list(range(len(infos) - early))


# Algebra.


def untold(panes: list[dm.Pane]) -> list[dm.Pane]:
    """Return the panes without the name of the trigger."""
    return [attrs.evolve(pane, info=attrs.evolve(pane.info, trigger=None)) for pane in panes]


@given(scripts(), windowing_strategies(trees=strategies.triggers(2)))
def test_repeatedly_of_repeatedly_emits_the_panes_of_one_repeatedly(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    once = dm.Repeatedly(strategy.trigger)
    panes = [run_script(script, attrs.evolve(strategy, trigger=t), dm.Sum()) for t in (once, dm.Repeatedly(once))]
    assert_panes(untold(panes[1]), untold(panes[0]))


@given(
    st.sampled_from([dm.AfterAll, dm.AfterAny, dm.AfterEach]),
    scripts(),
    windowing_strategies(trees=strategies.triggers(2)),
)
def test_after_all_any_and_each_of_one_trigger_emit_the_panes_of_that_trigger(
    composite: Any, script: TestStream, strategy: WindowingStrategy
) -> None:
    panes = run_script(script, strategy, dm.Sum())
    wrapped = run_script(script, attrs.evolve(strategy, trigger=composite(strategy.trigger)), dm.Sum())
    assert_panes(untold(wrapped), untold(panes))


@given(st.lists(st.integers(0, 60), min_size=1), st.integers(1, 20))
def test_merging_merged_sessions_again_changes_nothing(times: list[int], gap: int) -> None:
    fn = dm.Sessions(gap)
    windows: set[Any] = {fn.assign(dm.event_time(time), None)[0] for time in times}
    for members, merged in list(fn.merge(sorted(windows, key=lambda window: window.start))):
        windows = (windows - set(members)) | {merged}
    assert list(fn.merge(sorted(windows, key=lambda window: window.start))) == []
