"""The flights on a standalone cluster whose executors have a Python environment of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.support.cluster.outcomes import check, kill_under_way, outcome_of
from tests.support.cluster.standalone import standalone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.cluster.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def cluster(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), java_home) as started:
        yield started


@pytest.mark.sample
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_executors_without_the_package_run_the_compiled_core_of_the_driver(
    mode: str, cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(cluster.start(mode, rows, tmp_path, PYSPARK_PYTHON=bare))
    check(outcome, mode, bare, place="/work/worker")


def test_executors_with_the_package_run_the_compiled_core_that_is_installed(
    cluster: Cluster, full: str, rows: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(cluster.start("batch", rows, tmp_path, PYSPARK_PYTHON=full))
    check(outcome, "batch", full, place="/site-packages/dataflow_model/")


@pytest.mark.parametrize(("mode", "has_package"), [("batch", False), ("streaming", True)])
def test_a_program_that_spark_submit_starts_gives_the_same_panes(
    mode: str, has_package: bool, cluster: Cluster, bare: str, full: str, rows: Path, tmp_path: Path
) -> None:
    python = full if has_package else bare
    outcome = outcome_of(cluster.start(mode, rows, tmp_path, how="submit", PYSPARK_PYTHON=python))
    check(outcome, mode, python, place="/site-packages/" if has_package else "/work/worker")


def test_a_connect_server_on_the_cluster_gives_the_same_panes_without_the_package_on_executors(
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    with cluster.connect_server(bare) as url:
        for mode in ("streaming", "batch"):
            outcome = outcome_of(cluster.start(mode, rows, tmp_path, how=url))
            check(outcome, mode, bare, place="/work/worker")


def test_executors_on_which_the_core_is_switched_off_are_named_once(
    cluster: Cluster, full: str, rows: Path, tmp_path: Path
) -> None:
    off = {"spark.executorEnv.DATAFLOW_MODEL_COMPILED": "no"}
    outcome = outcome_of(cluster.start("batch", rows, tmp_path, settings=off, PYSPARK_PYTHON=full))
    assert not outcome["differences"]
    [note] = outcome["notes"]
    assert outcome["logged"].count(note) == 1
    assert full in note
    assert note.endswith("unset DATAFLOW_MODEL_COMPILED there")


def test_doctor_checks_the_executors(cluster: Cluster, bare: str) -> None:
    answer = outcome_of(cluster.command("doctor", "--spark", cluster.master, "--json", PYSPARK_PYTHON=bare))
    spark, *executors, _ = answer["findings"][-3:]
    assert (spark["status"], spark["value"]) == ("ok", f"{pyspark.__version__} on {cluster.master}")
    assert [executor["status"] for executor in executors] == ["ok"]
    assert executors[0]["value"].endswith(f" ({bare}), core compiled")
    assert answer["healthy"]


def test_killing_an_executor_and_a_worker_during_the_run_changes_no_result(  # the last: it leaves one worker
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    job = cluster.start("streaming", rows, tmp_path, PYSPARK_PYTHON=bare)
    outcome = kill_under_way(job, tmp_path / "checkpoint", [cluster.kill_executor, cluster.kill_worker])
    check(outcome, "streaming", bare, place="/work/worker")
