"""The wall clock jumps back and forward under a run, and while it is stopped."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.tasks import faults
from tests.support.faults.injected import DAY, JumpingClock
from tests.support.faults.summing import SINK, Sums
from tests.support.pipelines import run, start
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.watermarks.estimators import Arrival
    from tests.support.faults.tally import Tally


@attrs.frozen
class Endless(Source):
    """A source that never ends, and of which nothing is read."""

    event_time: str | Arrival | None = "at"
    processing_time: str | None = None
    is_bounded: bool = False


def net(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Return what stands of panes once retractions have been applied: the fold by which cuts must not matter."""
    standing: dict[tuple[Any, ...], int] = {}
    for record in records:
        cell = (*record.value, record.window)
        standing[cell] = standing.get(cell, 0) + (-1 if record.is_retraction else 1)
    return sorted(((cell, times) for cell, times in standing.items() if times), key=repr)


@given(st.lists(st.integers(-DAY, DAY), min_size=2, max_size=20))
def test_the_clock_of_a_run_never_goes_back_whatever_the_wall_clock_does(readings: list[int]) -> None:
    pipeline = dm.Pipeline()
    _ = pipeline | dm.Read(Endless()) | dm.io.Collect()
    left = iter(readings)
    feed = Feed(cut_into_stages(pipeline.plan()).sources, 1, 1, read_clock=lambda wall: next(left))
    offset = Offset()
    for reading in readings:
        before, offset = offset, feed.next(offset, drain=False)
        assert offset.clock == max(reading, before.clock + 1)


@pytest.mark.slow
def test_a_clock_that_jumps_never_goes_back_for_the_run_and_the_answers_stay_the_same(
    spark: SparkSession, tmp_path: Path, tally: Tally
) -> None:
    sums = Sums(tmp_path, replays=False)
    readings = tmp_path / "readings"
    faults.arm(JumpingClock(str(readings), seed=1))
    try:
        first = start(sums.runner(spark, max_rows_per_batch=12), sums.build)
        wait_for_batch(first, 8)
        first.stop()
        result = run(sums.runner(spark, max_rows_per_batch=12), sums.build, until=None)
    finally:
        faults.disarm()
    read = [json.loads(line) for line in readings.read_text().splitlines()]
    jumps = sum(abs(after - before) > 3_600_000_000 for before, after in itertools.pairwise(read))
    assert any(after < before for before, after in itertools.pairwise(read))
    clocks = [clock_of(sums.checkpoint, number) for number in range(len(result.query.recentProgress))]
    assert all(before < after for before, after in itertools.pairwise(clocks))
    local: Any = run(dm.LocalRunner(), sums.build)
    tally.judge("clock jumped", jumps, {SINK: net(local.collected(SINK))}, {SINK: net(result.collected(SINK))})


def clock_of(checkpoint: Path, micro_batch: int) -> int:
    """Return where the run's clock stood after a micro-batch."""
    *_, line = (checkpoint / "spark" / "offsets" / str(micro_batch)).read_text().splitlines()
    clock: int = json.loads(line[line.index("{") :])["clock"]
    return clock
