"""Chains of groupings that once differed by shards, by bundles or by when their elements arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of
from dataflow_model.testing.chains import Chain, ChainedGrouping
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from dataflow_model.testing.proving.runner_proof import Copied
from tests.support.laws.chains import Case, by_specification, on_local
from tests.support.pipelines import difference, run, streaming

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

TWOS, EACH_MINUTE = dm.Repeatedly(dm.AfterCount(2)), dm.Repeatedly(dm.AfterProcessingTime(60))
TENS, SECONDS = dm.Window.into(dm.FixedWindows(10)), dm.Window.into(dm.FixedWindows(1))
QUICK = [Schedule(1, (3,)), Schedule(2, (1,)), Schedule(3, (1_000,)), Schedule(5, (3,))]
EVERY = [Schedule(shards, cuts) for shards in (1, 2, 3, 5) for cuts in ((1,), (3,), (1_000,))]
SCHEDULES = [*QUICK, *(pytest.param(schedule, marks=pytest.mark.slow) for schedule in EVERY if schedule not in QUICK)]
PAIRS: list[tuple[str, str]] = [("a", "b"), ("a", "d"), ("b", "a"), ("d", "a")]
"""Keys on the same shard and on different ones, whatever the number of shards."""


def chain(*windowings: dm.WindowInto) -> Chain:
    return Chain(tuple(ChainedGrouping(windowing.strategy, dm.Sum()) for windowing in windowings))


def outcome(result: Any, scope: str) -> tuple[list[tuple[Any, ...]], int]:
    """Return the panes of the second grouping, and how many elements it has dropped."""
    panes = panes_of(result.collected(f"{scope}/panes"))
    dropped = result.metrics()[f"{scope}/grouping 2"].get("dropped_because_late", 0)
    return [(pane.key, pane.value, pane.info.timing.name) for pane in panes], dropped


def outcomes(runner: Any, cases: Iterable[tuple[str, TestStream, Chain]]) -> dict[str, Any]:
    """Run chains side by side."""

    def build(pipeline: dm.Pipeline) -> None:
        for name, script, groupings in cases:
            panes = pipeline | f"script {name}" >> script | name >> Copied(groupings)
            _ = panes | f"{name}/panes" >> dm.io.Collect()

    result = run(runner, build)
    return {name: outcome(result, name) for name, *_ in cases}


def named(schedule: Schedule) -> str:
    """Name the case of a test by its schedule."""
    return f"{schedule.shards} shards cut by {schedule.cuts[0]}"


# Another shard's hold -------------------------------------------------------------------------------------------------

EARLIEST = chain(TENS.trigger(TWOS).timestamp_combiner("earliest"), SECONDS)
LATE = chain(TENS.trigger(EACH_MINUTE).allowed_lateness("1 hour"), TENS)


def held_by_another_key() -> list[tuple[str, TestStream, Chain]]:
    """Return cases in which an element that is not yet emitted holds the watermark for a late one of another key."""
    cases = []
    for late, holding in PAIRS:
        script = TestStream().add(1, 5, key=holding).watermark(8).add(2, 6, key=late)
        script = script.add(4, 7, key=holding).add(8, 9, key=late).watermark(9)
        cases.append((f"earliest {late} {holding}", script, EARLIEST))
        script = TestStream().add(1, 5, key=holding).watermark(20).processing_time(30).add(2, 6, key=late)
        cases.append((f"late {late} {holding}", script.processing_time(70).processing_time(100), LATE))
    return cases


def held_outcome(name: str) -> Any:
    """Return what becomes of such a case: nothing is late for the second grouping, so nothing is dropped."""
    kind, late, holding = name.split()
    values = [(holding, 5), (late, 10)] if kind == "earliest" else sorted([(holding, 1), (late, 2)])
    return [(key, value, "ON_TIME") for key, value in values], 0


@pytest.mark.parametrize("schedule", SCHEDULES, ids=named)
def test_a_hold_in_one_shard_holds_the_watermark_of_all_shards(schedule: Schedule) -> None:
    cases = held_by_another_key()
    expected = {name: held_outcome(name) for name, *_ in cases}
    assert outcomes(dm.LocalRunner(), cases) == expected
    assert outcomes(MicroBatchRunner(schedule), cases) == expected


# Bundles --------------------------------------------------------------------------------------------------------------

IN_A_BUNDLE = [
    (TestStream().add(1, 2, key="k").watermark(8), TENS.trigger(TWOS).timestamp_combiner("earliest"), SECONDS),
    (
        TestStream().add(1, 2, key="k").watermark(20),
        TENS.trigger(TWOS).allowed_lateness(100),
        TENS.trigger(TWOS).allowed_lateness(100),
    ),
]
"""A pane goes out in the middle of a bundle and frees a hold, which the next element of the bundle takes again."""


def bundled(*, together: bool) -> list[tuple[str, TestStream, Chain]]:
    cases = []
    for number, (start, first, second) in enumerate(IN_A_BUNDLE):
        middle = [(2, 3), (4, 4)]
        script = start.bundle(middle, key="k") if together else start
        for value, at in () if together else middle:
            script = script.add(value, at, key="k")
        cases.append((f"bundle {number}", script.add(8, 5, key="k"), chain(first, second)))
    return cases


def test_in_process_elements_of_a_bundle_reach_the_next_grouping_one_by_one() -> None:
    assert outcomes(dm.LocalRunner(), bundled(together=True)) == outcomes(dm.LocalRunner(), bundled(together=False))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=named)
def test_in_a_stream_elements_of_a_bundle_reach_the_next_grouping_one_by_one(schedule: Schedule) -> None:
    together, apart = bundled(together=True), bundled(together=False)
    assert outcomes(MicroBatchRunner(schedule), together) == outcomes(dm.LocalRunner(), apart)


# Event times of panes -------------------------------------------------------------------------------------------------


def arriving_late() -> list[tuple[str, TestStream, Chain]]:
    """Return cases in which two elements of an on-time pane are behind the watermark when they arrive."""
    script = TestStream().watermark(5).bundle([(t, t) for t in (2, 3, 7, 8)], key="k").watermark(11)
    return [
        (f"pane {combiner}", script, chain(TENS.timestamp_combiner(combiner), SECONDS))
        for combiner in ("earliest", "latest")
    ]


def test_in_process_an_on_time_pane_with_late_elements_is_on_time_for_the_next_grouping() -> None:
    assert list(outcomes(dm.LocalRunner(), arriving_late()).values()) == [([("k", 20, "ON_TIME")], 0)] * 2


@pytest.mark.parametrize("schedule", SCHEDULES, ids=named)
def test_an_on_time_pane_with_late_elements_is_on_time_for_the_next_grouping(schedule: Schedule) -> None:
    assert list(outcomes(MicroBatchRunner(schedule), arriving_late()).values()) == [([("k", 20, "ON_TIME")], 0)] * 2


# Retractions of merged windows ----------------------------------------------------------------------------------------


def test_a_session_whose_start_moves_back_holds_the_watermark_for_its_pending_retraction() -> None:
    """Its end is that of the pane it retracts; the element that merged it is dropped, as the trigger has finished."""
    sessions = dm.Window.into(dm.Sessions(4)).trigger(dm.AfterCount(1), may_lose_data=True)
    sessions = sessions.accumulating_and_retracting().allowed_lateness(2).closing("fire_always")
    behind = dm.Window.into(dm.FixedWindows(4)).allowed_lateness(2)
    groupings = (
        ChainedGrouping(sessions.strategy, dm.Sum()),
        ChainedGrouping(behind.strategy, None, keeps_windows=True),
    )
    script = TestStream().add(8, 5, key="a").watermark(7).add(32, 3, key="a").watermark(9)
    case = Case(script, Chain(groupings), Schedule(1))
    panes, _ = by_specification(case)
    assert difference(panes[1], panes_of(on_local(case).records[1])) == ""
    emitted = [(int(pane.window.start) // 1_000_000, pane.value, pane.info.timing.name) for pane in panes[1]]
    assert emitted == [(3, [8], "ON_TIME"), (5, [], "ON_TIME")]


# The last tick -------------------------------------------------------------------------------------------------------


def test_the_end_of_the_input_completes_the_last_tick_at_each_grouping_in_turn() -> None:
    """What the timers of the second grouping give to the third comes before the watermark of the third."""
    soon, sessions = (
        dm.Repeatedly(dm.AfterProcessingTime(2)),
        dm.Window.into(dm.Sessions(4)).timestamp_combiner("latest"),
    )
    script = TestStream().add(1, 5, key="d").processing_time(1).add(2, 0, key="a").add(4, 8, key="a")
    script = script.processing_time(3).watermark(11)
    always = dm.Window.into(dm.FixedWindows(4)).trigger(dm.Always()).closing("fire_always").allowed_lateness(2)
    groupings = [
        ChainedGrouping(sessions.trigger(soon).strategy, dm.Sum()),
        ChainedGrouping(None, dm.Sum()),
        ChainedGrouping(always.strategy, dm.Sum()),
    ]
    case = Case(script, Chain(tuple(groupings)), Schedule(2))
    panes, _ = by_specification(case)
    assert difference(panes[2], panes_of(on_local(case).records[2])) == ""
    early, closing = panes[2][:3], panes[2][3:]
    assert [(pane.key, pane.value, pane.info.timing.name) for pane in early] == [
        ("a", 2, "EARLY"),
        ("d", 1, "EARLY"),
        ("a", 4, "EARLY"),  # emitted by a timer of the second grouping, as the clock left its last value
    ]
    assert [(pane.key, pane.value, pane.info.is_last) for pane in closing] == [
        ("a", 0, True),
        ("d", 0, True),
        ("a", 0, True),
    ]


@pytest.mark.slow
def test_these_examples_of_chains_give_the_same_panes_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    cases = [*held_by_another_key(), *bundled(together=True), *arriving_late()]
    runner = streaming(spark, tmp_path, shards=2, max_rows_per_batch=30)
    assert outcomes(runner, cases) == outcomes(dm.LocalRunner(), cases)
