"""Files that do not fit as a whole: one dead letter for each, with the number of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.io.files.files_at_fault import Fault
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def reading(read: Any) -> Callable[[dm.Pipeline], None]:
    """Return what builds a pipeline with the rows and the dead letters of a source."""

    def build(p: dm.Pipeline) -> None:
        rows, bad = p | "read" >> read().with_exception_handling()
        _ = rows | dm.Map(lambda row: row.n) | "rows" >> dm.io.Collect()
        _ = bad | dm.Map(lambda letter: (letter.element, letter.reason)) | "bad" >> dm.io.Collect()

    return build


def read_here(read: Any) -> tuple[list[Any], list[Any]]:
    result = run(dm.LocalRunner(), reading(read))
    rows, bad = (sorted(record.value for record in result.collected(name)) for name in ("rows", "bad"))
    return rows, bad


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_each_file_at_fault_has_one_dead_letter_on_all_hosts(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("n,t\n1,x\n2,y\nz,z\n")
    (folder / "2.csv").write_text("n,t\n" + "q,r\n" * 2_000 + "3,x\n" + "q,r\n1,2,3\n")
    (folder / "3.csv").write_text("m,t\n" + "4,r\n" * 30)
    schema = pa.schema({"n": pa.int64(), "t": pa.string()})
    read = reading(lambda: dm.io.ReadCsv(folder, event_time=None, schema=schema))
    result = run(runner_on(host, request, tmp_path / "checkpoint"), read)
    assert sorted(record.value for record in result.collected("rows")) == [1, 2, 3]
    assert sorted(record.value for record in result.collected("bad")) == [
        (
            str(folder / "2.csv"),
            (
                "2.csv, line 2: none of the first 1024 of the 2003 rows of the file can be read: column 'n' is int64 "
                "and cannot hold 'q'; the others are read if they fit, and have no dead letters if they have the same "
                "problem"
            ),
        ),
        (
            str(folder / "3.csv"),
            (
                f"3.csv, line 2: none of the 30 rows of the file can be read: {folder / '3.csv'} must have the columns "
                "n, t, got m, t"
            ),
        ),
        ("1,2,3", "2.csv, line 2004: it has 3 values, but there are 2 columns"),
        ("z,z", "1.csv, line 4: column 'n' is int64 and cannot hold 'z'"),
    ]


def test_a_parquet_file_with_fractions_in_a_column_of_whole_numbers_has_one_dead_letter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"n": [0.5] * 1_500}), tmp_path / "2.parquet")
    rows, [(element, reason)] = read_here(lambda: dm.io.ReadParquet(tmp_path, event_time=None))
    assert rows == [1, 2]
    assert element == str(tmp_path / "2.parquet")
    assert "none of the first 1024 of the 1500 rows of the file can be read: column 'n' is int64" in reason


def test_a_json_file_with_text_in_a_column_of_numbers_has_one_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"n": 1}\n')
    (tmp_path / "2.json").write_text('{"n": "a"}\n{"n": "b"}\n')
    rows, [(_, reason)] = read_here(lambda: dm.io.ReadJson(tmp_path, event_time=None))
    assert rows == [1]
    assert reason == (
        "2.json, line 1: none of the 2 rows of the file can be read: column 'n' is int64 and cannot hold 'a'"
    )


@pytest.mark.parametrize("content", ["n,t\nq,r\n", "n,t\nq,r\n5,r,7\n", "n,t\nq,r\n3,r\n"])
def test_single_bad_rows_and_rows_with_several_problems_keep_their_dead_letters(content: str, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("n,t\n1,x\n")
    (tmp_path / "2.csv").write_text(content)
    _, bad = read_here(lambda: dm.io.ReadCsv(tmp_path, event_time=None))
    assert [element for element, _ in bad if element != "5,r,7"] == ["q,r"]


@pytest.mark.parametrize("header", ["m,t\n", "\xe9,t\n"])
def test_a_file_with_another_header_does_not_stop_a_stream_with_dead_letters(header: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("n,t\n1,x\n")
    read = reading(lambda: dm.io.ReadCsv(folder, event_time=dm.ARRIVAL, follow=True))
    stream = Stepped(read, tmp_path / "checkpoint", rows=7)
    stream.steps()
    (folder / "2.csv").write_text(header + "5,r\n" * 20, encoding="latin-1")
    (folder / "3.csv").write_text("n,t\n2,y\n")
    stream.steps()
    assert sorted(record.value for record in stream.collected("rows")) == [1, 2]
    [letter] = [record.value for record in stream.collected("bad")]
    assert letter[0] == str(folder / "2.csv")
    assert "none of the 20 rows of the file can be read, nor what is appended to it: " in letter[1]


def test_rows_that_fit_are_read_when_they_are_appended_to_a_file_at_fault(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("n,t\n1,x\n")
    file = folder / "2.csv"
    file.write_text("n,t\nq,r\nq,r\n")
    read = reading(lambda: dm.io.ReadCsv(folder, event_time=dm.ARRIVAL, follow=True))
    stream = Stepped(read, tmp_path / "checkpoint")
    stream.steps()
    with file.open("a") as out:
        out.write("q,s\n7,s\n")
    stream.steps()
    assert sorted(record.value for record in stream.collected("rows")) == [1, 7]
    letters = [record.value for record in stream.collected("bad")]
    assert [element for element, _ in letters] == [str(file), "q,s"]


def test_without_dead_letters_a_file_with_another_header_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("n,t\n1,x\n")
    (tmp_path / "2.csv").write_text("m,t\n1,x\n")
    with pytest.raises(dm.SourceError, match=r"must have the columns n, t, got m, t\nHint: .*with_exception_handling"):
        run(dm.LocalRunner(), lambda p: p | dm.io.ReadCsv(tmp_path, event_time=None) | dm.io.Collect())


def test_a_file_whose_header_has_an_open_quote_has_one_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("n,t\n1,x\n")
    (tmp_path / "2.csv").write_text('n,"t\n1,x\n')
    rows, [(element, reason)] = read_here(lambda: dm.io.ReadCsv(tmp_path, event_time=None))
    assert (rows, element) == ([1], str(tmp_path / "2.csv"))
    assert "has a quote that is not closed" in reason


def test_files_without_rows_have_no_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("n,t\n1,x\n")
    (tmp_path / "2.csv").write_text("m,t\n")
    assert read_here(lambda: dm.io.ReadCsv(tmp_path, event_time=None)) == ([1], [])
    assert Fault.of([]) is None
