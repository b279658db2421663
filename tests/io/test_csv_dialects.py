"""Lines above the header, comments, `sep=` lines, separated thousands, and lines as an editor counts them."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

import dataflow_model as dm
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.text import row_texts, unpacking
from tests.support.laws.examples import share_of_examples


def read(path: Path, content: str | bytes, **options: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows, and the reasons of the bad ones."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options.setdefault("event_time", None)
    with dm.Pipeline() as p:
        good, bad = p | dm.io.ReadCsv(path, **options).with_exception_handling()
        _ = good | "good" >> dm.io.Collect(), bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    letters = [record.value for record in p.result.collected("bad")]
    return [tuple(record.value) for record in p.result.collected("good")], [letter.reason for letter in letters]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_above_the_header_are_skipped_whatever_is_in_them(file: Path, end: str, mark: str) -> None:
    lines = [f'{mark}Report of "May', "", "a;b,c", "at,n", "1,2", "x,3", ""]
    rows, reasons = read(file, end.join(lines), skip_rows=3, schema=pa.schema({"at": pa.int64(), "n": pa.int64()}))
    assert rows == [(1, 2)]
    assert reasons == ["a.csv, line 6: column 'at' is int64 and cannot hold 'x'"]


def test_a_file_with_fewer_lines_than_are_skipped_has_no_rows(file: Path) -> None:
    schema = pa.schema({"n": pa.int64()})
    assert read(file, "a\nb", skip_rows=3, schema=schema) == ([], [])
    assert read(file, "", skip_rows=3, schema=schema) == ([], [])


def test_comments_are_skipped_before_the_header_and_between_rows(file: Path) -> None:
    content = '# made by "x\nat,note\n1,a\n# two, "values"\n\n2,"#b\n# c"\n#,\n3,#d\n'
    rows, reasons = read(file, content, comment="#")
    assert (rows, reasons) == ([(1, "a"), (2, "#b\n# c"), (3, "#d")], [])


ROWS = st.lists(st.sampled_from(["1,a", '2,"b"', "#x", '#",', "", '3,"c\nd"', "bad"]), max_size=20)


@share_of_examples(0.4)
@given(ROWS, st.integers(1, 30), st.integers(0, 3), st.booleans())
@example(["1,a", "#x", "bad"], 1, 1, False)
@example(["bad", "#x", "bad"], 1, 1, False)
@example(["bad", "", "bad"], 30, 0, True)
def test_rows_and_lines_do_not_depend_on_how_the_file_is_cut(
    rows: list[str], block: int, skipped: int, is_packed: bool
) -> None:
    lines = ["above"] * skipped + ["n,t", *rows]
    content = "\n".join([*lines, ""]).encode()
    schema = pa.schema({"n": pa.int64(), "t": pa.string()})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        for name in ("BLOCK", "_FIRST"):
            patch.setattr(unpacking, name, block)
        row_texts._indexes.clear()
        path = Path(folder, "a.csv.gz" if is_packed else "a.csv")
        packed = gzip.compress(content) if is_packed else content
        good, reasons = read(path, packed, comment="#", skip_rows=skipped, schema=schema)
    values = {"1,a": (1, "a"), '2,"b"': (2, "b"), '3,"c\nd"': (3, "c\nd")}
    assert good == [values[row] for row in rows if row in values]
    line, bad_lines = 2 + skipped, []
    for row in rows:
        bad_lines += [line] if row == "bad" else []
        line += 1 + row.count("\n")
    if not good and len(bad_lines) > 1:  # the first row stands for all rows of a file of which none can be read
        assert f"none of the {len(bad_lines)} rows of the file can be read" in reasons[0]
        bad_lines = bad_lines[:1]
    assert [int(reason.split("line ")[1].split(":")[0]) for reason in reasons] == bad_lines


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("sep=;\nn;t\n1;a,b\n", [(1, "a,b")]),
        ('"sep=|"\r\nn|t\r\n1|a\r\n', [(1, "a")]),
        ("\ufeffsep=\t\nn\tt\n1\ta\n", [(1, "a")]),
        ("sep=,\nn,t\n1,a\n", [(1, "a")]),
    ],
)
def test_a_line_of_excel_names_the_delimiter(file: Path, content: str, rows: list[Any]) -> None:
    assert read(file, content) == (rows, [])


def test_files_of_one_source_may_have_their_own_delimiters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\nn;t\n1;a\n")
    (tmp_path / "b.csv").write_text("n,t\n2,b\n")
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadCsv(tmp_path, event_time=None) | "rows" >> dm.io.Collect()
    assert p.result is not None
    assert [tuple(record.value) for record in p.result.collected("rows")] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1,234", "5", "-1,234,567"], pa.int64(), [1234, 5, -1234567]),
        (["1,234.5", "0.25", "7"], pa.float64(), [1234.5, 0.25, 7.0]),
        (["1,234", "12,34"], pa.string(), ["1,234", "12,34"]),
        (["1,234", "x"], pa.string(), ["1,234", "x"]),
        (["01,234", "5"], pa.string(), ["01,234", "5"]),
        (["1,234", ""], pa.int64(), [1234, None]),
    ],
)
def test_separated_thousands_are_numbers(file: Path, texts: list[str], kind: pa.DataType, values: list[Any]) -> None:
    content = "n;t\n" + "".join(f"{text};a,b\n" for text in texts)
    rows, reasons = read(file, content, thousands=",", delimiter=";")
    assert (rows, reasons) == ([(value, "a,b") for value in values], [])
    options = CsvOptions(thousands=",", delimiter=";")
    source = CsvSource(paths=str(file), event_time=None, options=options)
    assert source.schema().field("n").type == kind


@pytest.mark.parametrize("kind", [pa.int32(), pa.float32(), pa.float64(), pa.decimal128(12, 2)], ids=str)
def test_a_number_with_misplaced_separators_is_a_bad_row(file: Path, kind: pa.DataType) -> None:
    schema = pa.schema({"n": kind})
    content = "n\n1.234\n12.34\n1.2345\n.5\n1.234.567\n"
    rows, reasons = read(file, content, thousands=".", decimal_point=",", delimiter=";", schema=schema)
    assert [row[0] for row in rows] == [1234, 1234567]
    assert len(reasons) == 3


def test_the_hint_of_a_bad_row_names_thousands(file: Path) -> None:
    file.write_text("n,t\n1,a\n" + '"1,234",b\n')
    schema = pa.schema({"n": pa.int64(), "t": pa.string()})
    message = r"line 3 of a\.csv: column 'n' is int64 and cannot hold '1,234'.*\nHint: pass thousands=','"
    with pytest.raises(dm.SourceError, match=message), dm.Pipeline() as p:
        _ = p | dm.io.ReadCsv(file, event_time=None, schema=schema) | dm.io.Collect()


def test_a_header_beyond_the_first_block_is_read(file: Path) -> None:
    name = "x" * 300_000
    assert read(file, f"{name},t\n1,a\n") == ([(1, "a")], [])


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_file_may_have_thousands_of_columns(file: Path, count: int) -> None:
    names = ",".join(f"column_{n}" for n in range(count))
    rows, _ = read(file, names + "\n" + ",".join(["1"] * count) + "\n")
    assert len(rows[0]) == count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skip_rows": -1}, "`skip_rows` must be a whole number of lines, got -1"),
        ({"skip_rows": True}, "`skip_rows` must be a whole number of lines, got True"),
        ({"comment": "//"}, "`comment` must be one ASCII character"),
        ({"comment": ","}, "`comment` must differ from `delimiter` and `quote`, got ','"),
        ({"thousands": "."}, "`thousands` must differ from `decimal_point` and `quote`"),
        ({"thousands": "0"}, "and be no letter or digit, got '0'"),
    ],
)
def test_options_that_make_no_sense_are_rejected(file: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=message):
        dm.io.ReadCsv(file, event_time=None, **options)
