"""Law 3 for pipelines of Beam's on Spark: what their state, timers and panes commit does not depend on kills."""

# Beam may not be installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import functools
import pickle
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam

from dataflow_model.beam import LocalRunner
from tests.support.faults.beam_job import PIPELINES, BeamJob, counted
from tests.support.faults.victims import PYTHON, kill_drivers, kill_while_it_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.faults.tally import Tally

pytestmark = [  # Beam's own warnings, and a start of Spark after each kill
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(1_800),
]


@functools.cache
def uninterrupted(builds: str) -> dict[str, list[Any]]:
    """Return what a run of a pipeline in process counts, to which nothing happens."""
    pipeline = beam.Pipeline(runner=LocalRunner())
    PIPELINES[builds](pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return counted(result)


@pytest.fixture
def new_beam_job(tmp_path: Path) -> Callable[..., BeamJob]:
    """Return a function that makes a job in a folder of its own."""
    made: list[BeamJob] = []

    def make(**attributes: Any) -> BeamJob:
        made.append(BeamJob(folder=tmp_path / f"run-{len(made)}", **attributes))
        return made[-1]

    return make


@pytest.mark.parametrize(("builds", "kills", "rows"), [("script", 3, 25), ("script", 20, 5), ("inputs", 20, 5)])
def test_a_beam_pipeline_whose_python_processes_are_killed_counts_what_an_uninterrupted_one_does(
    java_home: str, new_beam_job: Callable[..., BeamJob], tally: Tally, builds: str, kills: int, rows: int
) -> None:
    job = new_beam_job(builds=builds, rows_per_batch=rows, master="local[2,8]", resumes=40)
    killed = kill_while_it_runs(java_home, job, PYTHON, kills=kills, seed=2)
    tally.judge(f"Python process of Beam {builds} killed", killed, uninterrupted(builds), outcome_of(job))


@pytest.mark.parametrize("builds", PIPELINES)
def test_a_beam_pipeline_whose_driver_is_killed_at_random_moments_counts_what_an_uninterrupted_one_does(
    java_home: str, new_beam_job: Callable[..., BeamJob], tally: Tally, builds: str
) -> None:
    for job, killed in kill_drivers(java_home, lambda: new_beam_job(builds=builds, rows_per_batch=5), kills=20, seed=3):
        tally.judge(f"driver of Beam {builds} killed", killed, uninterrupted(builds), outcome_of(job))


def outcome_of(job: BeamJob) -> dict[str, list[Any]]:
    """Return what a job has counted."""
    outcome: dict[str, list[Any]] = pickle.loads(job.kept.read_bytes())
    return outcome
