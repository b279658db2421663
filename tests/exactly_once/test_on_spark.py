"""Transactional sinks, zombies, retried tasks and weak productions on Spark."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from sqlalchemy.exc import OperationalError

import dataflow_model as dm
from dataflow_model.testing import CrashPoint
from tests.support.exactly_once.databases import rows
from tests.support.exactly_once.job import SCRIPT, build
from tests.support.exactly_once.weak import builder, printed, published
from tests.support.pipelines import run, seen, start, streaming
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = REPOSITORY / "tests/support/exactly_once/job.py"
PATIENCE = 240


def table(folder: Path) -> list[tuple[Any, ...]]:
    actual = rows(f"sqlite:///{folder / 'test.db'}", "sums")
    return [(row["key"], row["window_start"], row["value"], row["pane_index"]) for row in actual]


def files(folder: Path) -> list[str]:
    return sorted(map(repr, ds.dataset(folder / "files", format="json").to_table().to_pylist()))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what an uninterrupted run leaves; the local one, whose panes are those of Spark."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    result = run(dm.LocalRunner(), lambda p: build(p, str(folder)))
    return {"table": table(folder), "files": files(folder), "kept": seen(result.collected("kept"))}


def left(folder: Path, kept: Any) -> dict[str, Any]:
    return {"table": table(folder), "files": files(folder), "kept": seen(kept)}


def wait_for(condition: Callable[[], Any], problem: Callable[[], str]) -> Any:
    pause, give_up = threading.Event(), time.monotonic() + PATIENCE
    while not (actual := condition()):
        assert time.monotonic() < give_up, problem()
        pause.wait(0.05)
    return actual


@pytest.mark.parametrize("point", ["while_publishing", pytest.param("before_publishing", marks=pytest.mark.slow)])
def test_a_repeated_commit_changes_a_table_once(
    spark: SparkSession, tmp_path: Path, expected: dict[str, Any], point: str
) -> None:
    def runner() -> dm.SparkRunner:
        return streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=30)  # three micro-batches

    crashing = runner()
    with CrashPoint(point, micro_batch=1) as crash:
        with contextlib.suppress(Exception):
            run(crashing, lambda p: build(p, str(tmp_path)), None)
        assert crash.was_reached
        result = run(runner(), lambda p: build(p, str(tmp_path)), None)
    assert left(tmp_path, result.collected("kept")) == expected


def test_a_bounded_job_leaves_the_same_table_as_a_local_run(spark: SparkSession, tmp_path: Path) -> None:
    def summed(folder: Path) -> Callable[[dm.Pipeline], Any]:
        folder.mkdir()
        to = dm.io.WriteTable(f"sqlite:///{folder / 'test.db'}", table="sums", keys=("key", "window_start"), panes=True)
        return lambda p: p | SCRIPT | dm.Window.into(dm.FixedWindows("8 seconds")) | dm.Sum.per_key() | to

    run(dm.SparkRunner(spark), summed(tmp_path / "batch"))
    run(dm.LocalRunner(), summed(tmp_path / "local"))
    assert table(tmp_path / "batch") == table(tmp_path / "local")
    assert len(table(tmp_path / "batch")) == 12


# Weak productions.


@pytest.mark.slow
def test_a_weak_run_killed_before_its_state_is_durable_repeats_only_that_micro_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    def runner() -> dm.SparkRunner:
        return streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=18, productions="weak")

    with CrashPoint("before_state", micro_batch=1) as crash:
        with contextlib.suppress(Exception):
            run(runner(), builder(tmp_path), None)
        assert crash.was_reached
        before = printed(tmp_path)
        result = run(runner(), builder(tmp_path), None)
    lines = printed(tmp_path)
    twice = [line for index, line in enumerate(lines) if line in lines[:index]]
    assert {batch for batch, _ in twice} == {1}
    assert {line for line in before if line[0] == 1} <= set(
        twice
    )  # a task of another shard may have outlived the death
    (tmp_path / "calm").mkdir()
    calm = run(dm.LocalRunner(), builder(tmp_path / "calm"), None)
    assert published(tmp_path) == published(tmp_path / "calm")
    kept = [record.value for record in calm.collected("kept")]
    assert [record.value for record in result.collected("kept")] == kept
    assert sorted(value for _, value in set(lines)) == sorted(repr(list(value)) for value in kept)


# Other processes.


@pytest.fixture
def job(java_home: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield a function that starts the job in a session of its own; what still lives at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str | Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "JAVA_HOME": java_home, "PYTHONPATH": str(REPOSITORY)}
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, JOB, *arguments], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_task_that_fails_after_writing_its_state_and_is_retried_changes_no_result(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, expected: dict[str, Any]
) -> None:
    process = job("local[2,4]", tmp_path / "checkpoint", tmp_path, "script", "after_state")
    assert process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-5_000:]
    kept, was_reached = pickle.loads((tmp_path / "kept").read_bytes())
    assert was_reached
    assert left(tmp_path, kept) == expected


@pytest.mark.slow
def test_a_driver_that_resumes_after_another_has_replaced_it_is_refused(
    spark: SparkSession, job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    source, checkpoint, child_output = (
        tmp_path / "rows",
        tmp_path / "checkpoint",
        lambda: (tmp_path / "log").read_text()[-5_000:],
    )
    source.mkdir()

    def arrive(number: int) -> None:
        line = f'{{"at": "1970-01-01T00:00:0{number}Z", "key": "a", "value": {10**number}}}\n'
        (source / f".{number}").write_text(line)
        (source / f".{number}").rename(source / f"{number}.json")

    def total() -> int:
        if not (tmp_path / "test.db").exists():
            return 0
        try:
            return sum(row[2] for row in table(tmp_path))
        except OperationalError:  # the table is not there yet
            return 0

    arrive(0)
    older = job("local[2]", checkpoint, tmp_path, source)
    wait_for(lambda: total() == 1, child_output)
    os.killpg(older.pid, signal.SIGSTOP)
    arrive(1)
    newer = start(streaming(spark, checkpoint), lambda p: build(p, str(tmp_path), str(source)))
    wait_for(lambda: total() == 11, child_output)
    os.killpg(older.pid, signal.SIGCONT)
    arrive(2)
    wait_for((tmp_path / "error").exists, child_output)
    error = (tmp_path / "error").read_text()
    assert error.startswith("SupersededRun: run ")
    assert f"the checkpoint '{checkpoint}' was taken over at" in error
    assert f"by a newer start of the run (process {os.getpid()} on " in error
    wait_for(lambda: total() == 111, child_output)
    newer.drain()
    assert [row[2:] for row in table(tmp_path)] == [(111, 2)]
    assert len(files(tmp_path)) == len(set(files(tmp_path)))
