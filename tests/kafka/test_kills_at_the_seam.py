"""Files, then a topic, to another topic: each row once, wherever the stream is killed around the seam."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kafka.job import HISTORY, NUMBERS, SEAM, SECOND, STEPS, run_job
from tests.support.kafka.topics import messages_in, new_topic, send

if TYPE_CHECKING:
    from pathlib import Path

LAST = 14


def write_history(folder: Path) -> None:
    """Write what two micro-batches read: the rows before the seam, and one behind it."""
    (folder / HISTORY).mkdir()
    for name, first, last in (("a", 0, 3), ("b", 3, SEAM + 1)):
        columns = {"at": [number * SECOND for number in range(first, last)], "n": list(range(first, last))}
        pq.write_table(pa.table(columns, schema=NUMBERS), folder / HISTORY / f"{name}.parquet")


def write_topic(servers: str, topic: str) -> None:
    """Write rows from some before the seam on, in transactions, the last of which is aborted."""
    for first, last, commits in ((SEAM - 2, SEAM + 2, True), (SEAM + 2, LAST, True), (SEAM, LAST, False)):
        rows = [{"at": number * SECOND, "n": number} for number in range(first, last)]
        send(servers, topic, [{"value": json.dumps(row), "partition": row["n"] % 2} for row in rows], commits=commits)


def numbers_in(servers: str, topic: str, *, is_settled: bool = True) -> list[int]:
    messages = messages_in(servers, topic, is_settled=is_settled)
    return sorted(json.loads(message.value() or b"")["n"] for message in messages)


def kill_before_at_and_after_the_seam(servers: str, folder: Path, step: str, marks: str) -> None:
    """Kill a stream in its last micro-batch of files, its first of the topic, and the next; then let it end."""
    folder.mkdir()
    write_history(folder)
    source, target = new_topic(servers, partitions=2), new_topic(servers, partitions=2)
    write_topic(servers, source)
    written = []
    for _ in range(3):
        assert run_job(servers, source, target, folder, step, marks=marks) != 0, step
        written.append(numbers_in(servers, target, is_settled=False))  # the transaction may be open
    assert max(written[0]) < SEAM  # killed before the seam
    assert max(written[2]) >= SEAM  # killed after it
    assert run_job(servers, source, target, folder, marks=marks) == 0
    assert numbers_in(servers, target) == list(range(LAST)), step


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("steps", "marks"),
    [
        pytest.param(STEPS[::3], "group", marks=pytest.mark.connectors),
        (STEPS, "group"),
        (STEPS, "topic"),
    ],
)
def test_a_stream_from_files_and_a_topic_that_is_killed_around_the_seam_writes_each_row_once(
    kafka: str, tmp_path: Path, steps: tuple[str, ...], marks: str
) -> None:
    for number, step in enumerate(steps):
        kill_before_at_and_after_the_seam(kafka, tmp_path / str(number), step, marks)
