"""Law 3: a run that is killed anywhere and resumed commits what the uninterrupted run commits, pane for pane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.support.faults.outcomes import outcome_of
from tests.support.faults.victims import EXECUTOR, PYTHON, Victim, kill_drivers, kill_while_it_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.faults.flights_job import Job
    from tests.support.faults.tally import Tally

KILLS = 20
"""Of executors, and of Python processes; of drivers there are fifty."""
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]  # a start of Spark after each kill


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kills", "rows"), [(0, 1, 2_500), (1, 25, 500), (2, 25, 500)])
def test_a_run_whose_driver_is_killed_at_random_moments_commits_what_an_uninterrupted_one_does(
    java_home: str,
    new_job: Callable[..., Job],
    uninterrupted: dict[str, list[Any]],
    tally: Tally,
    seed: int,
    kills: int,
    rows: int,
) -> None:
    for job, killed in kill_drivers(java_home, lambda: new_job(rows_per_batch=rows), kills=kills, seed=seed):
        tally.judge("driver killed", killed, uninterrupted, outcome_of(job))


@pytest.mark.slow
def test_a_run_whose_executors_are_killed_one_after_the_other_commits_what_an_uninterrupted_one_does(
    java_home: str, new_job: Callable[..., Job], uninterrupted: dict[str, list[Any]], tally: Tally
) -> None:
    job = new_job(master="local-cluster[2,1,1024]", resumes=5)
    killed = kill_while_it_runs(java_home, job, EXECUTOR, kills=KILLS, seed=1)
    tally.judge("executor killed", killed, uninterrupted, outcome_of(job))
    assert killed == KILLS


@pytest.mark.slow
def test_a_run_whose_python_processes_are_killed_commits_what_an_uninterrupted_one_does(
    java_home: str, new_job: Callable[..., Job], uninterrupted: dict[str, list[Any]], tally: Tally
) -> None:
    job = new_job(rows_per_batch=250, master="local[2,8]", resumes=40)
    killed = kill_while_it_runs(java_home, job, PYTHON, kills=KILLS, seed=2)
    tally.judge("Python process killed", killed, uninterrupted, outcome_of(job))
    assert killed == KILLS


@pytest.mark.slow
def test_a_run_resumed_with_other_numbers_of_cores_commits_what_an_uninterrupted_one_does(
    java_home: str, new_job: Callable[..., Job], uninterrupted: dict[str, list[Any]], tally: Tally
) -> None:
    job = new_job(rows_per_batch=1_000, master="local[2]")
    for least, cores in ((6, 1), (12, 4)):
        with Victim(java_home, job) as victim:
            assert victim.comes_to(least)
        job = attrs.evolve(job, master=f"local[{cores}]")
    with Victim(java_home, job) as victim:
        victim.finish()
    tally.judge("other number of cores", 2, uninterrupted, outcome_of(job))
