"""The demo's job on a slice of the flights."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow.parquet as pq
import pytest

from dataflow_model.demo import report
from dataflow_model.demo.answers import (
    Answer,
    by_group,
    differences,
    fold,
    pane_differences,
    plain_answers,
)
from dataflow_model.demo.choice import choose, local, worst_day
from dataflow_model.demo.running import run_local, run_local_stream
from dataflow_model.demo.scene import HOUR, scene_of
from dataflow_model.values import PaneTiming

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.demo.answers import Outcome


def test_the_last_panes_are_the_answers_of_a_plain_group_by(local_run: Outcome, some_flights: Path) -> None:
    hourly, cancelled = plain_answers(some_flights)
    assert differences(fold(local_run.hourly), hourly) == 0
    assert differences(fold(local_run.cancelled), cancelled) == 0
    assert hourly
    assert cancelled


def test_every_row_is_a_departure_or_cancelled_and_none_is_dropped(local_run: Outcome, some_flights: Path) -> None:
    counted = [
        sum(answer.count for answer in fold(panes).values()) for panes in (local_run.hourly, local_run.cancelled)
    ]
    nulls = pq.read_table(some_flights)["dep_delay"].null_count
    assert counted == [local_run.rows - nulls, nulls]
    assert local_run.dropped == 0


def test_panes_are_early_then_on_time_then_late(local_run: Outcome) -> None:
    ranks = [PaneTiming.EARLY, PaneTiming.ON_TIME, PaneTiming.LATE]
    for panes in by_group(local_run.hourly).values():
        timings = [ranks.index(pane.pane.timing) for pane in panes]
        assert timings == sorted(timings)
        assert [pane.pane.index for pane in panes] == list(range(len(panes)))


def test_enough_panes_are_early_and_late_to_prove_something(local_run: Outcome) -> None:
    timings = local_run.timings()
    assert timings[PaneTiming.EARLY] >= 0.1 * len(local_run.hourly)
    assert timings[PaneTiming.LATE] >= 0.01 * len(local_run.hourly)


def test_two_runs_agree_pane_for_pane(local_run: Outcome, some_flights: Path) -> None:
    again = run_local(some_flights)
    assert pane_differences(local_run.hourly, again.hourly) == 0
    assert pane_differences(local_run.cancelled, again.cancelled) == 0


def test_days_of_cancelled_flights_begin_at_midnight_in_new_york(local_run: Outcome) -> None:
    starts = {local(int(record.window.start)).time() for record in local_run.cancelled}
    assert starts == {datetime.time(0)}


def test_the_picture_marks_elements_of_late_panes_as_late(local_run: Outcome, some_flights: Path) -> None:
    day = worst_day(local_run.hourly)
    assert day is not None
    scene = scene_of(some_flights, day)
    late = [
        record
        for record in local_run.hourly
        if record.pane.timing is PaneTiming.LATE and local(int(record.window.start)).date() == day
    ]
    # A late departure makes a pane of its own: `late=AfterCount(1)`.
    assert int(scene.late.sum()) == len(late) > 0
    assert (scene.late <= scene.behind).all()
    assert (np.diff(scene.watermarks) >= 0).all()


def test_the_picture_shows_the_departures_of_one_day_in_new_york(local_run: Outcome, some_flights: Path) -> None:
    day = worst_day(local_run.hourly)
    assert day is not None
    scene = scene_of(some_flights, day)
    assert {local(time).date() for time in scene.event_times.tolist()} == {day}
    carrier, start, end = choose(local_run.hourly, day)[0].group
    assert end - start == HOUR
    assert int(scene.of(carrier, start, end).sum()) == fold(local_run.hourly)[carrier, start, end].count


def test_the_window_shown_first_has_panes_of_all_timings(local_run: Outcome) -> None:
    day = worst_day(local_run.hourly)
    assert day is not None
    assert {pane.pane.timing for pane in choose(local_run.hourly, day)[0].panes} == {
        PaneTiming.EARLY,
        PaneTiming.ON_TIME,
        PaneTiming.LATE,
    }


# What the checks find ------------------------------------------------------------------------------------------------


def failed(outcomes: list[Outcome], path: Path) -> list[str]:
    return [check.text for check in report.checks(outcomes, plain_answers(path)) if not check.holds]


def test_runs_that_agree_pass_all_checks(local_run: Outcome, some_flights: Path) -> None:
    other = attrs.evolve(local_run, name="Spark streaming")
    folded = list({group: panes[-1] for group, panes in by_group(local_run.hourly).items()}.values())
    batch = attrs.evolve(local_run, name="Spark batch", hourly=folded)
    assert failed([local_run, batch, other], some_flights) == []


def test_a_pane_with_another_processing_time_is_found(local_run: Outcome, some_flights: Path) -> None:
    first, *rest = local_run.hourly
    moved = attrs.evolve(first, processing_time=type(first.processing_time)(int(first.processing_time) + 1))
    other = attrs.evolve(local_run, name="Spark streaming", hourly=[moved, *rest])
    assert failed([local_run, other], some_flights) == ["LocalRunner and Spark streaming differ in 1 panes"]


def test_a_pane_that_is_missing_is_found(local_run: Outcome, some_flights: Path) -> None:
    other = attrs.evolve(local_run, name="Spark streaming", hourly=local_run.hourly[1:])
    assert "LocalRunner and Spark streaming differ" in " ".join(failed([local_run, other], some_flights))


def test_a_wrong_batch_answer_is_found(local_run: Outcome, some_flights: Path) -> None:
    batch = attrs.evolve(local_run, name="Spark batch", hourly=local_run.hourly[:-1])
    assert "LocalRunner and Spark batch differ in 1 results" in failed([local_run, batch], some_flights)


def test_dropped_elements_are_reported_as_a_failed_check(local_run: Outcome, some_flights: Path) -> None:
    dropping = attrs.evolve(local_run, dropped=3)
    assert failed([dropping], some_flights) == ["LocalRunner: 3 elements were dropped"]


def test_a_run_without_early_and_late_panes_fails_the_checks(local_run: Outcome, some_flights: Path) -> None:
    folded = list({group: panes[-1] for group, panes in by_group(local_run.hourly).items()}.values())
    on_time = [record for record in folded if record.pane.timing is PaneTiming.ON_TIME]
    assert any(
        "0.0% of the panes are early" in text
        for text in failed([attrs.evolve(local_run, hourly=on_time)], some_flights)
    )


@pytest.mark.parametrize(
    ("answer", "other", "agree"),
    [
        (Answer(2, 1.0), Answer(2, 1.0 + 1e-12), True),
        (Answer(2, 1.0), Answer(2, 1.0 + 1e-6), False),
        (Answer(2, 1.0), Answer(3, 1.0), False),
        (Answer(2), Answer(2), True),
        (Answer(2), Answer(2, 0.0), False),
        (Answer(2), None, False),
    ],
)
def test_answers_agree_in_count_exactly_and_in_mean_to_a_billionth(
    answer: Answer, other: Answer | None, agree: bool
) -> None:
    assert answer.agrees_with(other) is agree


# Spark ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("rows_per_batch", [700, 4_000])
def test_a_stream_emits_exactly_the_panes_of_the_local_run(
    local_run: Outcome, some_flights: Path, tmp_path: Path, request: pytest.FixtureRequest, rows_per_batch: int
) -> None:
    import dataflow_model as dm
    from dataflow_model.demo.running import run_on

    spark = request.getfixturevalue("spark")
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path), max_rows_per_batch=rows_per_batch)
    assert failed([local_run, run_on(runner, "Spark streaming", some_flights)], some_flights) == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_batch_job_gives_the_answers_of_the_local_run(
    local_run: Outcome, some_flights: Path, request: pytest.FixtureRequest
) -> None:
    import dataflow_model as dm
    from dataflow_model.demo.running import run_on

    runner = dm.SparkRunner(request.getfixturevalue("spark"), mode="batch")
    assert failed([local_run, run_on(runner, "Spark batch", some_flights)], some_flights) == []


def test_the_year_as_a_stream_in_process_gives_the_same_panes(local_run: Outcome, some_flights: Path) -> None:
    assert failed([local_run, run_local_stream(some_flights)], some_flights) == []
