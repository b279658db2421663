"""Checkpoints that were restored from a copy: later output is not mistaken for output that is there already."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id, planned_in
from dataflow_model.runners.sharded.tasks.program import Program
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = pa.schema({"n": pa.int64()})


class Restored(Stepped):
    """A stream of numbers, one file each, into sinks of all kinds, whose checkpoint can be copied and restored."""

    def __init__(self, folder: Path) -> None:
        super().__init__(self._build, folder / "checkpoint")
        self.folder = folder
        self.called: list[int] = []
        self.broken = False
        (folder / "rows").mkdir()
        with sqlite3.connect(folder / "called.db") as database:  # the recipe of the documentation
            database.execute("CREATE TABLE commits (id TEXT PRIMARY KEY)")
        database.close()
        p = dm.Pipeline()
        self._build(p)
        for write in cut_into_stages(p.plan()).sinks:
            write.sink.check()  # as a runner does

    def _build(self, p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(self.folder / "rows", event_time="at", schema=ROWS, follow=True)
        numbers = rows | dm.Map(lambda row: {"n": row.n})
        _ = numbers | "files" >> dm.io.WriteParquet(self.folder / "files", schema=NUMBERS)
        url = f"sqlite:///{self.folder / 'table.db'}"
        _ = numbers | "table" >> dm.io.WriteTable(url, table="numbers", keys="n", schema=NUMBERS)
        _ = numbers | "function" >> dm.io.ForeachBundle(self._call)
        _ = numbers | "records" >> dm.io.Collect()

    def _call(self, values: list[dict[str, int]], commit_id: str) -> None:
        if self.broken:
            raise OSError("the function fails")
        with sqlite3.connect(self.folder / "called.db") as database:
            if database.execute("INSERT OR IGNORE INTO commits VALUES (?)", (commit_id,)).rowcount:
                self.called += [value["n"] for value in values]
        database.close()

    def read(self, *numbers: int) -> None:
        """Read a file of each number, in a micro-batch of its own."""
        for number in numbers:
            put_rows(self.folder / "rows", f"{number:03}", [(1, "", number)])
            self.steps()

    def copy(self) -> None:
        shutil.copytree(self.checkpoint, self.folder / "copy")

    def restore(self) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.folder / "copy", self.checkpoint)

    def output(self) -> dict[str, list[int]]:
        files = sorted((self.folder / "files").glob("part-*.parquet"))
        with sqlite3.connect(self.folder / "table.db") as database:
            rows = database.execute("SELECT n FROM numbers ORDER BY n").fetchall()
        database.close()
        return {
            "files": sorted(number for file in files for number in pq.read_table(file)["n"].to_pylist()),
            "table": [number for (number,) in rows],
            "function": sorted(self.called),
            "records": [record.value["n"] for record in self.collected("records")],
        }


@pytest.fixture
def stream(tmp_path: Path) -> Restored:
    return Restored(tmp_path)


@pytest.mark.parametrize("later", [1, 2, 5])
def test_a_restored_copy_continues_without_losing_rows(
    stream: Restored, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    stream.read(0, 1, 2)
    stream.copy()
    stream.read(*range(3, 3 + later))
    stream.restore()
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        stream.read(*range(10, 14))  # four starts, of which the first finds the checkpoint to be older
    again = list(range(3, 3 + later))  # published after the copy was made, read again and published again
    whole = [0, 1, 2, *again, 10, 11, 12, 13]
    assert stream.output() == {
        "files": sorted(whole + again),
        "table": whole,
        "function": sorted(whole + again),
        "records": whole,
    }
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2  # functions and records keep no record of commits
    for label, warning in zip(("files", "table"), warnings, strict=True):
        assert f"ends with micro-batch 2, but {label!r} contains the output of later ones, up to commit" in warning


def test_restarting_a_stream_from_its_own_checkpoint_gives_no_warning(
    stream: Restored, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        stream.read(0, 1, 2)
        assert stream.steps() == 0
    assert not caplog.records


def test_a_commit_that_is_published_by_a_later_start_keeps_its_id(stream: Restored) -> None:
    stream.read(0)
    stream.broken = True
    with pytest.raises(dm.UserCodeError):
        stream.read(1)
    before = files_of(stream)  # published before the function failed
    stream.broken = False
    stream.read(2)
    assert set(before) < set(files_of(stream))
    assert stream.output() == everywhere(0, 1, 2)


def everywhere(*numbers: int) -> dict[str, list[int]]:
    return {label: list(numbers) for label in ("files", "table", "function", "records")}


def files_of(stream: Restored) -> list[str]:
    return sorted(path.name for path in (stream.folder / "files").glob("part-*"))


def test_pending_output_of_a_killed_start_is_removed_by_the_next_one(stream: Restored) -> None:
    stream.read(0)
    with stream.opened() as opened:
        writer = opened.program.staged.sinks[0].sink.open(commit_id(opened.program, 1), "task")
        writer.write(stream.collected("records"))
        writer.close()
    pending = stream.folder / "files" / "_pending"
    assert list(pending.iterdir())
    stream.steps()
    assert not pending.exists()


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        ("local/run.sqlite", "it contains no micro-batch, but number 1 was published last"),
        ("dataflow/progress.json", "its last micro-batch is number 1, but nothing was published"),
    ],
)
def test_a_checkpoint_with_a_missing_file_is_reported_as_damaged(stream: Restored, lost: str, problem: str) -> None:
    stream.read(0, 1)
    (stream.checkpoint / lost).unlink()
    with pytest.raises(dm.StateCorruption, match=rf"{problem}: a part of it is missing"):
        stream.read(2)


def test_a_checkpoint_without_the_file_of_the_run_cannot_be_upgraded(stream: Restored) -> None:
    stream.read(0, 1)
    (stream.checkpoint / "local/run.sqlite").unlink()
    with pytest.raises(dm.StateCorruption, match="it contains no micro-batch, but number 1 was published last"):
        dm.upgrade(str(stream.checkpoint), str(stream.folder / "new"))


@pytest.mark.parametrize("part", ["local", "dataflow"])
def test_a_checkpoint_with_a_file_older_than_the_rest_is_reported_as_damaged(stream: Restored, part: str) -> None:
    stream.read(0)
    stream.copy()
    stream.read(1, 2)
    shutil.rmtree(stream.checkpoint / part)
    shutil.copytree(stream.folder / "copy" / part, stream.checkpoint / part)
    with pytest.raises(dm.StateCorruption, match=r"number \d, but number \d was published last: a part of it is"):
        stream.read(3)


@pytest.mark.parametrize(
    ("commit", "planned"),
    [
        ("7c1f-0005f5e10000-00000003", (3, 0x5F5E10000)),
        ("7c1f-00000004", (4, 0)),
        ("7c1f-0005f5e10000-100000000", (100_000_000, 0x5F5E10000)),
        ("7c1f-1a2b3c4d-00000003", None),
        ("7c1f-1a2b3c4d-0005f5e10000-00000003", None),
        ("another-00000003", None),
    ],
)
def test_the_id_of_a_commit_contains_the_micro_batch_and_the_start_that_planned_it(
    commit: str, planned: tuple[int, int] | None
) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([1]) | dm.io.Collect()
    program = Program(cut_into_stages(p.plan()), {}, (0,), "7c1f")
    assert planned_in(program, commit) == planned
    if planned is not None:
        assert commit_id(attrs.evolve(program, planned=planned), planned[0]) == commit
