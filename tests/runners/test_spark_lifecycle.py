"""A run on Spark streaming that is stopped, resumed, drained, waited for."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.tasks import faults
from dataflow_model.runners.spark.deployment.session import settings_of
from tests.support.inputs import summing, write_rows
from tests.support.pipelines import difference, run, seen, start, streaming
from tests.support.waiting import PATIENCE, wait_for, wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.runner import PipelineResult


class Meter:
    """Hands the values of each commit over, so that a test can wait for one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.changed = threading.Condition()

    def take(self, values: list[Any]) -> None:
        with self.changed:
            self.values += values
            self.changed.notify_all()


SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass")


@pytest.fixture
def settings_that_come_back(spark: SparkSession) -> Iterator[None]:
    """Check that the session's own settings are after a test what they were before it."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    yield
    assert {name: spark.conf.get(name, None) for name in SETTINGS} == before


@pytest.mark.usefixtures("settings_that_come_back")  # among them the number of shards, which is another one here
def test_a_stopped_run_resumes_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 120)
    build = summing(tmp_path / "rows")
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    first = start(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=30, shards=1), build)
    wait_for_batch(first, 1)
    first.stop()
    before = seen(first.collected("panes"))
    assert first.state in {dm.RunnerState.STOPPED, dm.RunnerState.DONE}
    assert before
    assert before == expected[: len(before)]
    second = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=80, shards=1), build)
    assert second.state is dm.RunnerState.DONE
    assert not difference(expected, seen(second.collected("panes")))
    assert second.metrics()["rows"]["elements_out"] == 120
    third = run(streaming(spark, tmp_path / "checkpoint", shards=1), build)  # it is over; nothing comes twice
    assert third.state is dm.RunnerState.DONE
    assert not difference(expected, seen(third.collected("panes")))


@pytest.fixture
def hdfs_by_default(spark: SparkSession) -> Iterator[None]:
    """Make HDFS the default file system of Spark, as it is on YARN; here, nothing answers there."""
    java: Any = spark.sparkContext._jsc
    settings = java.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    yield
    settings.set("fs.defaultFS", before)


@pytest.mark.slow
@pytest.mark.usefixtures("hdfs_by_default")
def test_a_checkpoint_is_written_to_its_folder_whatever_the_default_file_system_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 60)
    checkpoint, build = tmp_path / "checkpoint", summing(tmp_path / "rows")
    first = start(streaming(spark, checkpoint, max_rows_per_batch=30, shards=1), build)
    wait_for_batch(first, 0)
    first.stop()
    assert (checkpoint / "spark/commits/0").exists()
    dm.upgrade(checkpoint, tmp_path / "upgraded", spark=spark)
    second = run(streaming(spark, tmp_path / "upgraded", shards=1), build)
    assert second.state is dm.RunnerState.DONE
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    assert not difference(expected, seen(second.collected("panes")))  # those of the first run were carried over


@pytest.mark.slow
@pytest.mark.usefixtures("settings_that_come_back")
def test_streams_are_started_in_several_threads_at_once_and_on_a_new_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([("a", 1), ("b", 2), ("a", 3)]) | dm.Sum.per_key() | "sums" >> dm.io.Collect()

    def sums_in(session: SparkSession, name: str, shards: int) -> list[Any]:
        result = run(streaming(session, tmp_path / name, shards=shards), build)
        return sorted(record.value for record in result.collected("sums"))

    python = spark.sparkContext.pythonExec
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(sums_in, spark, "first", 1)
        second = threads.submit(sums_in, spark.newSession(), "second", 2)
    assert first.result() == second.result() == [("a", 4), ("b", 2)]
    assert spark.sparkContext.pythonExec == python


class Settings(dict[str, str]):
    """The settings of a session of Spark."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_one_thread_at_a_time_changes_the_settings_of_a_session() -> None:
    settings = Settings(shards="8")
    session: Any = SimpleNamespace(conf=settings)
    is_inside = threading.Event()

    def change() -> None:
        with settings_of(session, {"shards": "3", "names": "true"}):
            is_inside.set()

    other = threading.Thread(target=change)
    with settings_of(session, {"shards": "2"}):
        other.start()
        assert not is_inside.wait(0.1)
    other.join()
    assert is_inside.is_set()
    assert settings == {"shards": "8"}


@pytest.mark.slow
def test_draining_a_followed_source_closes_its_windows_for_good(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 15)
    build = summing(tmp_path / "rows", follow=True)
    result = start(streaming(spark, tmp_path / "checkpoint"), build)
    wait_for_batch(result, 0)
    write_rows(tmp_path / "rows" / "b.parquet", 15, 25)
    _wait_for_rows(result, 25)
    assert result.wait_until_finish(timeout=0.01) is dm.RunnerState.RUNNING
    result.drain()
    assert result.wait_until_finish() is dm.RunnerState.DRAINED
    panes = result.collected("panes")
    assert sum(record.value[1] for record in panes) == sum(range(25))
    assert {record.pane.timing for record in panes} == {dm.PaneTiming.ON_TIME}
    assert all(record.pane.is_last for record in panes)
    assert set(result.watermarks().values()) == {dm.MAX_TIMESTAMP}
    with pytest.raises(dm.CheckpointMismatch, match=r"was drained and cannot be resumed: .*\nHint: pass a new"):
        start(streaming(spark, tmp_path / "checkpoint"), build)


def _wait_for_rows(result: PipelineResult, rows: int) -> None:
    done = threading.Event()
    for _ in range(PATIENCE * 20):
        if result.metrics().get("rows", {}).get("elements_out", 0) >= rows:
            return
        assert result.state is dm.RunnerState.RUNNING
        done.wait(0.05)
    pytest.fail(f"no {rows} rows within {PATIENCE} seconds: {result.metrics()}")


@pytest.mark.slow
def test_a_stopped_run_with_a_followed_source_resumes_with_the_new_data(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 15)
    build = summing(tmp_path / "rows", follow=True)
    first = start(streaming(spark, tmp_path / "checkpoint"), build)
    _wait_for_rows(first, 15)
    first.stop()
    assert first.state is dm.RunnerState.STOPPED
    write_rows(tmp_path / "rows" / "b.parquet", 15, 25)
    second = start(streaming(spark, tmp_path / "checkpoint"), build)
    _wait_for_rows(second, 25)
    second.drain()
    assert sum(record.value[1] for record in second.collected("panes")) == sum(range(25))


@attrs.frozen
class SlowCommit(faults.Fault):
    """Leaves a mark when a micro-batch has published its first sink, and takes its time from there."""

    mark: Path

    def reach(self, point: str, micro_batch: int | None = None) -> None:
        del micro_batch
        if point == "while_publishing" and not self.mark.exists():
            self.mark.touch()
            time.sleep(2)


@pytest.mark.slow
def test_a_stop_waits_for_output_that_is_being_published(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 120)
    build = summing(tmp_path / "rows")
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=20)
    faults.arm(SlowCommit(tmp_path / "mark"))
    try:
        first = start(runner, build)
        for _ in range(PATIENCE * 20):
            if (tmp_path / "mark").exists():
                break
            first.wait_until_finish(timeout=0.05)
        first.stop()
    finally:
        faults.disarm()
    assert first.state is dm.RunnerState.STOPPED
    done = dm.upgrade(str(tmp_path / "checkpoint"), str(tmp_path / "upgraded"), spark=spark)
    assert done.rows == {"rows": 20}


@pytest.mark.slow
def test_a_stream_ends_in_a_session_that_keeps_no_progress_reports(spark: SparkSession, tmp_path: Path) -> None:
    with settings_of(spark, {"spark.sql.streaming.numRecentProgressUpdates": "1"}):
        pipeline = dm.Pipeline(runner=streaming(spark, tmp_path / "checkpoint", shards=1))
        _ = pipeline | dm.Create([("a", 1), ("a", 2)]) | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        result = pipeline.run()
        assert result.wait_until_finish(timeout=PATIENCE) is dm.RunnerState.DONE
    assert [record.value for record in result.collected("sums")] == [("a", 3)]


@pytest.mark.slow
def test_a_bounded_input_run_until_drained_ends_with_the_watermark_at_the_end_of_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 30)
    result = start(streaming(spark, tmp_path / "checkpoint"), summing(tmp_path / "rows"), until="drained")
    assert result.wait_until_finish() is dm.RunnerState.DONE
    assert set(result.watermarks().values()) == {dm.MAX_TIMESTAMP}


@pytest.mark.slow
def test_the_trigger_interval_is_passed_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 30)
    build = summing(tmp_path / "rows")
    runner = streaming(spark, tmp_path / "checkpoint", trigger_interval="3 seconds", max_rows_per_batch=15)
    result: Any = run(runner, build)
    micro_batches = result.query.recentProgress
    assert len(micro_batches) >= 3
    for before, after in itertools.pairwise(micro_batches):
        began = dt.datetime.fromisoformat(after.timestamp).timestamp()
        due = began // 3 * 3
        ended = dt.datetime.fromisoformat(before.timestamp).timestamp() + before.batchDuration / 1_000
        # One that took too long is followed at once; its duration leaves out some of what the query does around it.
        assert began - due < 1 or ended > due - 0.5, (before, after)
    assert not difference(seen(run(dm.LocalRunner(), build).collected("panes")), seen(result.collected("panes")))


def test_an_idle_stream_commits_nothing_until_data_arrive_or_a_timer_is_due(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 3)

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True)
        later = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterProcessingTime("4 seconds")))
        pairs = rows | dm.Map(lambda _: ("all", 1))
        _ = pairs | later | dm.Sum.per_key() | "panes" >> dm.io.Collect()

    result = start(streaming(spark, tmp_path / "checkpoint", shards=1), build)
    wait_for(result, lambda: len(result.collected("panes")) == 1)
    assert result.report().commits <= 3  # one with the rows and one with the timer, 4 seconds later
    write_rows(tmp_path / "rows" / "b.parquet", 3, 5)
    wait_for(result, lambda: len(result.collected("panes")) == 2)
    result.drain()
    assert [record.value for record in result.collected("panes")] == [("all", 3), ("all", 2)]
