"""A stream in process that is killed at any moment and started again commits what an uninterrupted one does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs
import pytest

from dataflow_model.testing import CrashPoint
from tests.support.exactly_once.databases import execute, postgres_programs, postgres_server
from tests.support.faults.local_job import LocalJob, expected_of, outcome_of
from tests.support.faults.summing import Sums
from tests.support.faults.victims import Victim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.faults.tally import Tally

KILLED: str = "process killed, in process"
pytestmark = pytest.mark.timeout(1_800)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str | None]:
    """Yield the URL of a PostgreSQL server; `None` where it is not installed."""
    programs = postgres_programs()
    if programs is None:
        yield None
        return
    with postgres_server(programs) as url:
        yield url


def new_job(folder: Path, postgres: str | None = None) -> LocalJob:
    folder.mkdir()
    urls = [f"sqlite:///{folder / 'nets.db'}"]
    if postgres is not None:
        execute(postgres, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        urls.append(postgres)
    return LocalJob(folder=folder, sums=Sums(folder), urls=tuple(urls))


@pytest.mark.parametrize(
    ("points", "rows"), [(CrashPoint.POINTS[::4], 12), pytest.param(CrashPoint.POINTS, 3, marks=pytest.mark.slow)]
)
def test_a_run_that_is_killed_at_each_step_of_a_commit_commits_what_an_uninterrupted_one_does(
    tmp_path: Path, tally: Tally, points: Sequence[str], rows: int
) -> None:
    job = attrs.evolve(new_job(tmp_path / "run"), rows_per_batch=rows)
    for number, point in enumerate(points):
        mark = tmp_path / point
        hurt = job.killed_at(point, 3 * number + 1, mark)
        with Victim("", hurt) as victim:
            victim.process.wait()
        assert mark.exists(), victim.output()
    with Victim("", job) as victim:
        victim.finish()
    tally.judge(KILLED, len(points), expected_of(job), outcome_of(job))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kills"), [(2, 50)])
def test_a_run_that_is_killed_at_random_moments_commits_what_an_uninterrupted_one_does(
    tmp_path: Path, tally: Tally, postgres: str | None, seed: int, kills: int
) -> None:
    rng = random.Random(seed)
    killed = runs = 0
    while killed < kills:
        job, hurt = new_job(tmp_path / str(runs), postgres), 0
        runs += 1
        while not job.kept.exists():
            with Victim("", job) as victim:
                if killed + hurt == kills:
                    victim.finish()
                elif victim.until(victim.has_started, "the run has started") and victim.lives(rng.uniform(0, 1.5)):
                    hurt += 1
        killed += hurt
        if hurt:
            tally.judge(KILLED, hurt, expected_of(job), outcome_of(job))
