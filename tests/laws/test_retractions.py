"""Laws of retracting groupings: values less retractions are the batch answer, and balance at every step on the way."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of, run_script, strategies
from tests.support.laws.answers import batch_answer, elements_of
from tests.support.laws.drawing import AT_THE_END_OF_TIME, BUSY, ENDLESS, FOREVER, scripts, windowing_strategies
from tests.support.laws.retracting import by_parity, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy

pytestmark = AT_THE_END_OF_TIME

RETRACTING = windowing_strategies(retracting=True, trees=st.one_of(BUSY, ENDLESS), lateness=FOREVER)
MENDABLE = windowing_strategies(  # what may stand behind a retracting grouping: windows that stay, nothing dropped
    fns=strategies.window_fns(merging=False), trees=st.one_of(BUSY, ENDLESS), lateness=FOREVER
).filter(lambda strategy: strategy.accumulates)


# One grouping.


@given(scripts(), windowing_strategies(retracting=True))
def test_a_retraction_equals_the_current_value_and_no_window_has_two_values(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    standing(run_script(script, strategy, dm.Sum()))


@given(scripts(), RETRACTING)
def test_values_minus_retractions_equal_the_batch_answer_whatever_windows_merge(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    assert standing(run_script(script, strategy, dm.Sum())) == batch_answer(script, strategy.window_fn)


@given(scripts(), RETRACTING)
def test_retracting_panes_have_the_values_of_accumulating_panes(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    accumulating = run_script(script, attrs.evolve(strategy, retracting=False), dm.Sum())
    values = [pane for pane in run_script(script, strategy, dm.Sum()) if not pane.is_retraction]
    assert values == accumulating


# Chains.


def to_one(key: Any, value: Any) -> tuple[str, Any]:
    """Give every value the same key."""
    return "all", value


def grouped_by_hand(
    panes: Iterable[tuple[Any, Any]], rekey: Any, fn: dm.WindowFn, *, total: Callable[[list[Any]], Any]
) -> Any:
    """Return what a second grouping of the values that stand gives, all data in hand at once.

    Args:
        panes: window and (key, value) of each.
        rekey: as the pipeline's.
        fn: places them, at the end of their windows.
        total: combines.
    """
    placed: defaultdict[Any, list[Any]] = defaultdict(list)
    for window, (key, value) in panes:
        new_key, new_value = rekey(key, value)
        for assigned in fn.assign(window.max_timestamp, (new_key, new_value)):
            placed[new_key, assigned].append(new_value)
    return {place: total(values) for place, values in placed.items()}


def chained(
    script: TestStream, strategies_: Sequence[WindowingStrategy], rekeys: Sequence[Any], combine: Any
) -> tuple[Any, list[list[Record]]]:
    """Run groupings one after the other, the first one sums; return the result and what each has emitted."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    pcoll = pipeline | script
    for number, strategy in enumerate(strategies_):
        if number:
            pcoll = pcoll | f"rekey {number}" >> dm.MapTuple(rekeys[number - 1])
        combined = dm.CombinePerKey(dm.Sum() if number == 0 else combine)
        pcoll = pcoll | f"where {number}" >> dm.Window.into(strategy) | f"group {number}" >> combined
        _ = pcoll | f"panes {number}" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    return result, [list(result.collected(f"panes {number}")) for number in range(len(strategies_))]


def at_its_end(strategy: WindowingStrategy) -> WindowingStrategy:
    return attrs.evolve(strategy, timestamp_combiner=dm.TimestampCombiner.END_OF_WINDOW)


@given(
    scripts(),
    RETRACTING.map(at_its_end),
    MENDABLE,
    st.sampled_from([by_parity, to_one]),
    st.sampled_from([(dm.Sum(), sum), (dm.Max(), max), (dm.ToList(), sorted), (dm.Count(), len)]),
)
def test_two_retracting_groupings_in_sequence_give_the_batch_answer(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy, rekey: Any, how: Any
) -> None:
    combine, total = how
    second = attrs.evolve(second, accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS)
    _, (_, last) = chained(script, [first, second], [rekey], combine)
    stood = [(window, (key, value)) for (key, window), value in batch_answer(script, first.window_fn).items()]
    expected = grouped_by_hand(stood, rekey, second.window_fn, total=total)
    assert nets(panes_of(last), second, total) == expected


def nets(panes: list[dm.Pane], strategy: WindowingStrategy, total: Any) -> dict[Any, Any]:
    """Return each window's net value; a window that has been emptied has none, or the combiner's value of nothing."""
    last = standing(panes) if strategy.retracting else {(pane.key, pane.window): pane.value for pane in panes}
    actual = {key: sorted(value) if isinstance(value, list) else value for key, value in last.items()}
    return {key: value for key, value in actual.items() if value not in (0, None, [])}


@given(scripts(), RETRACTING.map(at_its_end), RETRACTING.map(at_its_end), MENDABLE)
def test_three_retracting_groupings_in_sequence_give_the_batch_answer(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy, third: WindowingStrategy
) -> None:
    second = attrs.evolve(second, window_fn=dm.FixedWindows(7) if second.merges else second.window_fn)
    third = attrs.evolve(third, accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS)
    _, (_, _, last) = chained(script, [first, second, third], [by_parity, to_one], dm.Sum())
    stood = [(window, (key, value)) for (key, window), value in batch_answer(script, first.window_fn).items()]
    middle = grouped_by_hand(stood, by_parity, second.window_fn, total=sum)
    again = [(window, (key, value)) for (key, window), value in middle.items()]
    expected = grouped_by_hand(again, to_one, third.window_fn, total=sum)
    assert nets(panes_of(last), third, sum) == expected


@given(scripts(), RETRACTING.map(at_its_end), windowing_strategies(retracting=True))
def test_after_each_bundle_the_second_grouping_equals_the_net_output_of_the_first(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy
) -> None:
    second = attrs.evolve(
        second,
        window_fn=dm.GlobalWindows(),
        trigger=dm.Repeatedly(dm.AfterCount(1)),
        accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS,
        allowed_lateness=first.allowed_lateness,
    )
    _, (before, after) = chained(script, [first, second], [to_one], dm.Sum())
    for instant in sorted({record.order[:2] for record in [*before, *after]}):
        stands = standing(panes_of([record for record in before if record.order[:2] <= instant]))
        net = standing(panes_of([record for record in after if record.order[:2] <= instant]))
        assert sum(net.values()) == sum(stands.values())


# Counting what is dropped.


@given(scripts(), windowing_strategies(retracting=True, late_data=st.just(dm.LateData.DROP)))
def test_every_element_is_in_the_last_pane_of_its_window_or_counted_as_dropped(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    grouped = pipeline | script | dm.Window.into(strategy) | "group" >> dm.Sum.per_key()
    _ = grouped | "panes" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    panes = panes_of(result.collected("panes"))
    shown: Counter[Any] = Counter()
    for (key, window), value in standing(panes).items():
        cell = key if strategy.merges else (key, window)
        shown.update((cell, bit) for bit in range(value.bit_length()) if value >> bit & 1)
    counts = result.metrics().get("group", {})
    dropped = sum(counts.get(f"dropped_because_{why}", 0) for why in ("late", "closed"))
    placed = sum(len(strategy.window_fn.assign(at, (key, value))) for key, value, at in elements_of(script))
    assert set(shown.values()) <= {1}
    if strategy.accumulation_mode is dm.AccumulationMode.ACCUMULATE_ALWAYS:
        assert len(shown) + dropped == placed


def test_scripts_for_the_laws_of_retractions_contain_merges_and_refinements() -> None:
    """The laws would hold for nothing if no drawn case had a retraction after a merge."""
    script = TestStream().bundle([(1, 0), (2, 8), (4, 4)], key="a")
    windowing = dm.Window.into(dm.Sessions(5)).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    panes = run_script(script, windowing, dm.Sum())
    assert [(pane.value, pane.is_retraction) for pane in panes] == [
        (1, False),
        (2, False),
        (1, True),
        (2, True),
        (7, False),
    ]
