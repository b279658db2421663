"""Files that disappear between being listed and being read: skipped and counted, or an error that says what to do."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io.files.file_source import FileSource
from dataflow_model.io.listing.matching import Watch
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.sharded.stages.instants import skipped_in
from dataflow_model.runners.sharded.stages.work import plan_work, read_work
from dataflow_model.runners.sharded.tasks.rows import Kind
from dataflow_model.runners.sharded.tasks.task import Task
from dataflow_model.testing import CrashPoint
from dataflow_model.values.pickles import load
from tests.support.folders import SCHEMA, Folder, Reader
from tests.support.micro_batches import Streamed
from tests.support.pipelines import run, start, streaming
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.runners.engine.sources.observing import Observations

both = pytest.mark.parametrize("kind", ["parquet", "csv"])
HERE = re.escape(socket.gethostname())


def followed(folder: Folder, *, grouped: bool = False, **options: Any) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline that reads a folder, and moves the file `b` away when it sees the first row."""
    options = {"follow": True, **options}
    file, away, mark = folder.file("b"), folder.path.parent / "away", folder.path.parent / "moved"

    def change(row: Any) -> int:
        if not mark.exists() and file.exists():
            mark.touch()
            file.rename(away)
        return int(row.at)

    def build(p: dm.Pipeline) -> None:
        make = dm.io.ReadParquet if folder.kind == "parquet" else dm.io.ReadCsv
        rows = p | "rows" >> make(folder.path, event_time="at", schema=SCHEMA, **options)
        numbers = rows | dm.Map(change)
        if grouped:
            pairs = numbers | dm.Map(lambda number: ("all", number))
            numbers = pairs | dm.Sum.per_key() | dm.Map(lambda pair: pair[1])
        _ = numbers | "numbers" >> dm.io.Collect()

    return build


def two_files(path: Path, kind: str) -> Folder:
    folder = Folder(path / "rows", kind)
    folder.put("a", [1, 2, 3])
    folder.put("b", [10, 11])
    return folder


@both
@pytest.mark.parametrize("grouped", [False, True])
def test_a_followed_file_that_disappears_before_it_is_read_is_skipped_and_counted(
    tmp_path: Path, kind: str, *, grouped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = two_files(tmp_path, kind)
    stepped = Stepped(followed(folder, grouped=grouped), tmp_path / "checkpoint", until="drained")
    stepped.steps()
    folder.put("c", [100])
    again = Stepped(followed(folder, grouped=grouped), tmp_path / "checkpoint", until="drained")
    again.steps()  # the run is over; nothing is read twice
    assert [record.value for record in stepped.collected("numbers")] == ([6] if grouped else [1, 2, 3])
    counters = stepped.metrics()["rows"]
    assert (counters["elements_out"], counters["files_skipped"], counters["rows_lost"]) == (3, 1, 2)
    assert f"{folder.file('b')} has disappeared since it was listed" in caplog.text


@both
def test_files_that_appear_after_a_skipped_one_are_read_even_under_its_name(tmp_path: Path, kind: str) -> None:
    folder = two_files(tmp_path, kind)
    stepped = Stepped(followed(folder), tmp_path / "checkpoint")
    stepped.steps()
    folder.put("c", [100])
    stepped.steps()
    folder.put("b", [20, 21])
    stepped.steps()
    assert sorted(record.value for record in stepped.collected("numbers")) == [1, 2, 3, 20, 21, 100]
    assert stepped.metrics()["rows"]["rows_lost"] == 2


@both
def test_a_missing_file_that_was_read_in_part_is_an_error_unless_it_may_be_skipped(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder, on_missing=None)
    folder.put("a", range(10))
    folder.put("b", range(20, 23))
    assert reader.micro_batch(4) == [0, 1, 2, 3]
    folder.remove("a")
    with pytest.raises(
        SourceError, match=rf"a\.{kind} cannot be read: .* on {HERE}; 4 of its rows have been read\n.*on_missing='skip'"
    ):
        reader.micro_batch()
    reader = Reader(folder, reader.offset)
    assert reader.micro_batch() == [20, 21, 22]
    assert reader.lost == 6


@both
def test_a_missing_folder_is_an_error_and_nothing_is_read_again_once_it_is_back(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path / "in" / "rows", kind)
    folder.put("a", range(3))
    reader = Reader(folder, on_missing=None)
    assert reader.micro_batch() == [0, 1, 2]
    folder.path.rename(tmp_path / "away")
    with pytest.raises(SourceError, match=rf"on {HERE}, since the folder {re.escape(str(folder.path))} .* is missing"):
        reader.micro_batch()
    (tmp_path / "away").rename(folder.path)
    assert reader.micro_batch() == []


def test_a_folder_on_another_file_system_than_before_counts_as_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    assert watch.absent_roots((str(tmp_path),)) == []
    other = list(tmp_path.stat())
    other[2] += 1
    monkeypatch.setattr("dataflow_model.io.listing.matching.os.stat", lambda _: os.stat_result(other))
    assert watch.absent_roots((str(tmp_path), str(tmp_path / "*" / "a.csv"))) == [str(tmp_path)] * 2


def listed_before(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Let a file disappear as soon as it has been listed."""
    origins = FileSource.origins

    def listing(source: ParquetSource) -> Any:
        found = origins(source)
        file.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(ParquetSource, "origins", listing)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bounded_run_fails_unless_it_may_skip_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    folder = two_files(tmp_path, "parquet")
    listed_before(monkeypatch, folder.file("b"))
    runner = dm.LocalRunner(workers=workers)
    with pytest.raises(SourceError, match=rf"b\.parquet cannot be read: .* on {HERE}\n"):
        run(runner, followed(folder, follow=False))
    folder.put("b", [10, 11])
    result = run(runner, followed(folder, follow=False, on_missing="skip"))
    assert sorted(record.value for record in result.collected("numbers")) == [1, 2, 3]
    counters = result.metrics()["rows"]
    assert (counters["files_skipped"], counters["rows_lost"]) == (1, 2)


def test_unknown_values_of_on_missing_are_refused() -> None:
    wrong: Any = "ignore"
    with pytest.raises(InvalidArgument, match="must be 'fail', 'skip' or None, got 'ignore'"):
        dm.io.ReadParquet("nowhere", event_time="at", on_missing=wrong)


@both
def test_a_repeated_micro_batch_skips_the_files_that_it_skipped_the_first_time(tmp_path: Path, kind: str) -> None:
    folder, directory = two_files(tmp_path, kind), str(tmp_path / "dataflow")
    streamed = Streamed(followed(folder, grouped=True), tmp_path)
    feed = attrs.evolve(streamed.feed(0), parallelism=1)
    end = streamed.end_of_next(feed)
    works = plan_work(feed, streamed.offset, end)

    def seen(*, repeated: bool) -> list[Observations]:
        planned = (3, 1) if repeated else None
        program = attrs.evolve(streamed.program, planned=planned, directory=directory)
        task = Task(program, streamed.cache, micro_batch=3)
        rows = [row for work in works for row in read_work(task, work) if row.kind == Kind.SEEN]
        return [load(row.payload)[0] for row in rows if row.shard == rows[0].shard]

    first = seen(repeated=False)
    assert skipped_in(first) == [("rows", f"b.{kind}", 0)]
    Publication.begin(directory, 3, "commit", skipped_in(first))
    (tmp_path / "away").rename(folder.file("b"))
    assert skipped_in(seen(repeated=True)) == skipped_in(first)
    Publication.begin(directory, 2, "commit", ())  # nothing of it was published
    assert not skipped_in(seen(repeated=True))
    Publication.begin(directory, 3, "commit", ())  # it was published with the rows
    folder.remove("b")
    with pytest.raises(SourceError, match=r"cannot be read.*; 2 of its rows have been read"):
        seen(repeated=True)


@pytest.mark.parametrize("grouped", [False, True])
def test_on_spark_a_killed_micro_batch_skips_the_same_files_when_it_is_run_again(
    spark: SparkSession, tmp_path: Path, *, grouped: bool
) -> None:
    folder = two_files(tmp_path, "parquet")
    runner = streaming(spark, tmp_path / "checkpoint", shards=1)
    with CrashPoint("after_publishing"):
        result = start(runner, followed(folder, grouped=grouped), "drained")
        with pytest.raises(Exception, match=r"."):
            result.wait_until_finish()
    (tmp_path / "away").rename(folder.file("b"))
    result = run(runner, followed(folder, grouped=grouped))
    assert [record.value for record in result.collected("numbers")] == ([6] if grouped else [1, 2, 3])
    counters = result.metrics()["rows"]
    assert (counters["elements_out"], counters["files_skipped"], counters["rows_lost"]) == (3, 1, 2)
