"""Laws of rounds: whatever is grouped again, and in however many parts, the last round has the answers of a batch."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.rewrites.rounds import in_rounds
from dataflow_model.testing import TestStream, strategies
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner
from tests.support.laws.chain_answers import batch_answers, what_stands
from tests.support.laws.chains import Case, adding_up, outcome_of, refining
from tests.support.laws.examples import share_of_cases
from tests.support.laws.hot_keys import COMBINERS, DIRECT, FANNED, Combining, both_ways, parts_of_a, windowings
from tests.support.pipelines import difference, run, seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from tests.support.spec.drawing import Pick

CASES = share_of_cases(int(os.environ.get("CHAIN_CASES", "90")))
INTERVALS = (1, 2, 5, 100)
SECOND = 10**6


def drawn_case(seed: int) -> tuple[Case, int]:
    """Draw a chain of groupings with modes of every kind, and the length of a round."""
    pick: Pick = random.Random(seed).choice
    drawn = pick([refining, adding_up])(pick)
    groupings = [
        attrs.evolve(
            grouping,
            windowing=grouping.windowing
            and attrs.evolve(
                grouping.windowing,
                accumulation_mode=dm.AccumulationMode.ACCUMULATE_ALWAYS if retracting else pick([*dm.AccumulationMode]),
                retracting=retracting,
                window_fn=pick([dm.GlobalWindows(), dm.FixedWindows(3), dm.SlidingWindows(4, 2)])
                if index and grouping.windowing.merges  # behind retractions
                else grouping.windowing.window_fn,
            ),
        )
        for index, grouping in enumerate(drawn.chain.groupings)
        for retracting in [pick([True, False])]
    ]
    return attrs.evolve(drawn, chain=attrs.evolve(drawn.chain, groupings=tuple(groupings))), pick(INTERVALS)


@pytest.mark.parametrize("part", range(3))
def test_chains_of_groupings_in_micro_batches_fold_to_the_batch_answer(part: int) -> None:
    for seed in range(part, CASES, 3):
        drawn, interval = drawn_case(seed)
        plan = drawn.plan()
        result = dm.LocalRunner(mode="microbatch", interval=interval, clock=0).run(plan)
        result.wait_until_finish()
        local = outcome_of(drawn, result)
        *before, last = zip(local.records, batch_answers(drawn), strict=True)
        assert what_stands(last[0]) == {key: value for key, (value, _) in last[1].items()}, seed
        for records, answer in before:  # what is left of a group that is gone is taken back for the next grouping only
            stands = what_stands(records)
            assert all(stands.get(key) == value for key, (value, _) in answer.items()), seed
        for records, grouping in zip(local.records, drawn.chain.groupings, strict=True):
            assert {record.pane.timing for record in records} <= {dm.PaneTiming.EARLY, dm.PaneTiming.ON_TIME}, seed
            assert any(record.is_retraction for record in records) <= bool(
                grouping.windowing and grouping.windowing.retracting
            ), seed
        assert_one_pane_in_a_round(local.records[0], interval)
        stream = MicroBatchRunner(drawn.schedule).run(in_rounds(plan, dm.duration(interval)))
        for panes, streamed in zip(local.panes, outcome_of(drawn, stream).panes, strict=True):
            assert not difference(panes, streamed), seed


def assert_one_pane_in_a_round(records: Sequence[Record], interval: int) -> None:
    """Check that a window emits at the ends of rounds, once at each, or as the input ends."""
    rounds: dict[Any, list[int]] = {}
    for record in records:
        if not record.is_retraction:
            rounds.setdefault((record.value[0], record.window), []).append(int(record.processing_time))
    for ends in rounds.values():
        assert ends == sorted(set(ends))
        assert all(end % (interval * SECOND) == 0 for end in ends[:-1])


@given(
    st.data(),
    strategies.test_streams(),
    windowings() | windowings(strategies.window_fns(merging=True)),
    st.sampled_from([1, 2, 7, parts_of_a]),
    st.sampled_from(INTERVALS),
)
def test_a_fanout_changes_no_pane_of_a_run_in_micro_batches(
    data: st.DataObject, script: TestStream, windows: WindowingStrategy, fanout: Any, interval: int
) -> None:
    combining: Combining = data.draw(st.sampled_from(COMBINERS))
    build = both_ways(script, windows, combining, fanout)
    result = run(dm.LocalRunner(mode="microbatch", interval=interval, clock=0), build)
    direct, fanned = (seen(result.collected(f"{name} panes")) for name in (DIRECT, FANNED))
    assert fanned == direct
