"""`WriteKafka` after a retracting strategy: who keeps the last value of each key, or adds up rows, has the result."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.kafka.topics import messages_in, new_topic
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

REFINED = TestStream().add(5, 1, key="UA").add(3, 2, key="UA").add(1, 70, key="AA").add(2, 3, key="UA")
"""Each element refines the window of its minute."""
MERGED = (
    TestStream()
    .add(5, 0, key="UA")
    .add(3, 15, key="UA")  # a session of its own
    .add(7, 40, key="AA")
    .add(2, 8, key="UA")  # which connects the two
)
MINUTES = dm.Window.into(dm.FixedWindows("1 minute"))
SESSIONS = dm.Window.into(dm.Sessions("10 seconds"))
CASES = [
    pytest.param(REFINED, MINUTES, {("UA", 0): 10, ("AA", 60): 1}, id="refined"),
    pytest.param(MERGED, SESSIONS, {("UA", 0): 10, ("AA", 40): 7}, id="merged"),
]
RUNNERS = ["bounded", "stream", "stream of small commits", "spark"]


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "spark":
        spark: SparkSession = request.getfixturevalue("spark")
        return dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path)
    if request.param == "bounded":
        return dm.LocalRunner()
    rows: dict[str, Any] = {} if request.param == "stream" else {"max_rows_per_batch": 1}
    return dm.LocalRunner(checkpoint=tmp_path, **rows)


def write(runner: Any, kafka: str, topic: str, script: TestStream, windowing: Any, **options: Any) -> None:
    def build(p: dm.Pipeline) -> None:
        strategy = windowing.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
        sums = p | script | strategy | dm.Sum.per_key()
        _ = sums | "out" >> dm.io.WriteKafka(topic, bootstrap_servers=kafka, panes=True, **options)

    run(runner, build)


def second(instant: str) -> int:
    """Return the seconds of an instant of January 1970."""
    return int(dm.event_time(instant)) // 1_000_000


@pytest.mark.parametrize(("script", "windowing", "expected"), CASES)
def test_the_last_message_of_each_key_and_window_is_its_result_and_the_others_are_tombstones(
    kafka: str, runner: Any, script: TestStream, windowing: Any, expected: dict[tuple[str, int], int]
) -> None:
    topic = new_topic(kafka, partitions=3)  # compaction might remove tombstones before they are looked for
    write(runner, kafka, topic, script, windowing, keys=("key", "window_start"), upsert=True)
    messages = messages_in(kafka, topic)
    table = {message.key(): message.value() for message in messages}  # as a reader keeps it
    rows = [json.loads(value) for value in table.values() if value is not None]
    assert {(row["key"], second(row["window_start"])): row["value"] for row in rows} == expected
    assert any(message.value() is None for message in messages)
    partitions = Counter(key for key, _ in {(message.key(), message.partition()) for message in messages})
    assert set(partitions.values()) == {1}  # only within a partition is there an order


@pytest.mark.parametrize(("script", "windowing", "expected"), CASES)
def test_rows_without_those_that_later_rows_retract_are_the_result(
    kafka: str, runner: Any, script: TestStream, windowing: Any, expected: dict[tuple[str, int], int]
) -> None:
    topic = new_topic(kafka)
    write(runner, kafka, topic, script, windowing)
    counts = Counter[tuple[tuple[str, int], int]]()
    for message in messages_in(kafka, topic):
        row = json.loads(message.value() or b"")
        entry = (row["key"], second(row["window_start"])), row["value"]
        counts[entry] += -1 if row["is_retraction"] else 1
        assert counts[entry] in {0, 1}, "a row is retracted before it is there"
        headers = dict(message.headers() or [])
        assert ("dataflow_model.is_retraction" in headers) == row["is_retraction"]
    assert sorted(entry for entry, count in counts.items() if count) == sorted(expected.items())
