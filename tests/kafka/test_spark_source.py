"""A stream and a batch job on Spark that read a topic with Spark's own connector have the panes of those with ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.fetched import jars_of
from tests.support.kafka.spark_source import ROWS
from tests.support.kafka.topics import new_topic, send
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(600)]

NEW_YEAR = 1_357_002_000_000


@pytest.fixture(scope="session")
def connector() -> Path:
    """The jars of Spark's connector; skip where they cannot be had."""
    return jars_of("spark-kafka", "Spark's connector of Kafka")


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_the_connector_of_spark_gives_the_same_panes_as_read_kafka(
    java_home: str, kafka: str, connector: Path, tmp_path: Path, mode: str
) -> None:
    topic = new_topic(kafka, partitions=2)
    for start in range(0, 60, 20):  # the second twenty are aborted, and markers leave gaps
        rows = [
            {"value": str(n), "key": f"k{n % 3}", "timestamp": NEW_YEAR + n * 1_000, "partition": n % 2}
            for n in range(start, start + 20)
        ]
        send(kafka, topic, rows, commits=start != 20)
    arguments = kafka, topic, mode, str(tmp_path), str(connector)
    command = [sys.executable, "-m", "tests.support.kafka.spark_source", *arguments]
    variables = os.environ | {"JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    panes = json.loads((tmp_path / "panes.json").read_text())
    assert panes["ours"] == panes["spark"]
    assert sum(int(pane[1]) for pane in panes["ours"]) == sum(range(20)) + sum(range(40, 60))
    assert len(panes["ours"]) == 3 * 4
    assert len([*range(20), *range(40, 60)]) == ROWS
