"""Tasks that fail and are tried again, by Spark or by the next run, with their shuffle in another order each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.faults.injected import FailingTasks, marks
from tests.support.faults.outcomes import outcome_of
from tests.support.faults.summing import Sums
from tests.support.faults.victims import Victim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.faults.flights_job import Job
    from tests.support.faults.tally import Tally

SEVERAL = 30
AFTER_STATE = "task failed after its state write"
ANOTHER_ORDER = "shuffle in another order"


def resumed(sums: Sums, spark: SparkSession, fault: FailingTasks) -> dict[str, list[Any]]:
    """Start the run again and again until it gets through; the session of the tests tries no task twice."""
    for _ in range(SEVERAL):
        try:
            return sums.run(spark, fault)
        except Exception as error:
            if "InjectedFailure" not in str(error):
                raise
    pytest.fail(f"not done after {SEVERAL} failures: {marks(fault.folder)}")


@pytest.mark.slow
def test_a_shuffle_in_another_order_changes_no_result(spark: SparkSession, tmp_path: Path, tally: Tally) -> None:
    sums = Sums(tmp_path)
    fault = FailingTasks(str(tmp_path / "marks"), seed=9, points=("after_writing",), share=0.25)
    outcome = resumed(sums, spark, fault)
    tally.judge(ANOTHER_ORDER, len(marks(fault.folder)), sums.uninterrupted(), outcome)


@pytest.mark.slow
def test_a_task_that_fails_right_after_writing_its_state_changes_no_result(
    spark: SparkSession, tmp_path: Path, tally: Tally
) -> None:
    sums = Sums(tmp_path)
    fault = FailingTasks(str(tmp_path / "marks"), seed=3, points=("after_state",), share=0.1)
    outcome = resumed(sums, spark, fault)
    tally.judge(AFTER_STATE, len(marks(fault.folder)), sums.uninterrupted(), outcome)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("case", [("before_state after_state after_writing", 0.05, 10), ("after_state", 0.25, 10)])
def test_failed_tasks_that_spark_retries_change_no_result(
    java_home: str,
    new_job: Callable[..., Job],
    uninterrupted: dict[str, list[Any]],
    tally: Tally,
    tmp_path: Path,
    case: tuple[str, float, int],
) -> None:
    points, share, at_least = case
    fault = FailingTasks(str(tmp_path / "marks"), seed=7, points=tuple(points.split()), share=share)
    job = new_job(master="local[2,8]", resumes=5, fault=fault)
    with Victim(java_home, job) as victim:
        victim.finish()
    failed = len(marks(fault.folder))
    kind = "task failed, 5 %" if share == 0.05 else AFTER_STATE
    tally.judge(kind, failed, uninterrupted, outcome_of(job))
    assert failed >= at_least
    # Each attempt that follows a failure is a new reading of the shuffle, in an order that none before has seen.
    tally.judge(ANOTHER_ORDER, failed, uninterrupted, outcome_of(job))
