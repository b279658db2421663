"""A commit that a crash interrupted is rolled forward: repeated with the same messages, it publishes the rest, once."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from dataflow_model.errors import SinkError
from dataflow_model.io.sinks.file_sinks import FileSink, JsonSink, ParquetSink
from dataflow_model.io.tables.table_sinks import TableSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.endpoints.sinks import Fence
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
from tests.support.crashing_commits import Crash, every_crash, written
from tests.support.exactly_once.databases import rows as table_rows
from tests.support.written_files import rows, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = pa.schema({"key": pa.string(), "value": pa.int64()})


def dead_letters(sink: FileSink) -> list[str]:
    files = sorted(Path(sink.path, "_dead_letters").iterdir())
    return [json.loads(line)["row"] for file in files for line in file.read_text().splitlines()]


def check_published_once(sink: FileSink) -> None:
    assert sorted((row["key"], row["value"]) for row in rows(sink)) == [("AA", 2), ("B6", 3), ("UA", 1)]
    assert dead_letters(sink) == ["'misfit'"]
    assert visible(Path(sink.path)) == [f"part-7-{number:05d}{sink.suffix}" for number in range(3)]
    assert not Path(sink.path, "_pending").exists()
    assert [file.name for file in Path(sink.path, "_commits").iterdir()] == ["7"]


TASKS = [("UA", 1), "misfit"], [("AA", 2)], [("B6", 3)]


@pytest.fixture(params=["parquet", "json", "parquet, synced", "json, synced"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> FileSink:
    kind = ParquetSink if request.param.startswith("parquet") else JsonSink
    made = kind(path=tmp_path / "out", schema=PAIRS)
    return made.synced() if request.param.endswith("synced") else made


def test_a_commit_that_is_repeated_with_the_same_messages_changes_nothing(sink: FileSink) -> None:
    messages = written(sink, "7", *TASKS)
    for _ in range(3):
        sink.commit("7", messages)
        check_published_once(sink)


@pytest.mark.parametrize("markers", ["kept", "lost"])
def test_a_commit_is_rolled_forward_from_every_step_at_which_it_can_crash(sink: FileSink, markers: str) -> None:
    for crash in every_crash():
        messages = written(sink, "7", *TASKS)
        with crash():
            sink.commit("7", messages)
        if markers == "lost":  # as after a power failure, for the names in one directory may survive those in another
            shutil.rmtree(Path(sink.path, "_commits"), ignore_errors=True)
        for _ in range(2):
            sink.commit("7", messages)
            check_published_once(sink)
        shutil.rmtree(sink.path)


def test_a_commit_that_crashes_again_while_it_is_rolled_forward_still_publishes_once(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=PAIRS)
    for first in every_crash():
        for second in every_crash():
            messages = written(sink, "7", *TASKS)
            for crash in (first, second):
                with crash():
                    sink.commit("7", messages)
            sink.commit("7", messages)
            check_published_once(sink)
            shutil.rmtree(sink.path)


def test_a_repeated_micro_batch_replaces_the_files_that_its_first_attempt_had_renamed(sink: FileSink) -> None:
    for crash in every_crash():
        with crash():
            sink.commit("7", written(sink, "7", [("UA", 1)], [("AA", 2)], [("B6", 3)], ["misfit"], [("no", 4)][:0]))
        again = written(sink, "7", *TASKS)
        with crash():
            sink.commit("7", again)
        sink.commit("7", again)
        assert sorted((row["key"], row["value"]) for row in rows(sink)) == [("AA", 2), ("B6", 3), ("UA", 1)]
        assert dead_letters(sink) == ["'misfit'"]
        shutil.rmtree(sink.path)


def test_columns_that_tasks_inferred_agree_after_a_commit_was_rolled_forward(tmp_path: Path) -> None:
    sink = ParquetSink(path=tmp_path / "out")
    for crash in every_crash():
        messages = written(sink, "7", [{"n": 1}], [{"n": 1.5}], [{"s": "x"}], [{"n": 2}])
        with crash():
            sink.commit("7", messages)
        for _ in range(2):
            sink.commit("7", messages)
            assert rows(sink) == [{"n": n, "s": s} for n, s in [(1.0, None), (1.5, None), (None, "x"), (2.0, None)]]
        shutil.rmtree(sink.path)


def test_a_written_file_that_is_neither_pending_nor_published_is_an_error_and_not_silently_lost(sink: FileSink) -> None:
    messages = written(sink, "7", *TASKS)
    shutil.rmtree(Path(sink.path, "_pending"))
    with pytest.raises(SinkError, match=r"commit 7 cannot be published .*\nHint: make sure that workers and driver"):
        sink.commit("7", messages)


# What is on disk when a host records that a commit is pending, and when it records that it is published.


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path | str]:
    """Return the paths that are synced, and `renamed` for each rename in between."""
    log: list[Path | str] = []
    sync, replace = os.fsync, os.replace

    def logged_sync(descriptor: int) -> None:
        log.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    def logged_replace(*args: Any) -> None:
        log.append("renamed")
        replace(*args)

    monkeypatch.setattr(os, "fsync", logged_sync)
    monkeypatch.setattr(os, "replace", logged_replace)
    return log


def test_a_synced_sink_has_its_files_and_directory_entries_on_disk_after_the_commit(
    tmp_path: Path, synced: list[Path | str]
) -> None:
    path = tmp_path / "out"
    sink = JsonSink(path=path, schema=PAIRS).synced()
    messages = written(sink, "7", [("UA", 1), "misfit"])
    pending = sorted((path / "_pending" / "7").iterdir())
    assert len(pending) == 2
    assert set(synced) == {*pending, path / "_pending" / "7", path / "_pending", path}
    synced.clear()
    sink.commit("7", messages)
    renames = [index for index, entry in enumerate(synced) if entry == "renamed"]
    # Of the renames, the first and the last are those of the commit's own file.
    between = synced[renames[-2] + 1 : renames[-1]]
    assert set(between) == {path, path / "_dead_letters"}


def test_a_sink_that_is_not_synced_does_not_wait_for_the_disk(tmp_path: Path, synced: list[Path | str]) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=PAIRS)
    sink.commit("7", written(sink, "7", *TASKS))
    assert set(synced) == {"renamed"}


def test_a_file_of_weak_productions_is_on_disk_when_it_is_closed(tmp_path: Path, synced: list[Path | str]) -> None:
    writer = JsonSink(path=tmp_path, schema=PAIRS).synced().open_weak("7", "part")
    assert writer is not None
    writer.write([Record(("UA", 1), EventTime(0), GLOBAL_WINDOW, NO_FIRING)])
    writer.close()
    assert synced[synced.index("renamed") + 1 :] == [tmp_path]


def test_a_list_of_files_emptied_by_a_power_failure_is_reported_with_what_to_remove(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path, schema=PAIRS)
    messages = written(sink, "7", *TASKS)
    (tmp_path / "_commits").mkdir()
    (tmp_path / "_commits" / "7+pending").touch()
    with pytest.raises(SinkError, match=r"(?s)commit 7 .*7\+pending is damaged.*remove it and the files.*'part-7-'"):
        sink.commit("7", messages)
    (tmp_path / "_commits" / "7+pending").unlink()
    sink.commit("7", messages)
    check_published_once(sink)


# Sinks without files.


def test_a_table_commit_is_rolled_forward_from_every_statement_at_which_it_can_crash(tmp_path: Path) -> None:
    for fence, statements in itertools.product((None, Fence("run", 1)), range(12)):
        url = f"sqlite:///{tmp_path / f'{fence is None}-{statements}.db'}"
        made = TableSink(url=url, table="sums", keys="key", schema=PAIRS)
        made.check()
        sink = (made if fence is None else made.fenced(fence)).synced()
        messages = written(sink, "7", [("UA", 1), "misfit"], [("AA", 2)])
        count = itertools.count()

        def crash(*_: Any, count: Iterator[int] = count, statements: int = statements, **__: Any) -> None:
            if next(count) >= statements:
                raise Crash

        event.listen(sa.Engine, "before_cursor_execute", crash)
        try:
            with contextlib.suppress(Crash):
                sink.commit("7", messages)
        finally:
            event.remove(sa.Engine, "before_cursor_execute", crash)
        for _ in range(2):
            sink.commit("7", messages)
            assert [(row["key"], row["value"]) for row in table_rows(url, "sums")] == [("AA", 2), ("UA", 1)]
            assert len(table_rows(url, "sums_dead_letters")) == 1


def test_collected_records_survive_a_repeated_commit_since_they_are_in_its_messages() -> None:
    sink = CollectSink().synced()
    messages = written(sink, "7", ["a"], ["b"])
    for _ in range(2):
        sink.commit("7", messages)
    assert [record.value for record in CollectSink().records(messages)] == ["a", "b"]
