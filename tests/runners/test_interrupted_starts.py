"""Ctrl-C while `run()` starts: nothing is left running, nothing is closed under a run, nothing is called damaged."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.runners.local.run_file import FILE, RunFile
from dataflow_model.runners.runs.background import BackgroundRun
from dataflow_model.runners.sharded.checkpoint.durable import seal, unseal
from dataflow_model.runners.sharded.checkpoint.record import RunRecord
from dataflow_model.runners.sharded.commits.columns import RecordedColumns
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.sharded.results import StreamResult
from dataflow_model.runners.sharded.upgrade.adopting import seed_in
from dataflow_model.runners.sharded.upgrade.seed import Manifest
from dataflow_model.runners.spark.spark_logs import offset_of
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run, start
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = 500
NAMES = {"LocalRunner", "LocalRunner, stream", "LocalRunner, 2 workers", "SparkRunner, batch", "SparkRunner, stream"}
SCHEMA = pa.schema({"n": pa.int64()})


def followed(folder: Path) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a stream over a folder, which ends only when it is stopped."""

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadJson(folder, event_time=dm.ARRIVAL, follow=True, schema=SCHEMA)
        _ = rows | dm.Map(lambda row: row.n) | "rows" >> dm.io.Collect()

    return build


def bounded(folder: Path) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a pipeline that writes its rows to files."""

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadJson(folder, event_time=None, schema=SCHEMA)
        _ = rows | dm.Map(lambda row: str(row.n)) | dm.io.WriteText(folder / "_out")

    return build


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.json").write_text("".join(f'{{"n": {n}}}\n' for n in range(ROWS)))
    return folder


@pytest.fixture(params=["before", "after"])
def interrupted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Interrupt each start of a run's thread, as Ctrl-C does: before the thread begins, or once it has."""
    start_thread, join_thread = threading.Thread.start, threading.Thread.join
    has_begun, may_go_on = threading.Event(), threading.Event()

    def start_interrupted(thread: Any) -> None:
        result = getattr(next(iter(thread._args), None), "__self__", None)  # a run's thread runs in a context
        is_of_run = isinstance(result, BackgroundRun) and thread is result._thread
        if is_of_run and request.param == "after":
            gate(result)
            start_thread(thread)
            has_begun.wait(PATIENCE)
        if is_of_run:
            raise KeyboardInterrupt
        start_thread(thread)

    def gate(result: Any) -> None:
        """Let a bounded run do nothing before it is asked to stop: then its thread is waited for."""
        execute, is_bounded = result._execute, not isinstance(result, StreamResult)

        def execute_gated() -> Any:
            has_begun.set()
            if is_bounded:
                may_go_on.wait(PATIENCE)
            return execute()

        result._execute = execute_gated

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        may_go_on.set()
        join_thread(thread, timeout)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_interrupted)
        patched.setattr(threading.Thread, "join", join)
        yield patched


def threads_of_runs() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in NAMES]


@on_hosts("process", slow=("streaming",))
def test_a_stream_whose_start_is_interrupted_is_stopped_and_resumes(
    host: str,
    request: pytest.FixtureRequest,
    rows: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    interrupted: pytest.MonkeyPatch,
) -> None:
    runner = runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=50)
    with caplog.at_level(logging.INFO, "dataflow_model"), pytest.raises(KeyboardInterrupt):
        start(runner, followed(rows))
    assert "StateCorruption" not in caplog.text
    assert not threads_of_runs()
    interrupted.undo()
    result = run(runner, followed(rows))
    assert sorted(record.value for record in result.collected("rows")) == list(range(ROWS))


@on_hosts("local", "workers", slow=("batch",))
@pytest.mark.usefixtures("interrupted")
def test_a_bounded_run_whose_start_is_interrupted_publishes_nothing(
    host: str, request: pytest.FixtureRequest, rows: Path, tmp_path: Path
) -> None:
    runner = runner_on(host, request, tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        start(runner, bounded(rows))
    assert not threads_of_runs()
    assert not list((rows / "_out").glob("part-*"))


def test_starting_a_second_run_on_a_checkpoint_in_use_has_a_specific_error(rows: Path, tmp_path: Path) -> None:
    assert issubclass(dm.CheckpointInUse, dm.CheckpointMismatch)
    result = start(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), followed(rows))
    with pytest.raises(dm.CheckpointInUse, match=r"is running, in process \d+ on .*\nHint: stop that run first"):
        start(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), followed(rows))
    with pytest.raises(dm.CheckpointInUse, match="is running, in process"):
        dm.upgrade(tmp_path / "checkpoint", tmp_path / "next")
    result.stop()


# What is no damage.


def test_only_a_damaged_run_file_is_reported_as_damaged(tmp_path: Path) -> None:
    file = RunFile.create(str(tmp_path))
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    file.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(dm.SinkError, match="cannot be used: database is locked"), file.transaction():
        pass
    other.execute("ROLLBACK")
    other.close()
    file.execute("PRAGMA max_page_count = 1")
    with pytest.raises(dm.SinkError, match="cannot be used: database or disk is full"), file.transaction():
        file.store(1, 0).put(0, 0, bytes(10_000_000))
    file.close()
    with pytest.raises(dm.SinkError, match="cannot be used: Cannot operate on a closed database"):
        file.last_commit()
    (tmp_path / FILE).write_bytes(b"no database" * 1_000)
    with pytest.raises(dm.StateCorruption, match=r"run\.sqlite' is damaged: file is not a database"):
        RunFile.create(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run.json", RunRecord.read),
        ("progress.json", read_progress),
        ("publishing.json", Publication.read),
        ("collected/rows/0.pickle", lambda folder: read_collected(folder, "rows")),
        ("source_columns/rows.pickle", lambda folder: RecordedColumns.of(folder, "rows").read()),
        ("seed/manifest.json", lambda folder: Manifest.read(seed_in(folder))),
        ("offsets/3", lambda folder: offset_of(folder, 3)),
    ],
)
def test_an_unreadable_file_of_a_checkpoint_is_not_reported_as_damaged(
    name: str, read: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        if not path.is_relative_to(tmp_path / name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    monkeypatch.setattr(type(tmp_path), "read_bytes", refuse)
    with pytest.raises(dm.SinkError, match=rf"{name}' in the checkpoint directory cannot be read: .*denied"):
        read(str(tmp_path))


class Strict:
    """A class that restores its values unless a test keeps it from that."""

    error: Exception | None = None

    def __reduce__(self) -> Any:
        return restored, ()


def restored() -> Strict:
    if Strict.error is not None:
        raise Strict.error
    return Strict()


@pytest.mark.parametrize("error", [ValueError("not any more"), AttributeError("no such part")])
def test_a_value_that_cannot_be_unpickled_is_not_reported_as_damaged(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = seal(Strict())
    assert isinstance(unseal(record, "'record'"), Strict)
    monkeypatch.setattr(Strict, "error", error)
    with pytest.raises(
        dm.CheckpointMismatch, match=f"'record' contains a value that its class does not restore: .*{error}"
    ):
        unseal(record, "'record'")
