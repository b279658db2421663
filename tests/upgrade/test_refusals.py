"""Runs that cannot be left where they are, and upgrades that do not come to their end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.runs.run_folder import working_folder
from dataflow_model.runners.sharded.checkpoint import running
from dataflow_model.runners.sharded.checkpoint.processes import Process
from dataflow_model.runners.sharded.checkpoint.requests import (
    check_signals,
    note_drained,
    pending_signals,
    request_drain,
    request_signal,
)
from dataflow_model.runners.sharded.checkpoint.running import RunningMark
from dataflow_model.runners.sharded.checkpoint.sequencers import take_sequencer
from dataflow_model.runners.sharded.commits.progress import read_watermarks, write_progress
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.sharded.upgrade import carrying
from dataflow_model.runners.sharded.upgrade.reading import read_shard
from dataflow_model.runners.spark.deployment.installation import Missing
from dataflow_model.runners.spark.stopped import StoppedSparkRun
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen
from tests.support.settings import REPOSITORY
from tests.support.upgrade.pipelines import plain
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dataflow_model.runners.sharded.upgrade.reading import ShardFound


@pytest.fixture
def old(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a stopped run whose checkpoint has Spark's logs too; its state is read from memory."""
    run = Run(plain(rows), tmp_path / "old", rows=61).steps(3)
    batch = run.offset.batch - 1  # Spark numbers micro-batches from 0
    log(run, "offsets", batch)
    log(run, "commits", batch)
    write_progress(run.directory, {**run.progress(), "batch": batch})

    def shards(_self: Any, _batch: int, record: Any) -> Iterator[ShardFound]:
        labels = run.program.shard_ids
        yield from (read_shard(record, labels, shard, store) for (_, shard), store in run.stores.items())

    monkeypatch.setattr(StoppedSparkRun, "shards", shards)
    return run


def log(run: Run, name: str, batch: int, **changes: Any) -> None:
    """Write what Spark writes for one micro-batch."""
    folder = run.folder / "spark" / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "v2",
        "{}",
        *([f"dataflow_model:{json.dumps({**run.offset.to_json(), **changes})}"] if name == "offsets" else []),
    ]
    (folder / str(batch)).write_text("\n".join(lines))


def upgrade(old: Run, **options: Any) -> Path:
    """Upgrade with no Spark at all."""
    new = old.folder.with_name("new")
    dm.upgrade(str(old.folder), str(new), spark=object(), **options)  # type: ignore[arg-type]
    return new


def test_a_stopped_run_can_be_upgraded(old: Run, rows: Path) -> None:
    expected = seen(run(dm.LocalRunner(), plain(rows)).collected("panes"))
    assert not difference(expected, seen(Run(plain(rows), upgrade(old), 61, shards=3).finish().collected("panes")))


def test_remains_of_a_killed_upgrade_are_removed_by_the_next_one(old: Run) -> None:
    place = old.folder.with_name("new")
    code = (
        "import os, sys; from pathlib import Path; from dataflow_model.runners.runs.run_folder import working_folder\n"
        "with working_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'part').touch()\n"
        "    os._exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", code, place], check=False, cwd=REPOSITORY).returncode == 3
    [left] = place.parent.glob(".new.*")
    with working_folder(place.with_name("new")) as alive:
        assert list(place.parent.glob(".new.*")) == [alive] != [left]
        assert upgrade(old) == place
        assert alive.exists()
    assert not list(place.parent.glob(".new.*"))


def test_upgrading_a_run_that_is_alive_is_refused_and_one_whose_process_is_dead_is_accepted(old: Run) -> None:
    mark = RunningMark(str(old.folder / "dataflow"))
    mark.start()
    with pytest.raises(dm.CheckpointInUse, match=r"is running, in process \d+ on .*\nHint: stop it first"):
        upgrade(old)
    mark.end(superseded=True)
    (old.folder / "dataflow" / "running").write_bytes(Process(2**30).content("running"))
    assert upgrade(old).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"process": 1, "host": "a", "more": 2}'])
def test_a_damaged_mark_of_a_running_process_is_ignored(old: Run, content: str) -> None:
    (old.folder / "dataflow" / "running").write_text(content)
    assert upgrade(old).exists()


def test_the_mark_of_a_run_is_renewed_even_during_a_long_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_BEAT_SECONDS", 0.001)
    mark, path = RunningMark(str(tmp_path)), tmp_path / "running"
    mark.start()
    for _ in range(2):
        path.unlink()
        deadline = time.monotonic() + PATIENCE
        while not path.exists() and time.monotonic() < deadline:
            threading.Event().wait(0.001)
        assert path.exists()
    mark.end()
    assert not path.exists()


@pytest.mark.parametrize("request_", ["drain", "drained"])
def test_upgrading_a_drained_run_is_refused(old: Run, request_: str) -> None:
    {"drain": request_drain, "drained": note_drained}[request_](old.checkpoint.requests)
    with pytest.raises(dm.CheckpointMismatch, match="was drained: its windows have emitted their last panes"):
        upgrade(old)


def test_upgrading_a_run_whose_input_has_ended_is_refused(old: Run) -> None:
    log(old, "offsets", old.offset.batch - 1, last=True)
    with pytest.raises(dm.CheckpointMismatch, match="is complete: its windows have emitted their last panes"):
        upgrade(old)


def test_upgrading_a_run_without_a_commit_is_refused(rows: Path, tmp_path: Path) -> None:
    run = Run(plain(rows), tmp_path / "old")
    with pytest.raises(dm.CheckpointMismatch, match="has not committed anything"):
        upgrade(run)


def test_upgrading_a_run_with_streaming_dataframes_is_refused(old: Run) -> None:
    path = old.folder / "spark" / "offsets" / str(old.offset.batch - 1)
    path.write_text(path.read_text() + '\n{"topic":{"0":17}}')
    with pytest.raises(dm.CheckpointMismatch, match="reads streaming DataFrames, and only Spark knows how far"):
        upgrade(old)


def test_a_partly_published_micro_batch_has_to_be_finished_before_an_upgrade(old: Run) -> None:
    batch = old.offset.batch
    log(old, "offsets", batch)
    Publication(batch).write(old.directory)
    with pytest.raises(dm.CheckpointMismatch, match=rf"published micro-batch {batch}\nHint: start the old pipeline"):
        upgrade(old)


def test_a_micro_batch_that_has_published_nothing_is_read_again_after_an_upgrade(old: Run, rows: Path) -> None:
    batch = old.offset.batch
    log(old, "offsets", batch, rows={}, totals={})
    Publication(batch - 1).write(old.directory)
    expected = seen(run(dm.LocalRunner(), plain(rows)).collected("panes"))
    assert not difference(expected, seen(Run(plain(rows), upgrade(old)).finish().collected("panes")))


def test_a_checkpoint_with_files_of_different_commits_is_reported_as_damaged(old: Run) -> None:
    write_progress(old.directory, {**old.progress(), "batch": old.offset.batch})
    with pytest.raises(dm.StateCorruption, match="its last micro-batch is number 2, but number 3 was published last"):
        upgrade(old)


def test_dropping_an_unknown_grouping_is_refused(old: Run) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"got 'sum'\nHint: these have state: 'sums', 'rows'"):
        upgrade(old, drop=["sum"])


def test_a_single_label_as_text_is_refused_as_a_collection_of_labels(old: Run) -> None:
    with pytest.raises(dm.InvalidType, match=r"collection of labels, got 'sums'\nHint: write drop=\['sums'\]"):
        upgrade(old, drop="sums")
    assert not old.folder.with_name("new").exists()


def test_a_start_after_an_upgrade_is_newer_than_those_before_even_if_the_clock_goes_back(
    old: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = take_sequencer(old.directory)
    new = upgrade(old)
    monkeypatch.setattr("time.time_ns", lambda: 5_000)
    assert take_sequencer(str(new / "dataflow")) > before


def test_a_source_that_starts_again_does_not_keep_the_rows_that_it_read(old: Run) -> None:
    inputs = old.folder / "dataflow" / "inputs"
    inputs.mkdir()
    for label in ("rows", "others"):
        (inputs / f"{label}.arrow").touch()
    new = upgrade(old, drop=["rows"])
    assert [path.name for path in (new / "dataflow" / "inputs").iterdir()] == ["others.arrow"]
    assert "rows" in read_watermarks(old.directory)
    assert "rows" not in read_watermarks(str(new / "dataflow"))


def test_everything_is_on_disk_before_the_new_checkpoint_appears(old: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", sync)
    new = upgrade(old)
    assert {path.stat().st_ino for path in (new, *new.rglob("*"), new.parent)} <= synced


def test_an_interrupted_upgrade_leaves_nothing_that_could_be_taken_for_a_checkpoint(
    old: Run, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(carrying, "copy_signals", stops)  # all but the end is written by then
        with pytest.raises(KeyboardInterrupt):
            upgrade(old)
    assert sorted(path.name for path in old.folder.parent.iterdir()) == ["old", "rows"]
    assert Run(plain(rows), upgrade(old)).finish().offset.last


def test_an_upgrade_carries_over_requests_for_signals(old: Run) -> None:
    request_signal(old.checkpoint.requests, "flush")
    requests = upgrade(old) / "dataflow" / "requests"
    (request,) = pending_signals(requests)
    assert request == pending_signals(old.checkpoint.requests)[0]
    (requests / "signals" / request).unlink()
    with pytest.raises(dm.StateCorruption, match="the request for the signal 'flush' is missing"):
        check_signals(requests, "")


def test_the_upgrade_command_reports_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Missing("there is no Java", "install it")
    monkeypatch.setattr("dataflow_model.runners.spark.deployment.installation.missing_for_spark", lambda: missing)
    assert main(["upgrade", str(tmp_path / "none"), str(tmp_path / "new")]) == 1
    assert "contains no checkpoint of a dataflow_model run" in capsys.readouterr().err


def test_an_upgrade_refuses_a_url(tmp_path: Path) -> None:
    with pytest.raises(
        dm.InvalidArgument, match="must be a directory of a mounted file system, got the URL 's3://a/b'"
    ):
        dm.upgrade(str(tmp_path), "s3://a/b")
