"""Bounded input that changes while a stream is stopped: the run that resumes does not mix the old rows with others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import SourceError
from dataflow_model.io.listing.paths import file_below
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.runners.sharded.commits.progress import read_progress
from tests.support.micro_batches import Streamed
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dataflow_model.runners.sharded.stages.work import Work
    from dataflow_model.runners.sharded.tasks.rows import Row

READ = 3
"""How many rows a micro-batch reads."""
LONG = 20_000
"""How many rows are worth a task of their own."""
READERS: dict[str, Any] = {"parquet": dm.io.ReadParquet, "csv": dm.io.ReadCsv, "json": dm.io.ReadJson}
files = pytest.mark.parametrize("kind", READERS)


def write(path: Path, numbers: Sequence[int]) -> None:
    """Write a file of numbers in the format that its name says."""
    path.parent.mkdir(exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({"at": [0] * len(numbers), "n": list(numbers)}), path)
        case ".csv":
            path.write_text("at,n\n" + "".join(f"0,{number}\n" for number in numbers))
        case _:
            path.write_text("".join(f'{{"at": 0, "n": {number}}}\n' for number in numbers))


def stream(folder: Path, kind: str, pattern: str = "") -> Stepped:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> READERS[kind](folder / "rows" / pattern, event_time="at")
        _ = rows | dm.Map(lambda row: row.n) | "numbers" >> dm.io.Collect()

    return Stepped(build, folder / "checkpoint", rows=READ)


def collected(stepped: Stepped) -> list[int]:
    return [record.value for record in stepped.collected("numbers")]


@files
@pytest.mark.parametrize("numbers", [range(4), range(100, 110)])
def test_a_file_that_was_replaced_while_the_stream_was_stopped_is_rejected(
    tmp_path: Path, kind: str, numbers: Sequence[int]
) -> None:
    file, stepped = tmp_path / "rows" / f"a.{kind}", stream(tmp_path, kind)
    write(file, range(10))
    stepped.steps(2)
    write(file, numbers)
    with pytest.raises(SourceError, match=rf"a\.{kind} was replaced before all rows of the old file had been read"):
        stepped.steps()
    write(file, range(10))
    stepped.steps()
    assert collected(stepped) == list(range(10))


@files
@pytest.mark.parametrize("pattern", ["", "*", "**/a.*"])
@pytest.mark.parametrize("other", [None, range(10)], ids=["alone", "beside a file of the same name"])
def test_a_folder_removed_while_the_stream_was_stopped_is_reported_and_no_other_is_read(
    tmp_path: Path, kind: str, pattern: str, other: Sequence[int] | None
) -> None:
    file, stepped = tmp_path / "rows" / f"a.{kind}", stream(tmp_path, kind, pattern)
    write(file, range(10))
    stepped.steps(2)
    before = file.rename(tmp_path / f"kept.{kind}")
    file.parent.rmdir()
    if other is not None:
        write(tmp_path / file.name, other)  # in the folder above, where the name would be found too
    with pytest.raises(SourceError, match=rf"^{re.escape(str(file))} cannot be read: No such file or directory"):
        stepped.steps()
    file.parent.mkdir()
    before.rename(file)
    stepped.steps()
    assert collected(stepped) == list(range(10))


@pytest.mark.parametrize(
    ("paths", "name", "path"),
    [
        (("/x/in",), "a.csv", "/x/in/a.csv"),
        (("/x/in",), "sub/a.csv", "/x/in/sub/a.csv"),
        (("/x/a.csv",), "a.csv", "/x/a.csv"),
        (("/x/in/*.csv",), "a.csv", "/x/in/a.csv"),
        (("/x/in", "/x/b.csv"), "in/a.csv", "/x/in/a.csv"),
        (("/x/in", "/x/b.csv"), "b.csv", "/x/b.csv"),
        (("/x/in", "/x/in/sub"), "a.csv", "/x/in/a.csv"),
        (("/x/in", "/y/*/b.csv"), "y/1/b.csv", "/y/1/b.csv"),
    ],
)
def test_a_missing_file_is_reported_with_the_path_under_which_it_was_listed(
    paths: tuple[str, ...], name: str, path: str
) -> None:
    assert file_below(paths, name) == path


@files
def test_a_file_is_no_longer_needed_once_it_has_been_read(tmp_path: Path, kind: str) -> None:
    folder, stepped = tmp_path / "rows", stream(tmp_path, kind)
    write(folder / f"a.{kind}", range(READ))
    write(folder / f"b.{kind}", range(READ, 10))
    stepped.steps(1)
    (folder / f"a.{kind}").unlink()
    write(folder / f"c.{kind}", range(100, 110))  # a bounded source is listed once
    stepped.steps()
    assert collected(stepped) == list(range(10))


@files
def test_a_file_may_change_before_its_first_row_is_read(tmp_path: Path, kind: str) -> None:
    folder, stepped = tmp_path / "rows", stream(tmp_path, kind)
    for name in "ab":
        write(folder / f"{name}.{kind}", range(READ))
    stepped.steps(1)
    write(folder / f"b.{kind}", range(100, 100 + READ))
    stepped.steps()
    assert collected(stepped) == [*range(READ), *range(100, 100 + READ)]


def test_the_progress_has_the_versions_of_the_files_that_were_read_in_part(tmp_path: Path) -> None:
    stepped = stream(tmp_path, "csv")
    for name in "abc":
        write(tmp_path / "rows" / f"{name}.csv", range(READ - 1))
    versions = []
    for _ in range(3):
        stepped.steps(1)
        progress = read_progress(str(stepped.checkpoint / "dataflow"))
        versions.append([name[0] for name in progress["versions"]["rows"]])
    assert versions == [["b"], [], []]


def test_a_file_that_is_replaced_between_two_tasks_of_a_micro_batch_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "rows" / "a.csv"

    class Replacing(Streamed):
        def read(self, number: int, works: Sequence[Work]) -> list[Row]:
            rows: list[Row] = []
            for task, work in enumerate(works):
                rows += super().read(number, [work])
                write(file, range(task, task + 2 * LONG))
            return rows

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadCsv(tmp_path / "rows", event_time="at")
        _ = rows | dm.Map(lambda row: row.n) | dm.Reshuffle() | "numbers" >> dm.io.Collect()

    write(file, range(2 * LONG))
    streamed = Replacing(build, tmp_path / "stream", rows=2 * LONG)
    write(file, range(1, 2 * LONG + 1))
    with pytest.raises(SourceError, match=r"a\.csv, which 'rows' reads, was replaced while it was read\nHint: leave"):
        streamed.step()


def test_a_table_with_other_rows_is_rejected(tmp_path: Path) -> None:
    def of(numbers: Sequence[int]) -> Stepped:
        table = pa.table({"at": [0] * len(numbers), "n": list(numbers)})

        def build(p: dm.Pipeline) -> None:
            rows = p | "rows" >> dm.io.ReadTable(table, event_time="at")
            _ = rows | dm.Map(lambda row: row.n) | "numbers" >> dm.io.Collect()

        return Stepped(build, tmp_path / "checkpoint", rows=READ)

    def check_others_are_rejected() -> None:
        for others in (range(4), range(100, 110)):
            with pytest.raises(SourceError, match="the table does not have the rows with which the run began"):
                of(others).steps()

    of(range(10)).steps(2)
    check_others_are_rejected()
    of(range(10)).steps()
    check_others_are_rejected()
    assert collected(of(range(10))) == list(range(10))


def test_tables_are_equal_whatever_bytes_are_stored_behind_a_null(tmp_path: Path) -> None:
    numbers = pa.array([0, 1, 2, 3])
    hidden = pc.call_function("if_else", [pa.array([True, False, True, True]), numbers, pa.scalar(None, pa.int64())])
    plain = pa.array([0, None, 2, 3])
    assert hidden.equals(plain)
    assert hidden.buffers()[1].to_pybytes() != plain.buffers()[1].to_pybytes()
    for number in (hidden, plain, pa.chunked_array([plain[:2], hidden[2:]])):
        table = pa.table({"at": [0] * 4, "n": number, "in": pa.StructArray.from_arrays([plain], ["n"])})

        def build(p: dm.Pipeline, table: pa.Table = table) -> None:
            rows = p | "rows" >> dm.io.ReadTable(table, event_time="at")
            _ = rows | dm.Map(lambda row: row.n) | "numbers" >> dm.io.Collect()

        stepped = Stepped(build, tmp_path / "checkpoint", rows=READ)
        stepped.steps()
        assert collected(stepped) == [0, None, 2, 3]


class Shrinking(ColumnSource):
    """A source that loses its last rows once it has been listed, and whose origins have no versions."""

    def origins(self) -> list[Origin]:
        return [Origin("only", 10)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        del origin
        rows = list(range(start, min(8, 8 if stop is None else stop)))
        yield pa.RecordBatch.from_pydict({"at": [0] * len(rows), "n": rows}, schema=self.schema())

    def schema(self) -> pa.Schema:
        return pa.schema({"at": pa.int64(), "n": pa.int64()})


def test_a_source_that_has_fewer_rows_than_it_listed_is_rejected(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | "rows" >> dm.Read(Shrinking()) | dm.Map(lambda row: row.n) | "numbers" >> dm.io.Collect()

    stepped = Stepped(build, tmp_path / "checkpoint")
    with pytest.raises(SourceError, match=r"'rows' read 8 rows of only, which had at least 10 when .*\nHint: restore"):
        stepped.steps()
