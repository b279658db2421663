"""Rows of CSV with fewer values than columns: bad rows, or rows with nulls."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run

COLUMNS = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64(), "note": pa.string()})
RAGGED = """at,n,note
2013-01-01T00:00:00Z,1,a
2013-01-01T00:00:01Z
2013-01-01T00:00:02Z,
2013-01-01T00:00:03Z,4,
1,2,3,4
"""


def rows_of(path: Path, columns: pa.Schema | None = None, **options: Any) -> list[Any]:
    """Return the rows as tuples, and what is wrong with the bad ones."""
    source = CsvSource(paths=str(path), event_time=None, given=columns, options=CsvOptions(**options))
    [origin] = source.origins()
    decoded = [source.decode(batch) for batch in source.read(origin.name, 0, None)]
    return [
        *(tuple(row) for part in decoded for row in part.values),
        *(bad.reason for part in decoded for bad in part.bad),
    ]


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_all_hosts_read_null_in_columns_that_a_row_lacks(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(RAGGED)

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadCsv(file, event_time="at", schema=COLUMNS, ragged="pad").with_exception_handling()
        rows, bad = p | "read" >> read
        _ = rows | dm.Map(lambda row: (row.n, row.note)) | "rows" >> dm.io.Collect()
        _ = bad | dm.Map(lambda letter: (letter.element, letter.reason)) | "bad" >> dm.io.Collect()

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    rows = [record.value for record in result.collected("rows")]
    assert sorted(rows, key=repr) == [(1, "a"), (4, ""), (None, None), (None, None)]
    [letter] = [record.value for record in result.collected("bad")]
    assert letter == ("1,2,3,4", "a.csv, line 6: it has 4 values, but there are 3 columns")


def test_by_default_a_row_with_too_few_values_is_a_bad_row(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,2\n3\n")
    assert rows_of(file) == [(1, 2), "it has 1 value, but there are 2 columns"]


def test_short_rows_take_part_in_the_inference_of_types(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("code,n,note\n01\n02,5\n03,,x\n")
    assert rows_of(file, ragged="pad") == [("01", None, None), ("02", 5, None), ("03", None, "x")]


def test_a_short_row_may_end_in_a_quoted_value_with_line_breaks(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'a;b;c\r\n"x\r\ny;z"\r\n;"q"\r\n1;2;3')
    assert rows_of(file, ragged="pad", delimiter=";") == [("x\r\ny;z", None, None), ("", "q", None), ("1", "2", 3)]


def test_the_text_of_a_short_bad_row_is_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("n,note\nx\n")
    source = CsvSource(
        paths=str(file),
        event_time=None,
        given=pa.schema({"n": pa.int64(), "note": pa.string()}),
        options=CsvOptions(ragged="pad"),
    )
    [bad] = next(iter(source.decode(batch) for batch in source.read("a.csv", 0, None))).bad
    assert (bad.row, bad.reason) == ("x", "column 'n' is int64 and cannot hold 'x'")


@given(st.lists(st.lists(st.sampled_from(["", "1", "-5", "70"]), min_size=1, max_size=4), min_size=1, max_size=20))
def test_padded_rows_are_the_values_of_the_line_and_nulls(values: list[list[str]]) -> None:
    lines = [",".join(line) for line in values if line != [""]]
    columns = pa.schema({"a": pa.string(), "n": pa.int32(), "d": pa.decimal128(9, 2), "b": pa.binary()})
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text("\n".join(["a,n,d,b", *lines]))
        read = rows_of(path, pa.schema([(name, pa.string()) for name in columns.names]), ragged="pad")
        typed = rows_of(path, columns, ragged="pad")
    padded = [line.split(",") + [None] * (3 - line.count(",")) for line in lines]
    assert read == [tuple(line) for line in padded]
    assert [row[1] for row in typed if isinstance(row, tuple)] == [
        int(line[1]) if line[1] else None for line in padded if line[3] in {None, ""}
    ]


def test_an_unknown_value_of_ragged_rows_is_rejected() -> None:
    with pytest.raises(dm.InvalidArgument, match="`ragged` must be 'bad row' or 'pad', got 'null'"):
        dm.io.ReadCsv("a.csv", event_time=None, ragged="null")
