"""Text and CSV files: written once per commit, compressed by their suffix, and read back as they were."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SinkError, SourceError
from dataflow_model.io.sinks.file_sinks import CsvSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = pa.schema({"n": pa.int64(), "share": pa.float64(), "text": pa.string()})
ROWS = [
    {"n": 1, "share": 0.5, "text": 'a "word", and\ntwo lines'},
    {"n": None, "share": None, "text": None},
    {"n": -(2**63), "share": 1e300, "text": ""},
    {"n": 2**53 + 1, "share": -0.1, "text": " NA "},
]


def write(values: Sequence[Any], sink: Any) -> Any:
    with dm.Pipeline() as p:
        _ = p | dm.Create(values) | "write" >> sink
    assert p.result is not None
    return p.result


def read(source: Any) -> list[Any]:
    with dm.Pipeline() as p:
        _ = p | source | "rows" >> dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("rows")]


def only(folder: Path, pattern: str = "part-*") -> Path:
    [file] = folder.glob(pattern)
    return file


@pytest.mark.parametrize("null", ["", "NA"])
@pytest.mark.parametrize("quoting", ["needed", "all"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_written_to_csv_are_read_back(tmp_path: Path, null: str, quoting: Any, delimiter: str) -> None:
    write(ROWS, dm.io.WriteCsv(tmp_path, schema=SCHEMA, null=null, quoting=quoting, delimiter=delimiter))
    source = dm.io.ReadCsv(tmp_path, event_time=None, schema=SCHEMA, null_values=[null], delimiter=delimiter)
    assert [row._asdict() for row in read(source)] == ROWS


def test_a_written_csv_file_is_read_by_the_csv_module(tmp_path: Path) -> None:
    write(ROWS, dm.io.WriteCsv(tmp_path, schema=SCHEMA, null="null"))
    with only(tmp_path).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["n", "share", "text"]
    assert rows[1] == ["1", "0.5", 'a "word", and\ntwo lines']
    assert rows[2] == ["null", "null", "null"]


@given(st.lists(st.text("=+-@\t\r\n'a\uff1d", max_size=3), min_size=1, max_size=5), st.sampled_from([",", ";", "\t"]))
def test_no_text_starts_like_a_formula_if_formulas_are_escaped(texts: list[str], delimiter: str) -> None:
    rows = [{"=n": -1, "x": -math.inf, "text": text, "kind": text} for text in texts]
    kinds = {"=n": pa.int64(), "x": pa.float64(), "text": pa.string(), "kind": pa.dictionary(pa.int8(), pa.string())}
    with tempfile.TemporaryDirectory() as folder:
        write(rows, dm.io.WriteCsv(folder, schema=pa.schema(kinds), delimiter=delimiter, escape_formulas=True))
        with only(Path(folder)).open(newline="") as file:
            header, *written = csv.reader(file, delimiter=delimiter)
    assert header == ["'=n", "x", "text", "kind"]
    for text, cells in zip(texts, written, strict=True):
        assert cells[:2] == ["-1", "-Infinity"]
        assert cells[2] == cells[3] == (f"'{text}" if text[:1] in {*"=+-@\t\r\n\uff1d"} else text)


def test_formulas_are_written_as_they_are_by_default(tmp_path: Path) -> None:
    write([("UA", "=1+1")], dm.io.WriteCsv(tmp_path))
    assert only(tmp_path).read_text() == "key,value\nUA,=1+1\n"


def test_values_of_every_type_have_a_text_form(tmp_path: Path) -> None:
    row = {
        "flag": True,
        "at": dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
        "day": dt.date(2013, 1, 1),
        "nan": float("nan"),
        "data": b"UA",
        "price": decimal.Decimal("1.50"),
        "parts": [1, 2],
    }
    write([row], dm.io.WriteCsv(tmp_path))
    assert only(tmp_path).read_text().splitlines()[1] == ('true,2013-01-01T00:00:00Z,2013-01-01,NaN,VUE=,1.50,"[1, 2]"')


def test_a_null_in_the_only_column_is_not_an_empty_line(tmp_path: Path) -> None:
    write([{"a": None}, {"a": "x"}], dm.io.WriteCsv(tmp_path, schema=pa.schema({"a": pa.string()})))
    assert only(tmp_path).read_text() == 'a\n""\nx\n'


def test_the_header_can_be_left_out(tmp_path: Path) -> None:
    write([("UA", 1)], dm.io.WriteCsv(tmp_path, header=False))
    assert only(tmp_path).read_text() == "UA,1\n"


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst", "csv.bz2"])
def test_csv_files_are_compressed_according_to_their_suffix(tmp_path: Path, suffix: str) -> None:
    write([("UA", 1), ("AA", 2)], dm.io.WriteCsv(tmp_path, suffix=f".{suffix}"))
    assert only(tmp_path).name.endswith(suffix)
    assert read(dm.io.ReadCsv(tmp_path, event_time=None)) == [("UA", 1), ("AA", 2)]


def test_lines_of_json_are_compressed_according_to_their_suffix(tmp_path: Path) -> None:
    write([("UA", 1)], dm.io.WriteJson(tmp_path, suffix=".json.gz"))
    assert json.loads(gzip.decompress(only(tmp_path).read_bytes())) == {"key": "UA", "value": 1}


def test_a_row_that_does_not_fit_is_a_dead_letter(tmp_path: Path) -> None:
    result = write([{"n": 1}, {"n": "x"}], dm.io.WriteCsv(tmp_path, schema=pa.schema({"n": pa.int64()})))
    assert only(tmp_path).read_text() == "n\n1\n"
    assert "cannot hold 'x'" in json.loads(only(tmp_path / "_dead_letters", "*").read_text())["reason"]
    assert result.metrics()["write"]["dead_letters"] == 1


def test_files_of_one_commit_have_the_same_columns(tmp_path: Path) -> None:
    sink = CsvSink(path=tmp_path, label="delays")
    messages = []
    for task, value in enumerate([{"a": 1}, {"b": 2}]):
        writer = sink.open("0", str(task))
        writer.write([Record(value, EventTime(0), GLOBAL_WINDOW, NO_FIRING)])
        messages.append(writer.close())
    with pytest.raises(
        SinkError, match="'delays' would write files with different columns: a and b\nHint: pass schema="
    ):
        sink.commit("0", messages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": '"'}, "`delimiter` must not be the quote"),
        ({"delimiter": "||"}, "`delimiter` must be one ASCII character"),
        ({"null": "a,b"}, "`null` must be text without delimiters, quotes and line breaks, got 'a,b'"),
        ({"quoting": "none"}, "`quoting` must be 'needed' or 'all', got 'none'"),
        ({"escape_formulas": "yes"}, "`escape_formulas` must be true or false, got 'yes'"),
        ({"suffix": "csv"}, "`suffix` must begin with a dot, got 'csv'"),
        ({"suffix": ".csv.xz"}, r"`suffix` names a compression .* got '\.csv\.xz'"),
    ],
)
def test_options_that_cannot_be_written_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        dm.io.WriteCsv(tmp_path, **options)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".log.zst"])
def test_lines_that_were_written_are_read_back(tmp_path: Path, suffix: str) -> None:
    lines = ["to be", "", "  or not ", "é"]
    write(lines, dm.io.WriteText(tmp_path, suffix=suffix))
    assert read(dm.io.ReadText(tmp_path)) == lines


def test_an_element_that_is_not_a_line_of_text_is_a_dead_letter(tmp_path: Path) -> None:
    result = write(["a", "two\nlines", 4, None, {"value": "x"}, {"a": 1}], dm.io.WriteText(tmp_path))
    assert only(tmp_path).read_text() == "a\n"
    letters = [json.loads(line) for line in only(tmp_path / "_dead_letters", "*").read_text().splitlines()]
    assert {letter["row"]: letter["reason"] for letter in letters} == {
        "'two\\nlines'": "a line of text cannot hold a line break",
        "4": "a line is text, not a value of type int",
        "None": "a line is text, not a value of type NoneType",
        "{'value': 'x'}": "a line is text, not a value of type dict",
        "{'a': 1}": "a line is text, not a value of type dict",
    }
    assert result.metrics()["write"]["dead_letters"] == 5


@pytest.mark.parametrize(("element", "kind"), [(1, "int"), ({"value": "x"}, "dict"), (b"x", "bytes"), (None, "None")])
def test_elements_whose_type_is_not_text_are_refused(tmp_path: Path, element: object, kind: str) -> None:
    with pytest.raises(
        InvalidType, match=rf"writes text, and the elements are of type .*{kind}.*\nHint: make lines of them"
    ):
        _ = dm.Pipeline() | dm.Create([element]) | dm.io.WriteText(tmp_path)


def test_records_with_declared_fields_are_refused_as_text(tmp_path: Path) -> None:
    record = TypedDict("record", {"value": str})  # noqa: UP013 - a class of a function has no annotations
    rows = dm.Pipeline() | dm.Create([{"value": "x"}]) | dm.Map(lambda row: row).with_output_types(record)
    with pytest.raises(InvalidType, match="writes text, and the elements are of type record"):
        _ = rows | dm.io.WriteText(tmp_path)


def test_retractions_cannot_be_written_as_text(tmp_path: Path) -> None:
    p = dm.Pipeline()
    each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    sums = p | dm.Create([("a", 1)]) | each | dm.Sum.per_key() | dm.Map(str)
    _ = sums | dm.io.WriteText(tmp_path)
    with pytest.raises(dm.PlanError, match="emits retractions, which a line cannot show"):
        p.run()


def test_lines_are_read_with_any_line_end_including_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa\r\n\r\nb\n\nc")
    assert read(dm.io.ReadText(tmp_path)) == ["a", "", "b", "", "c"]
    (tmp_path / "a.txt").write_bytes("ü\n".encode("utf-16"))
    assert read(dm.io.ReadText(tmp_path, encoding="utf-16")) == ["ü"]


def test_a_partly_read_file_is_closed_when_the_process_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000)
    program = (
        "import atexit, sys; files = []; atexit.register(lambda: print([file._file.closed for file in files])); "
        "from dataflow_model.io.listing import file_identity; "
        "from dataflow_model.io.text import unpacking; "  # closes them before that
        "parts = unpacking.blocks(file_identity.FileVersion.of(sys.argv[1]), 'cp1252', 0); next(parts); parts.close(); "
        "files += unpacking._open_files.values()"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "a.txt")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[True]\n"


def test_a_line_in_another_encoding_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\n\xe9\nb\n")
    with dm.Pipeline() as p:
        lines, bad = p | dm.io.ReadText(tmp_path).with_exception_handling()
        _ = lines | "lines" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value for record in p.result.collected("lines")] == ["a", "b"]
    [letter] = [record.value for record in p.result.collected("bad")]
    assert letter.element == "\\xe9"
    assert letter.reason.startswith("a.txt, line 2: it is not UTF-8")


def test_read_text_refuses_a_column_of_event_times(tmp_path: Path) -> None:
    with pytest.raises(InvalidType, match=r"must be None or dm\.ARRIVAL, .*, got 'at'\nHint: .*WithTimestamps"):
        dm.io.ReadText(tmp_path, event_time="at")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"needs event times .*\nHint: pass event_time=dm\.ARRIVAL"):
        dm.io.ReadText(tmp_path, follow=True)


def test_event_times_can_be_parsed_from_lines_by_a_function_after_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("when,n\nday 2,1\nnever,2\nday 1,3\nday 2,4\n")
    stamped = dm.WithTimestamps(lambda row: f"2013-01-0{int(row.when.split()[1])}T00:00Z").with_exception_handling()
    with dm.Pipeline() as p:
        rows, bad = p | dm.io.ReadCsv(tmp_path, event_time=None) | stamped
        days = rows | dm.Map(lambda row: ("n", row.n)) | dm.Window.into(dm.FixedWindows("1 day"))
        _ = days | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    sums = [(record.value, record.window.start, record.pane.timing.value) for record in p.result.collected("sums")]
    assert sums == [
        (("n", 3), dm.event_time("2013-01-01T00:00Z"), "ON_TIME"),
        (("n", 5), dm.event_time("2013-01-02T00:00Z"), "ON_TIME"),
    ]
    [letter] = [record.value for record in p.result.collected("bad")]
    assert (letter.element, letter.label) == (("never", 2), "WithTimestamps")


@pytest.mark.parametrize(("horizon", "expected"), [(None, ([], 1)), ("1 minute", (["a"], 0))])
def test_an_event_time_moved_back_further_than_declared_is_a_dead_letter(
    horizon: str | None, expected: tuple[list[str], int]
) -> None:
    stamped = dm.WithTimestamps(lambda _: 0, late_data_horizon=horizon).with_exception_handling()
    with dm.Pipeline() as p:
        good, bad = p | dm.Create([dm.TimestampedValue("a", 60)]) | stamped
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    letters = [record.value for record in p.result.collected("bad")]
    assert ([record.value for record in p.result.collected("good")], len(letters)) == expected
    assert all("dm.WithTimestamps(…, late_data_horizon=" in letter.reason for letter in letters)


def test_a_file_that_could_not_be_decoded_fails_again_in_the_next_run_of_the_process(tmp_path: Path) -> None:
    lone = "\ud800".encode("utf-16-le", "surrogatepass")
    (tmp_path / "a.txt").write_bytes("good\n".encode("utf-16-le") * 40_000 + lone + "\nend\n".encode("utf-16-le"))
    for _ in range(2):
        p = dm.Pipeline()
        _ = p | dm.io.ReadText(tmp_path / "a.txt", encoding="utf-16-le") | dm.io.Collect()
        with pytest.raises(SourceError, match="cannot be read as utf-16-le"):
            p.run().wait_until_finish()


def test_bytes_that_are_invalid_in_the_encoding_are_shown_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\nZ\x81\n")
    with dm.Pipeline() as p:
        lines, bad = p | dm.io.ReadText(tmp_path / "a.txt", encoding="cp1252").with_exception_handling()
        _ = lines | "lines" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    [letter] = [record.value for record in p.result.collected("bad")]
    assert (letter.element, letter.reason) == ("Z\\x81", "a.txt, line 2: it is not cp1252")
