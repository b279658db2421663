"""The flights on a standalone cluster whose executors have a Python environment of their own."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from dataflow_model.demo import flights_file
from tests.support.cluster.standalone import Cluster, environment, standalone

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def cluster(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), java_home) as started:
        yield started


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first flights of the year."""
    path = tmp_path_factory.mktemp("rows") / "flights.parquet"
    pq.write_table(pq.read_table(flights_file()).slice(0, 8_000), path)
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of executors that do not have the package."""
    return environment(tmp_path_factory.mktemp("bare"), has_package=False)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of executors that have the package installed, with the compiled core."""
    return environment(tmp_path_factory.mktemp("full"), has_package=True)


def outcome_of(job: subprocess.Popen[str]) -> Mapping[str, Any]:
    """Wait for the end of a job, and return what it printed last."""
    output, errors = job.communicate(timeout=500)
    lines = [line for line in errors.splitlines() if not line.startswith("\tat ")]  # without the JVM's stacks
    assert job.returncode == 0, "\n".join(lines[-150:])
    outcome: Mapping[str, Any] = json.loads(output.splitlines()[-1])
    return outcome


def check(outcome: Mapping[str, Any], mode: str, python: str, *, place: str) -> None:
    """Compare the panes, and require that executors run the compiled core of a place."""
    assert not outcome["differences"]
    assert outcome["timings"]["ON_TIME"] > 500
    assert (outcome["timings"].get("EARLY", 0) > 500) is (mode == "streaming")
    assert outcome["who"]
    for executable, file, build in outcome["who"]:
        assert executable == python
        assert place in file
        assert build == "COMPILED"
    assert outcome["notes"] == []


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_executors_without_the_package_run_the_compiled_core_of_the_driver(
    mode: str, cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(cluster.start(cluster.master, mode, rows, tmp_path, PYSPARK_PYTHON=bare))
    check(outcome, mode, bare, place="/worker")


def test_executors_with_the_package_run_the_compiled_core_that_is_installed(
    cluster: Cluster, full: str, rows: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(cluster.start(cluster.master, "batch", rows, tmp_path, PYSPARK_PYTHON=full))
    check(outcome, "batch", full, place="/site-packages/dataflow_model/")


@pytest.mark.parametrize(("mode", "has_package"), [("batch", False), ("streaming", True)])
def test_a_program_that_spark_submit_starts_gives_the_same_panes(
    mode: str, has_package: bool, cluster: Cluster, bare: str, full: str, rows: Path, tmp_path: Path
) -> None:
    python = full if has_package else bare
    outcome = outcome_of(cluster.start("submit", mode, rows, tmp_path, submit=True, PYSPARK_PYTHON=python))
    check(outcome, mode, python, place="/site-packages/" if has_package else "/worker")


def test_a_connect_server_on_the_cluster_gives_the_same_panes_without_the_package_on_executors(
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    with cluster.connect_server(bare) as url:
        for mode in ("streaming", "batch"):
            outcome = outcome_of(cluster.start(url, mode, rows, tmp_path))
            check(outcome, mode, bare, place="/worker")


def test_executors_on_which_the_core_is_switched_off_are_named_once(
    cluster: Cluster, full: str, rows: Path, tmp_path: Path
) -> None:
    off = "spark.executorEnv.DATAFLOW_MODEL_COMPILED=no"
    outcome = outcome_of(cluster.start(cluster.master, "batch", rows, tmp_path, off, PYSPARK_PYTHON=full))
    assert not outcome["differences"]
    [note] = outcome["notes"]
    assert outcome["logged"].count(note) == 1
    assert full in note
    assert note.endswith("unset DATAFLOW_MODEL_COMPILED there")


def test_an_executor_and_a_worker_that_are_killed_under_way_change_nothing(  # the last: it leaves one worker
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    job = cluster.start(cluster.master, "streaming", rows, tmp_path, PYSPARK_PYTHON=bare)
    commits = tmp_path / "checkpoint/spark/commits"
    killed = []

    def kill() -> None:
        for number, victim in enumerate([cluster.kill_executor, cluster.kill_worker]):
            while not (commits / str(number)).exists():
                if job.poll() is not None:
                    return
                time.sleep(0.1)
            victim()
            killed.append(victim)

    killing = threading.Thread(target=kill)
    killing.start()
    outcome = outcome_of(job)
    killing.join()
    assert len(killed) == 2
    check(outcome, "streaming", bare, place="/worker")
