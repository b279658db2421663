"""On a stream, what users' functions count goes with the micro-batch: work that is lost, or done twice, counts once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.runners.reporting import make_report
from dataflow_model.runners.sharded.commits.progress import read_measured
from dataflow_model.runners.sharded.commits.publishing import Publisher
from dataflow_model.runners.sharded.stages import in_process
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.testing import TestStream
from tests.support.metrics import counting
from tests.support.micro_batches import SHARDS, Streamed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUMBERS = [number * 7 % 10 for number in range(60)]
SCRIPT = TestStream()
for index, number in enumerate(NUMBERS):
    SCRIPT = SCRIPT.processing_time(index).add(("abc"[index % 3], number), event_time=index)


def report(run: Streamed) -> dm.metrics.RunReport:
    plan = run.program.staged.plan
    return make_report(run.program.staged, read_measured(run.directory, plan))


def build(p: dm.Pipeline) -> None:
    counting.build(p | SCRIPT | dm.Window.into(dm.FixedWindows("10 seconds")))


def expected(run: Streamed) -> dict[str, dict[str, int]]:
    return counting.by_hand(NUMBERS, [record.value for record in run.collected("out")])


@pytest.mark.parametrize("steps", [1, 7, 1_000])
def test_counters_are_the_same_however_the_micro_batches_are_cut(tmp_path: Path, steps: int) -> None:
    run = Streamed(build, tmp_path, steps)
    commits = 0
    while not run.offset.last:
        run.step()
        commits += 1
    assert counting.counted(report(run)) == expected(run)
    assert report(run).commits == commits


def test_counts_of_a_failed_attempt_are_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_twice(task: Any, depth: int, shard: int, rows: Any, store: Any) -> Iterator[Any]:
        list(run_shard(task, depth, shard, rows, copy.deepcopy(store)))
        return run_shard(task, depth, shard, rows, store)

    monkeypatch.setattr(in_process, "run_shard", run_twice)
    run = Streamed(build, tmp_path, 9).finish()
    assert counting.counted(report(run)) == expected(run)


def test_counts_of_a_repeated_commit_are_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Publisher.commit

    def commit_twice(self: Publisher, batch: int, pending: Any) -> None:
        commit(self, batch, pending)
        commit(self, batch, pending)

    once = Streamed(build, tmp_path / "once", 9).finish()
    monkeypatch.setattr(Publisher, "commit", commit_twice)
    run = Streamed(build, tmp_path / "twice", 9).finish()
    assert counting.counted(report(run)) == expected(run)
    again, before = report(run), report(once)
    assert again.commits == before.commits
    assert again.transforms["out"].elements_in == before.transforms["out"].elements_in
    assert again.transforms["map"].elements_out == len(NUMBERS)


def test_the_report_of_a_stage_has_its_state_calls_and_the_size_of_its_state(tmp_path: Path) -> None:
    run = Streamed(build, tmp_path, 9)
    for _ in range(5):
        run.step()
    stage = report(run).stages[1]
    assert stage.transforms == ("remember", "sums")
    assert stage.cache_fresh + stage.cache_behind + stage.cache_void == 5 * len(SHARDS)
    assert stage.cache_void >= len(SHARDS)
    assert stage.state_calls >= 3 * 5 * len(SHARDS)
    assert stage.state_bytes_written > 0
    remember = report(run).transforms["remember"]
    assert remember.state_entries == 3
    assert remember.state_bytes is not None
    assert remember.state_bytes > 3 * 10
    run.finish()
    assert report(run).transforms["remember"].state_entries == 0
    assert report(run).transforms["remember"].state_bytes == 0


def test_the_report_of_a_stage_has_its_slowest_keys(tmp_path: Path) -> None:
    run = Streamed(build, tmp_path, 9).finish()
    slow = report(run).transforms["sums"].slowest_keys
    assert {key.key for key in slow} <= {"a", "b", "c"}
    assert slow
    assert sorted(slow, key=lambda key: -key.seconds) == list(slow)
