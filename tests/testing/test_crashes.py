"""A run that dies at a named point and is started again commits what an uninterrupted run commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.tasks.faults import SPARK_POINTS
from dataflow_model.testing import CrashPoint, TestStream
from tests.support.pipelines import seen

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCRIPT = (
    TestStream()
    .add(5, 1, key="a")
    .watermark(3)
    .add(7, 4, key="b")
    .processing_time(2)
    .add(1, 8, key="a")
    .watermark(12)
    .add(9, 9, key="a")
)


def build(p: dm.Pipeline) -> None:
    windowing = (
        dm.Window.into(dm.FixedWindows(10))
        .trigger(dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1)))
        .allowed_lateness(20)
        .accumulating()
    )
    sums = p | SCRIPT | windowing | dm.Sum.per_key()
    _ = sums | "sums" >> dm.io.Collect()
    _ = sums | dm.Map(lambda pair: pair[1]) | "values" >> dm.io.Collect()


def run(runner: Any) -> dict[str, list[Any]]:
    pipeline = dm.Pipeline(runner=runner)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return {label: seen(result.collected(label)) for label in ("sums", "values")}


@pytest.mark.slow
@pytest.mark.parametrize("point", SPARK_POINTS)
def test_a_run_that_dies_at_a_point_and_is_started_again_commits_the_same(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    def runner() -> dm.SparkRunner:
        return dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path / "checkpoint"), max_rows_per_batch=4)

    with CrashPoint(point, micro_batch=1) as crash:
        with pytest.raises(Exception, match=r"(?s)crash|exited|EOF|terminated|failed"):
            run(runner())
        assert crash.was_reached
        resumed = run(runner())  # strikes once only
    assert resumed == run(dm.LocalRunner())


def test_only_runs_that_start_in_the_block_of_a_crash_crash() -> None:
    from dataflow_model.runners.sharded.tasks import faults

    with CrashPoint("after_state", micro_batch=3) as crash:
        armed = faults.armed()
        armed.reach("before_state", 3)
        armed.reach("after_state", 2)
    assert faults.armed() is faults.NO_FAULT
    assert not crash.was_reached


def test_an_unknown_point_of_a_crash_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        dm.InvalidArgument, match=r"unknown crash point 'soon'\nHint: the points are before_state, after_state"
    ):
        CrashPoint("soon")
    with pytest.raises(dm.InvalidArgument, match="`micro_batch` must not be negative, got -1"):
        CrashPoint("after_state", micro_batch=-1)
