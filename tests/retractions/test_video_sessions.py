"""The video sessions: whatever comes late, the ads' shares are those of the sessions as they are known by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.pipelines import difference, draw, seen, streaming
from tests.support.pipelines import run as run_on
from tests.support.retractions.accounts import Account, ends_of_ticks, run, ticking, until
from tests.support.retractions.viewing import (
    ads_strategy,
    is_unpopular,
    sessions_of,
    sessions_strategy,
    shares_of,
    story,
    uploads,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record

EACH = dm.Repeatedly(dm.AfterCount(1))
EACH_TICK = dm.Repeatedly(dm.AfterProcessingTime(0))
"""At the end of each tick, whatever has changed: elements, and what was taken back for good."""
FIRST = st.sampled_from(
    [
        EACH,
        EACH_TICK,
        dm.Repeatedly(dm.AfterCount(3)),
        dm.AfterWatermark(early=dm.AfterProcessingTime(7), late=dm.AfterCount(1)),
        dm.DefaultTrigger(),
    ]
)
SECOND = st.sampled_from([EACH_TICK, dm.Repeatedly(dm.AfterAny(dm.AfterCount(1), dm.AfterProcessingTime(0)))])


def sinks(result: Any, name: str = "") -> tuple[list[Record], list[Record], list[Record]]:
    sessions, shares, unpopular = (result.collected(f"{name}{sink}") for sink in ("sessions", "shares", "unpopular"))
    return sessions, shares, unpopular


def records_of(script: TestStream, first: dm.Trigger, second: dm.Trigger) -> tuple[list[Record], ...]:
    def build(p: dm.Pipeline) -> None:
        story(p, p | script, sessions_strategy(first), ads_strategy(second))

    return sinks(run(build))


def check_shares(sessions: Account, shares: Account, unpopular: Account) -> None:
    """The second grouping stands at the batch answer over what stands of the first, and the filter behind it too."""
    answer = shares_of([(record.value, record.event_time) for record in sessions.standing])
    assert shares.by_window() == pytest.approx(answer)
    assert unpopular.by_window() == pytest.approx(
        {key: share for key, share in answer.items() if is_unpopular((key[0], share))}
    )


@given(uploads(), FIRST, SECOND)
def test_after_each_tick_the_shares_are_those_of_the_sessions_so_far(
    script: TestStream, first: dm.Trigger, second: dm.Trigger
) -> None:
    note(str(script.steps))
    ticked = ticking(script)
    records = records_of(ticked, first, second)
    for place in (*ends_of_ticks(ticked), len(ticked.steps) + 9):
        check_shares(*(until(stream, place) for stream in records))


@given(uploads(), SECOND)
def test_with_a_pane_for_each_view_the_shares_are_those_of_the_views_so_far(
    script: TestStream, second: dm.Trigger
) -> None:
    note(str(script.steps))
    ticked = ticking(script)
    records = records_of(ticked, EACH, second)
    for place in ends_of_ticks(ticked):
        known = shares_of(sessions_of(TestStream(ticked.steps[: place + 1])))
        assert until(records[1], place).by_window() == pytest.approx(known)


def test_views_uploaded_late_join_two_sessions_and_an_ad_becomes_popular() -> None:
    script = (
        TestStream()
        .add(("shoes", 3), 10, key="Ann")
        .add(("shoes", 4), 60, key="Ann")  # another session of hers: more than half a minute later
        .add(("shoes", 9), 15, key="Ben")
        .watermark(110)
        .processing_time(200)
        .add(("hats", 8), 35, key="Ann")  # she was offline
        .processing_time(300)
    )
    sessions, shares, unpopular = records_of(script, EACH, EACH_TICK)
    shown = [(record.is_retraction, record.value) for record in sessions]
    assert shown[-3:] == [
        (True, ("Ann", [("shoes", 3)])),
        (True, ("Ann", [("shoes", 4)])),
        (False, ("Ann", [("shoes", 3), ("shoes", 4), ("hats", 8)])),
    ]
    assert [(record.is_retraction, record.value) for record in shares] == [
        (False, ("shoes", pytest.approx(2 / 3))),
        (False, ("hats", 0.0)),
        (True, ("shoes", pytest.approx(2 / 3))),
        (False, ("shoes", 0.0)),
    ]
    assert [(record.is_retraction, record.value[0]) for record in unpopular] == [(False, "shoes"), (True, "shoes")]


@pytest.mark.slow
def test_drawn_histories_of_views_give_the_same_shares_on_spark_streaming_as_in_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases = draw(st.tuples(uploads(), FIRST, SECOND), 30, 1)

    def build(p: dm.Pipeline) -> None:
        for number, (script, first, second) in enumerate(cases):
            views = p | f"script {number}" >> ticking(script)
            story(p, views, sessions_strategy(first), ads_strategy(second), f"{number} ")

    expected = run_on(dm.LocalRunner(), build)
    actual = run_on(streaming(spark, tmp_path, max_rows_per_batch=200), build)
    for number, case in enumerate(cases):
        for label in ("sessions", "shares", "unpopular"):
            records = [result.collected(f"{number} {label}") for result in (expected, actual)]
            problem = difference(*map(seen, records))
            assert not problem, f"{label}: {problem}\n{case}"
        check_shares(*(Account().book(records) for records in sinks(actual, f"{number} ")))
    assert any(record.is_retraction for number in range(len(cases)) for record in sinks(actual, f"{number} ")[1])
