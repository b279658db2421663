"""Jobs on Spark that fail, are superseded, lose their session or hold much: a clear end, and nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import traceback
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.commits.publishing import Publisher
from dataflow_model.runners.spark.deployment.failures import find_our_error, reported
from tests.support.inputs import summing, write_rows
from tests.support.pipelines import run, start, streaming
from tests.support.settings import REPOSITORY
from tests.support.waiting import PATIENCE, wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LIKE_SPARK = "\n\nDuring handling of it, dataflow_model.errors.SinkError: none\n\tat line 5\nSQLSTATE: 42P01\n'\n"
"""Lines that look like those between which Spark's errors contain ours."""
JOB = "tests.support.runners.stopped_job"


def slowly(x: int) -> int:
    time.sleep(0.5)
    return x


def broken(x: int) -> int:
    raise ValueError(f"no such name: caf\udce9 {x}{LIKE_SPARK}")


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.slow)])
def test_an_error_with_a_lone_surrogate_ends_the_run(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | "break" >> dm.Map(broken) | dm.io.Collect()

    runner = dm.SparkRunner(spark, mode="batch") if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    result = start(runner, build)
    with pytest.raises(dm.UserCodeError, match=r"^ValueError: no such name: caf\\udce9 1") as caught:
        result.wait_until_finish(PATIENCE)
    assert LIKE_SPARK in str(caught.value)
    assert "transform: 'break'" in str(caught.value)


@pytest.mark.parametrize("message", [LIKE_SPARK, "(the error message above has 3 characters)", "\n"])
def test_an_error_is_reported_whole_whatever_its_message(message: str) -> None:
    @reported
    def work() -> None:
        error = dm.SinkError(message)
        error.add_note("look at the disk")
        raise error from dm.UserCodeError("first")

    with pytest.raises(dm.SinkError) as caught:
        work()
    text = "".join(traceback.format_exception(caught.value))
    found = find_our_error(RuntimeError(f"Job aborted:\n{text}\n\tat org.apache.spark\nDriver stacktrace:"))
    assert type(found) is dm.SinkError
    assert str(found) == message


def test_a_job_that_fails_ends_with_its_error_although_its_output_cannot_be_removed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Publisher, "abort", full)

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | dm.Map(broken) | dm.io.Collect()

    result = start(dm.SparkRunner(spark, mode="batch"), build)
    with pytest.raises(dm.UserCodeError, match="no such name"):
        result.wait_until_finish(PATIENCE)
    assert result.state is dm.RunnerState.FAILED
    assert "not everything that it held could be released" in caplog.text


def test_a_job_stopped_immediately_publishes_nothing_and_stopping_a_finished_one_has_no_effect(
    spark: SparkSession,
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1, 2]) | dm.Map(slowly) | "kept" >> dm.io.Collect()

    result = start(dm.SparkRunner(spark, mode="batch"), build)
    result.stop()
    assert result.wait_until_finish(PATIENCE) is dm.RunnerState.STOPPED
    assert result.collected("kept") == []
    done = run(dm.SparkRunner(spark, mode="batch"), build)
    done.stop()
    assert done.state is dm.RunnerState.DONE
    assert len(done.collected("kept")) == 2


def test_a_function_that_refers_to_the_session_is_refused_with_its_label(spark: SparkSession) -> None:
    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch"))
    _ = p | dm.Create([1]) | "query" >> dm.Map(lambda x: spark.range(x).count()) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match=r"^'query' cannot be sent to workers: (?s:.*)Hint: .*SparkSession"):
        p.run()


def test_a_second_run_on_one_checkpoint_and_session_supersedes_the_first(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 15)
    build = summing(tmp_path / "rows", follow=True)
    older = start(streaming(spark, tmp_path / "checkpoint"), build)
    wait_for_batch(older, 0)
    newer = start(streaming(spark, tmp_path / "checkpoint"), build)
    with pytest.raises(dm.SupersededRun, match=r"was taken\s+over at .* by a newer start of the run \(process \d+"):
        older.wait_until_finish(PATIENCE)
    assert older.state is dm.RunnerState.FAILED
    with pytest.raises(dm.CheckpointInUse, match="is running, in process"):  # the newer one's mark is still there
        dm.upgrade(str(tmp_path / "checkpoint"), str(tmp_path / "next"), spark=spark)
    write_rows(tmp_path / "rows" / "b.parquet", 15, 25)
    newer.drain()
    assert newer.state is dm.RunnerState.DRAINED
    assert sum(record.value[1] for record in newer.collected("panes")) in {sum(range(15)), sum(range(25))}


def test_the_folder_of_a_bounded_job_is_removed_with_its_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create(["secret"] * 1_000) | "kept" >> dm.io.Collect()

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run(dm.SparkRunner(spark, mode="batch"), build)
    gc.collect()
    [folder] = tmp_path.glob("dataflow_model-run-*")
    assert len(result.collected("kept")) == 1_000
    del result
    gc.collect()
    assert not folder.exists()


@pytest.mark.slow  # 30 seconds: a session of its own, with the JVM's default memory
def test_functions_with_a_large_table_run_in_a_small_jvm_and_a_stopped_session_is_reported(
    java_home: str, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 15)
    ran = subprocess.run(
        [sys.executable, "-m", JOB, tmp_path],
        cwd=REPOSITORY,
        env={**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["first streams"] == [[2, 4], [2, 4]]
    assert report["batch table"] == report["streaming table"] == [["a", 60_000_001]]
    for mode, state in (("batch", "FAILED"), ("streaming", "FAILED")):
        assert report[f"{mode} stopped"][0] == "SessionStopped"
        assert report[f"{mode} stopped"][1].startswith("the Spark session was stopped before the run ended\nHint: ")
        assert report[f"{mode} stopped"][2] == state
    assert report["batch on a stopped session"] == [
        "SessionStopped",
        "the Spark session was stopped before the run started",
    ]
    assert report["DataFrame of a stopped session"] == [
        "SessionStopped",
        "'source' reads a DataFrame of a Spark session that was stopped",
    ]
