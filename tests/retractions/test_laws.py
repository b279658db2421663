"""Laws of retracting groupings: what stands in the end is the batch answer, and at any time what was last said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import run_script, strategies
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.retractions.accounts import Account, batch, elements_of, instants, retracting, run
from tests.support.retractions.drawing import ANYTHING, ENDLESS, FOREVER, UNMERGED, AtEachChange

if TYPE_CHECKING:
    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

pytestmark = AT_THE_END_OF_TIME

# Nothing is lost: trees that never finish, and windows that outlive the script.
EVERYTHING = strategies.windowing_strategies(trees=ENDLESS, lateness=FOREVER).map(retracting)
COMBINERS: st.SearchStrategy[CombineFn[Any, Any, Any]] = st.sampled_from(
    [dm.Sum(), dm.Count(), dm.Max(), dm.Min(), dm.Top(2), dm.ToSet(), dm.Together(n=dm.Count(), most=dm.Max())]
)


def combined(combine: CombineFn[Any, Any, Any], values: list[Any]) -> Any:
    accumulator = combine.create_accumulator()
    for value in values:
        accumulator = combine.add_input(accumulator, value)
    return combine.extract_output(accumulator)


@given(strategies.test_streams(), EVERYTHING, COMBINERS)
def test_values_minus_retractions_are_the_batch_answer(
    script: TestStream, strategy: WindowingStrategy, combine: CombineFn[Any, Any, Any]
) -> None:
    standing: dict[Any, Any] = {}
    for pane in run_script(script, strategy, combine):
        home = (pane.key, pane.window)
        if pane.is_retraction:
            assert standing.pop(home) == pane.value
        else:
            assert home not in standing
            standing[home] = pane.value
    groups = batch(elements_of(script), strategy.window_fn)
    assert standing == {(key, window): combined(combine, values) for key, window, values in groups}


@given(strategies.test_streams(), ANYTHING)
def test_after_each_bundle_values_minus_retractions_of_a_window_are_its_last_value(
    script: TestStream, strategy: WindowingStrategy
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | script | dm.Window.into(strategy) | dm.Sum.per_key() | "panes" >> dm.io.Collect()

    records = run(build).collected("panes")
    seen = 0
    last: dict[Any, Any] = {}
    for (account,) in instants(records):
        here = [record for record in records if record.order[:2] == records[seen].order[:2]]
        seen += len(here)
        last |= {(record.value[0], record.window): record.value[1] for record in here if not record.is_retraction}
        standing = account.by_window()
        assert standing.items() <= last.items()
        for key, window in last.keys() - standing.keys():
            # Taken back for good: it has merged into a window that stands.
            assert strategy.merges
            assert any(
                key == other and window.start >= larger.start and window.end <= larger.end for other, larger in standing
            )


def chain(script: TestStream, stages: list[tuple[WindowingStrategy, CombineFn[Any, Any, Any]]]) -> Any:
    """Group by key, then by the key's whereabouts among three, then all: each stage over the panes of the last."""

    def build(p: dm.Pipeline) -> None:
        flow = p | script
        for depth, (strategy, combine) in enumerate(stages):
            flow = flow | f"windows {depth}" >> dm.Window.into(strategy)
            flow = flow | f"group {depth}" >> dm.CombinePerKey(combine)
            _ = flow | f"panes {depth}" >> dm.io.Collect()
            flow = flow | f"again {depth}" >> dm.MapTuple(rekeyed)

    return run(build)


def rekeyed(key: Any, value: Any) -> tuple[Any, Any]:
    return f"{value % 2}" if isinstance(key, str) and key in "abc" else "all", value


def chained_answer(
    script: TestStream, stages: list[tuple[WindowingStrategy, CombineFn[Any, Any, Any]]]
) -> dict[Any, Any]:
    elements = elements_of(script)
    answer: dict[Any, Any] = {}
    for strategy, combine in stages:
        groups = batch(elements, strategy.window_fn)
        answer = {(key, window): combined(combine, values) for key, window, values in groups}
        elements = [(*rekeyed(key, value), window.max_timestamp) for (key, window), value in answer.items()]
    return answer


NUMBERS: st.SearchStrategy[CombineFn[Any, Any, Any]] = st.sampled_from([dm.Sum(), dm.Count(), dm.Max(), dm.Min()])
END = dm.TimestampCombiner.END_OF_WINDOW


@given(
    strategies.test_streams(keys=("a", "b", "c"), max_steps=15),
    EVERYTHING,
    st.lists(UNMERGED, min_size=1, max_size=2),
    st.lists(NUMBERS, min_size=3, max_size=3),
)
def test_chains_of_two_and_three_groupings_end_at_the_batch_answer(
    script: TestStream,
    first: WindowingStrategy,
    others: list[WindowingStrategy],
    combiners: list[CombineFn[Any, Any, Any]],
) -> None:
    note(str(script.steps))
    strategies_of = [attrs.evolve(strategy, timestamp_combiner=END) for strategy in (first, *others)]
    stages = list(zip(strategies_of, combiners, strict=False))
    result = chain(script, stages)
    standing = Account().book(result.collected(f"panes {len(others)}")).by_window()
    assert standing == chained_answer(script, stages)


@given(strategies.test_streams(keys=("a", "b", "c"), max_steps=15), ANYTHING, UNMERGED)
def test_the_second_grouping_never_counts_retracted_values(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy
) -> None:
    note(str(script.steps))
    at_once = attrs.evolve(second, trigger=dm.Repeatedly(AtEachChange()))
    first = attrs.evolve(first, timestamp_combiner=END, allowed_lateness=dm.duration("1000 days"))
    result = chain(script, [(first, dm.Sum()), (at_once, dm.ToList())])
    for panes, lists in instants(result.collected("panes 0"), result.collected("panes 1")):
        elements = [(*rekeyed(*record.value), record.event_time) for record in panes.standing]
        answer = {(key, window): Counter(values) for key, window, values in batch(elements, second.window_fn)}
        shown = {home: Counter(values) for home, values in lists.by_window().items() if values}
        assert shown == answer
