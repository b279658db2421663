"""The flights on YARN in client mode, with HDFS as the default file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.cluster.cluster import JARS
from tests.support.cluster.hadoop import hadoop
from tests.support.cluster.outcomes import check, kill_under_way, outcome_of
from tests.support.fetched import jars_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.cluster.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def jars() -> Path:
    """The jars of Hadoop's daemons; skip where they cannot be had."""
    return jars_of("hadoop", "YARN")


@pytest.fixture(scope="module")
def cluster(java_home: str, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with hadoop(tmp_path_factory.mktemp("hadoop"), java_home, jars) as started:
        yield started


def test_the_daemons_have_the_version_of_the_client_in_pyspark(jars: Path) -> None:
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    (daemons,) = jars.glob("hadoop-client-minicluster-*.jar")
    assert daemons.name.removeprefix("hadoop-client-minicluster-") == client.name.removeprefix("hadoop-client-api-")


def test_flights_that_are_read_from_hdfs_give_the_same_answers(
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(cluster.start("batch", rows, tmp_path, how="submit", PYSPARK_PYTHON=bare))
    check(outcome, "batch", bare, place="/containers/")


def test_killing_a_container_during_a_stream_changes_no_pane(
    cluster: Cluster, bare: str, rows: Path, tmp_path: Path
) -> None:
    job = cluster.start("streaming", rows, tmp_path, PYSPARK_PYTHON=bare)
    outcome = kill_under_way(job, tmp_path / "checkpoint", [cluster.kill_executor])
    check(outcome, "streaming", bare, place="/containers/")
