"""Python workers that are gone between micro-batches: Spark kills those that were idle for a minute."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.faults.summing import SINK, Sums
from tests.support.faults.victims import PATIENCE, WORKER, descendants, kill
from tests.support.pipelines import start

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.faults.tally import Tally

INTERVAL = 6
"""Seconds from one micro-batch to the next, of which most are rest."""


@pytest.mark.slow
def test_workers_that_end_between_micro_batches_change_no_result(
    spark: SparkSession, tmp_path: Path, tally: Tally
) -> None:
    sums = Sums(tmp_path)
    result: Any = start(sums.runner(spark, trigger_interval=f"{INTERVAL} seconds"), sums.build)
    killed, seen_batch = 0, -1
    while wait_for_rest(result, seen_batch):
        seen_batch = result.query.lastProgress.batchId
        killed += sum(kill(pid) for pid in idle_workers())
    result.wait_until_finish()
    tally.judge("idle worker killed", killed, sums.uninterrupted(), sums.outcome(result.collected(SINK)))
    assert result.cache()["void"] > result.cache().get("fresh", 0)


def wait_for_rest(result: Any, after: int) -> bool:
    """Wait until a micro-batch behind this one is done and none runs; `False` once the run is over."""
    pause = threading.Event()
    for _ in range(PATIENCE * 100):
        if not result.query.isActive:
            return False
        progress = result.query.lastProgress
        rests = not result.query.status["isTriggerActive"] and time.time() % INTERVAL < INTERVAL - 1  # Spark's own grid
        if rests and progress is not None and progress.batchId > after:
            return True
        pause.wait(0.01)
    pytest.fail(f"no micro-batch within {PATIENCE} seconds")


def idle_workers() -> list[int]:
    """Return the workers of this session, without what has forked them: that is a worker's parent."""
    workers = descendants(WORKER)
    pids = {worker.pid for worker in workers}
    return [worker.pid for worker in workers if worker.parent in pids]
