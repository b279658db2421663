"""A stream in process is carried over: to another one, and to another host and back."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.sharded.checkpoint import running
from dataflow_model.testing import ManualClock
from tests.support.folders import content
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen, start, streaming
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.upgrade.pipelines import PIPELINES, Build, chained, pairs, retracting, stateful
from tests.support.waiting import PATIENCE, wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.runners.local.stream import LocalStream

ROWS_PER_BATCH = 61


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("events", [100, pytest.param(ROWS_PER_BATCH, marks=pytest.mark.slow)])
def test_a_stream_upgraded_at_any_point_emits_the_same_panes(
    pipeline: Callable[[Path], Build], rows: Path, tmp_path: Path, events: int
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    old, cuts = Stepped(build, tmp_path / "old", rows=events), 0
    while old.steps(1):
        if old.is_over():
            break
        before = content(old.checkpoint)
        dm.upgrade(str(old.checkpoint), str(tmp_path / f"new {cuts}"))
        assert content(old.checkpoint) == before
        new = Stepped(build, tmp_path / f"new {cuts}", rows=events)
        new.steps()
        assert not difference(expected, seen(new.collected("panes"))), cuts
        cuts += 1
    assert cuts >= 2


@pytest.mark.parametrize("pipeline", [chained, retracting, stateful])
def test_a_stream_can_move_to_another_host_with_more_shards_and_back(
    pipeline: Callable[[Path], Build], rows: Path, tmp_path: Path
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    Stepped(build, tmp_path / "1", rows=ROWS_PER_BATCH).steps(3)
    dm.upgrade(tmp_path / "1", tmp_path / "2")
    sharded = Run(build, tmp_path / "2", rows=ROWS_PER_BATCH, shards=3).steps(2)
    back = Stepped(build, sharded.carried_over(tmp_path / "3"), rows=ROWS_PER_BATCH)
    back.steps()
    assert not difference(expected, seen(back.collected("panes")))


def test_a_wall_clock_timer_fires_when_it_is_due_after_an_upgrade_without_new_data(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
        trigger = dm.Repeatedly(dm.AfterProcessingTime("1 minute"))
        windows = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10)).trigger(trigger)
        _ = windows | dm.Sum.per_key() | "panes" >> dm.io.Collect()

    clock = ManualClock("2013-01-01T00:00Z")
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    Stepped(build, tmp_path / "old", clock=clock).steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"))
    new = Stepped(build, tmp_path / "new", clock=clock)
    assert new.steps() == 1  # the state of the old run becomes that of the new one
    clock.advance("59 seconds")
    assert new.steps() == 0
    clock.advance("1 second")
    assert new.steps() == 1
    assert [record.value for record in new.collected("panes")] == [("a", 1)]


def test_a_stream_in_a_long_micro_batch_counts_as_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_SILENT_SECONDS", -1.0)  # every mark looks like that of a dead process
    entered, leave = threading.Event(), threading.Event()

    def wait(values: list[str]) -> None:
        entered.set()
        leave.wait(PATIENCE)

    checkpoint = tmp_path / "checkpoint"
    result = start(dm.LocalRunner(checkpoint=checkpoint), lambda p: p | dm.Create(["x"]) | dm.io.ForeachBundle(wait))
    assert entered.wait(PATIENCE)
    with pytest.raises(dm.CheckpointInUse, match=f"is running, in process {os.getpid()} on"):
        dm.upgrade(str(checkpoint), str(tmp_path / "new"))
    leave.set()
    result.wait_until_finish(PATIENCE)


def test_a_stream_with_labels_too_long_for_file_names_can_be_upgraded(rows: Path, tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        windows = pairs(p, rows) | dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = windows | "ä/" * 100 >> dm.Sum.per_key() | "x" * 300 >> dm.io.Collect()

    expected = seen(run(dm.LocalRunner(), build).collected("x" * 300))
    Stepped(build, tmp_path / "old", rows=ROWS_PER_BATCH).steps(3)
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"))
    new = Stepped(build, tmp_path / "new", rows=ROWS_PER_BATCH)
    new.steps()
    assert not difference(expected, seen(new.collected("x" * 300)))


def test_a_stream_whose_input_has_ended_cannot_be_upgraded(rows: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "old"
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint))
    chained(rows)(p)
    result = p.run()
    result.wait_until_finish()
    with pytest.raises(dm.CheckpointMismatch, match="is complete"):
        dm.upgrade(str(checkpoint), str(tmp_path / "new"))


def test_a_stream_that_was_stopped_before_it_had_published_cannot_be_upgraded(rows: Path, tmp_path: Path) -> None:
    stepped = Stepped(chained(rows), tmp_path / "old", rows=ROWS_PER_BATCH)
    stepped.steps(2)
    with pytest.raises(KeyboardInterrupt), stepped.opened() as stream:
        commit_only(stream)
    with pytest.raises(dm.CheckpointMismatch, match="while it published micro-batch 2"):
        dm.upgrade(str(stepped.checkpoint), str(tmp_path / "new"))
    stepped.steps(0)  # the next start publishes it
    assert dm.upgrade(str(stepped.checkpoint), str(tmp_path / "new")).batch == 2


def commit_only(stream: LocalStream) -> None:
    """Commit a micro-batch, and be interrupted before it is published."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stream), "_publish", lambda _, commit: interrupted(commit))
        stream.step()


def carried_over(old: Path, new: Path) -> None:
    """Do it as users do."""
    assert main(["upgrade", str(old), str(new)]) == 0


@pytest.mark.spark
def test_a_stream_in_process_can_resume_on_spark(spark: SparkSession, rows: Path, tmp_path: Path) -> None:
    build = chained(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    Stepped(build, tmp_path / "old", rows=ROWS_PER_BATCH).steps(4)
    carried_over(tmp_path / "old", tmp_path / "new")
    result = run(streaming(spark, tmp_path / "new", shards=2), build)
    assert not difference(expected, seen(result.collected("panes")))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("pipeline", [retracting, stateful])
def test_a_stream_can_move_from_spark_into_one_process_and_back(
    spark: SparkSession, pipeline: Callable[[Path], Build], rows: Path, tmp_path: Path
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    result = start(streaming(spark, tmp_path / "1", shards=2, max_rows_per_batch=ROWS_PER_BATCH), build)
    wait_for_batch(result, 2)
    result.stop()
    carried_over(tmp_path / "1", tmp_path / "2")
    Stepped(build, tmp_path / "2", rows=ROWS_PER_BATCH).steps(2)
    carried_over(tmp_path / "2", tmp_path / "3")
    finished = run(streaming(spark, tmp_path / "3", shards=3), build)
    assert not difference(expected, seen(finished.collected("panes")))
