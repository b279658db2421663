"""A run that is killed and started again commits what one that nothing happens to commits, exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dataflow_model.testing import CrashPoint
from tests.support.conformance.killed import COMMITTED, IN_PROCESS_ONLY, MICRO_BATCH, ROWS, building
from tests.support.pipelines import run
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

QUICK = ("after_state", "after_publishing")
POINTS = [point if point in QUICK else pytest.param(point, marks=pytest.mark.slow) for point in CrashPoint.POINTS]


def kill(durable: OnHost, point: str) -> None:
    """Run the pipeline until it is killed: on Spark a process of its own, in process this one, so another is taken."""
    if durable.host.name == "streaming":
        with CrashPoint(point, MICRO_BATCH) as crash, pytest.raises(Exception):  # noqa: B017, PT011 - Spark's own
            run(durable.runner(max_rows_per_batch=ROWS), building(durable.folder, is_drawn=False))
        assert crash.was_reached
        return
    command = [sys.executable, "-m", "tests.support.conformance.killed", str(durable.folder), point]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    killed = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_commits_everything_once(durable: OnHost, point: str) -> None:
    if point in IN_PROCESS_ONLY and durable.host.name == "streaming":
        return  # Spark has no such point
    kill(durable, point)
    is_drawn = durable.host.name == "process"  # a published micro-batch may run again on Spark, but not here
    result = run(durable.runner(max_rows_per_batch=ROWS), building(durable.folder, is_drawn=is_drawn))
    assert [record.value for record in result.collected("panes")] == COMMITTED
    lines = [line for file in (durable.folder / "out").rglob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["key"], row["value"]) for row in map(json.loads, lines)) == sorted(COMMITTED)
    tickets = result.collected("held")
    assert (len(tickets), sum(record.is_retraction for record in tickets)) == (6, 2)
    standing = {record.value: -1 if record.is_retraction else 1 for record in tickets}
    assert sorted(key for (key, _), sign in standing.items() if sign > 0) == ["a", "d"]
    assert len(standing) == 4, "each ticket that was taken back is one that was emitted"
    assert [record.value for record in result.collected("number of tickets")] == [2]
