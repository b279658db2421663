"""Laws of stateful functions that take back what they have emitted: nothing that was taken back is left behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import difference
from tests.support.retractions.accounts import elements_of, run
from tests.support.retractions.drawing import UNMERGED
from tests.support.retractions.taking_back import Behind, TakingBack, functions

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

pytestmark = AT_THE_END_OF_TIME

END = dm.TimestampCombiner.END_OF_WINDOW
BEHIND = st.builds(Behind, UNMERGED.map(lambda strategy: attrs.evolve(strategy, timestamp_combiner=END)), UNMERGED)
SINKS = ("main", "aside", "sum", "counts", "means", "greatest", "sets", "chain")


def outputs(result: Any, label: str) -> list[Any]:
    return [
        (record.value, record.window, record.event_time, record.pane, record.is_retraction)
        for record in result.collected(label)
    ]


@given(strategies.test_streams(keys=("a", "b")), functions(), UNMERGED, BEHIND)
def test_groupings_after_a_retracting_function_end_at_the_batch_answer_of_its_unretracted_outputs(
    script: TestStream, function: TakingBack, strategy: WindowingStrategy, behind: Behind
) -> None:
    note(str(script.steps))

    def build(p: dm.Pipeline) -> None:
        behind.build(function, p | script | "placed" >> dm.Window.into(strategy))

    behind.check(run(build))


@given(strategies.test_streams(keys=("a", "b")), functions(), UNMERGED, BEHIND)
def test_groupings_after_a_retracting_function_end_at_the_batch_answer_in_bounded_runs(
    script: TestStream, function: TakingBack, strategy: WindowingStrategy, behind: Behind
) -> None:
    elements = [dm.TimestampedValue((key, value), at) for key, value, at in elements_of(script)]

    def build(p: dm.Pipeline) -> None:
        behind.build(function, p | dm.Create(elements) | "placed" >> dm.Window.into(strategy))

    behind.check(run(build))


@share_of_examples(0.4)  # each runs a script again through durable state
@given(
    strategies.test_streams(keys=("a", "b")),
    functions(is_pure=True),
    UNMERGED,
    BEHIND,
    st.builds(
        Schedule,
        st.integers(1, 3),
        cuts=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
        restarts=st.frozensets(st.integers(1, 20), max_size=6),
    ),
)
def test_shards_cuts_and_restarts_change_no_value_and_no_retraction(
    script: TestStream, function: TakingBack, strategy: WindowingStrategy, behind: Behind, schedule: Schedule
) -> None:
    def build(p: dm.Pipeline) -> None:
        behind.build(function, p | script | "placed" >> dm.Window.into(strategy))

    runner: Any = MicroBatchRunner(schedule)
    expected, actual = run(build), run(build, runner)
    for label in SINKS:
        assert not difference(outputs(expected, label), outputs(actual, label)), label


@share_of_examples(0.4)
@given(strategies.test_streams(keys=("a", "b")), functions(is_pure=False), UNMERGED, BEHIND)
def test_a_function_with_random_values_retracts_exactly_the_emitted_ones_after_restarts(
    script: TestStream, function: TakingBack, strategy: WindowingStrategy, behind: Behind
) -> None:
    def build(p: dm.Pipeline) -> None:
        behind.build(function, p | script | "placed" >> dm.Window.into(strategy))

    runner: Any = MicroBatchRunner(Schedule(2, cuts=(1, 3), restarts=frozenset(range(1, 60, 2))))
    behind.check(run(build, runner))


@given(strategies.test_streams(keys=("a", "b")), functions(), st.sampled_from(["1 second", "5 seconds", "1 hour"]))
def test_groupings_after_a_retracting_function_end_at_the_batch_answer_in_rounds(
    script: TestStream, function: TakingBack, interval: str
) -> None:
    strategy = dm.Window.into(dm.FixedWindows(10)).accumulating_and_retracting().strategy
    behind = Behind(strategy, strategy)

    def build(p: dm.Pipeline) -> None:
        behind.build(function, p | script | "placed" >> dm.Window.into(dm.FixedWindows(20)))

    behind.check(run(build, dm.LocalRunner(mode="microbatch", interval=interval)))
