"""Bad files and bad rows: named exactly, and nothing else is lost."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io import Collect, ReadJson, ReadParquet
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.plan.columns.rows import values_of
from dataflow_model.plan.columns.source_columns import decode_columns, instants, split_columns
from dataflow_model.plan.watermarks.estimators import ARRIVAL
from dataflow_model.transforms.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.io.files.file_source import FileSource


def decoded(source: FileSource, origin: str) -> tuple[list[Any], list[tuple[int, str]]]:
    parts = [source.decode(batch) for batch in source.read(origin, 0, None)]
    return [row for part in parts for row in part.values], [
        (bad.index, bad.reason) for part in parts for bad in part.bad
    ]


def test_a_row_without_event_time_is_bad_and_other_rows_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1, None, 3], "n": [10, 20, 30]}), tmp_path / "a.parquet")
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    rows, bad = decoded(source, "a.parquet")
    assert [row.n for row in rows] == [10, 30]
    assert bad == [(1, "column 'at' is null: the row has no event time")]


def test_the_error_and_the_dead_letter_name_file_row_column_and_value(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": ["2013-01-01", "soon"], "n": [1, 2]}), tmp_path / "a.parquet")
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    bad = source.decode(next(source.read("a.parquet", 1, None))).bad[0]
    error = source.refusal("departures", "a.parquet", 1, bad)
    assert str(error).startswith(
        "'departures' cannot read row 1 of a.parquet: column 'at' holds 'soon', which is not an instant"
    )
    assert "'n': 2" in str(error)
    assert "Hint:" in str(error)
    letter = source.dead_letter("departures", "a.parquet", 1, bad)
    assert letter.element == {"at": "soon", "n": 2}
    assert letter.label == "departures"
    assert (
        letter.reason
        == "a.parquet, row 1: column 'at' holds 'soon', which is not an instant: the row has no event time"
    )


DAYS = pa.array([1, None, 3_000_000], pa.int32()).cast(pa.date32())
BEYOND = {
    "a date": (DAYS, "3000000"),
    "a date before the year 1": (pa.array([1, None, -3_000_000], pa.int32()).cast(pa.date32()), "-3000000"),
    "a date in milliseconds": (DAYS.cast(pa.date64()), "259200000000000"),
    "a duration": (pa.array([1, None, 2**60]).cast(pa.duration("s")), "1152921504606846976"),
    "an instant": (pa.array([1, None, 2**60]).cast(pa.timestamp("s")), "1152921504606846976"),
    "a list": (pa.array([[1], None, [2, 2**60]]).cast(pa.list_(pa.timestamp("us", "UTC"))), "[2, 1152921504606846976]"),
    "a map": (
        pa.array([[("a", 1)], None, [("a", 2**60)]], pa.map_(pa.string(), pa.int64())).cast(
            pa.map_(pa.string(), pa.timestamp("us"))
        ),
        "[('a', 1152921504606846976)]",
    ),
    "a struct": (pa.array([{"t": None}, None, {"t": 2**60}]).cast(pa.struct({"t": pa.duration("s")})), "{'t': 115"),
    "a dictionary": (DAYS.dictionary_encode(), "3000000"),
}


@pytest.mark.parametrize("kind", BEYOND)
def test_a_time_that_python_cannot_hold_makes_a_bad_row(kind: str) -> None:
    column, shown = BEYOND[kind]
    rows = split_columns(pa.record_batch({"n": [10, 20, 30], "t": column}), ARRIVAL, None)
    [bad] = rows.bad
    assert (bad.index, decode_columns(rows).positions.tolist()) == (2, [0, 1])
    assert bad.reason.startswith(f"column 't' is {column.type} and holds {shown}")
    assert bad.reason.endswith(
        "Python holds dates and instants of the years 1 to 9999, and durations of up to 999,999,999 days"
    )
    assert str(bad.row).startswith(f"{{'n': 30, 't': {shown}")
    with pytest.raises(InvalidArgument, match=r"a column of type .* holds .*years 1 to 9999.*\nHint: change the value"):
        values_of(column)


@pytest.mark.parametrize("name", ["event_time", "processing_time"])
def test_a_time_column_beyond_64_bits_of_microseconds_makes_a_bad_row(name: str) -> None:
    times = pa.array([1, 2**60]).cast(pa.timestamp("s"))
    names: dict[str, Any] = {"event_time": "at", "processing_time": None} | {name: "at"}
    rows = split_columns(pa.record_batch({"at": times}), **names)
    assert [bad.row for bad in rows.bad] == [{"at": 2**60}]


def test_the_run_stops_at_a_time_that_python_cannot_hold_or_its_row_is_a_dead_letter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": DAYS, "n": [1, 2, 3]}), tmp_path / "a.parquet")
    read = "days" >> ReadParquet(tmp_path, event_time=None)
    pipeline = Pipeline()
    _ = pipeline | read | "rows" >> Collect()
    with pytest.raises(SourceError, match=r"'days' cannot read row 2 of a.parquet: column 'day' .*3000000.*\nHint: "):
        pipeline.run().wait_until_finish()
    pipeline = Pipeline()
    rows, letters = pipeline | read.with_exception_handling()
    _ = rows | "rows" >> Collect()
    _ = letters | "letters" >> Collect()
    result = pipeline.run()
    result.wait_until_finish()
    assert [record.value.n for record in result.collected("rows")] == [1, 2]
    assert [record.value.element for record in result.collected("letters")] == [{"day": 3_000_000, "n": 3}]


def test_values_of_another_type_are_bad_rows_of_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,n\n1,10\ntwo,20\n3,30\n4\n,50\n6,6.5\n7,70\n")
    schema = pa.schema({"at": pa.int64(), "n": pa.int64()})
    rows, bad = decoded(CsvSource(paths=tmp_path, event_time="at", given=schema), "a.csv")
    assert rows == [(1, 10), (3, 30), (7, 70)]
    assert [place for place, _ in bad] == [1, 3, 4, 5]
    assert [reason for _, reason in bad] == [
        "column 'at' is int64 and cannot hold 'two'",
        "it has 1 value, but there are 2 columns",
        "column 'at' is null: the row has no event time",
        "column 'n' is int64 and cannot hold '6.5'",
    ]


def test_values_of_another_type_are_bad_rows_of_json(tmp_path: Path) -> None:
    lines = ['{"at": 1, "n": 10}', '{"at": "two", "n": 20}', "{not json", '{"n": 40}', '{"at": 5, "n": 50, "more": []}']
    lines += ["[6, 60]", '{"at": 7, "n": 0.5}', '{"at": 8, "n": {"x": 1}}']
    (tmp_path / "a.json").write_text("\n".join([*lines, ""]))
    schema = pa.schema({"at": pa.int64(), "n": pa.int64()})
    rows, bad = decoded(JsonSource(paths=tmp_path, event_time="at", given=schema), "a.json")
    assert rows == [(1, 10), (5, 50)]
    assert bad == [
        (1, "column 'at' is int64 and cannot hold 'two'"),
        (2, "it is not JSON: Expecting property name enclosed in double quotes at character 1"),
        (3, "column 'at' is null: the row has no event time"),
        (5, "it is not an object, as in {…}"),
        (6, "column 'n' is int64 and cannot hold 0.5"),
        (7, "column 'n' is int64 and cannot hold {'x': 1}"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "it is not JSON"),
        ("[6, 60]", "it is not an object"),
        ('{"n": "two"}', "column 'n' is int64 and cannot hold 'two'"),
        ('{"n": {"x": 1}}', "column 'n' is int64 and cannot hold"),
        ('{"n": 3, "more": [1, "x"]}', "column 'more' is list"),
        ('{"n": 3, "n": 4}', ""),
        ('{"n": 3} {"n": 4}', "it is not JSON: Extra data"),
        (r'{"n": 3, "name": "\ud800"}', "'name' has half of a surrogate pair"),
        (r'{"n": 3, "more": [null, {"\ud800": 4}]}', "'more' has half of a surrogate pair"),
    ],
)
def test_a_bad_row_of_json_does_not_keep_the_columns_from_being_inferred(
    tmp_path: Path, line: str, reason: str
) -> None:
    good = '{"n": 1, "more": [null, 0.5]}\n'
    (tmp_path / "a.json").write_text(f'{good}{line}\n{{"n": 2}}\n')
    rows, bad = decoded(JsonSource(paths=tmp_path, event_time=None).bound(), "a.json")
    assert rows == [(1, [None, 0.5]), (2, None)]
    assert [place for place, _ in bad] == [1]
    assert bad[0][1].startswith(reason)


@pytest.mark.parametrize("number", ["1", "0.5"])
def test_text_of_json_that_is_not_utf_8_is_a_bad_row(tmp_path: Path, number: str) -> None:
    good, bad_line = (f'{{"n": {number}, "name": "{name}"}}\n' for name in ("Zürich", "Z\udcfcrich"))
    (tmp_path / "a.json").write_bytes((good + bad_line + good).encode("utf-8", "surrogateescape"))
    rows, bad = decoded(JsonSource(paths=tmp_path, event_time=None).bound(), "a.json")
    assert rows == [(float(number), "Zürich")] * 2
    assert bad == [(1, "it is not UTF-8, in which JSON is written")]


@pytest.mark.parametrize("content", ["carrier,delay\nUA,4\n", '[{"carrier": "UA"}, {"carrier": "AA"}]'])
def test_no_columns_can_be_inferred_from_a_file_without_a_line_of_json(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(
        SourceError,
        match=r"a\.json cannot be inferred: of its first row, it is not .*\nHint: (check that|pass lines=False)",
    ):
        ReadJson(tmp_path, event_time=None)


@pytest.mark.parametrize(("kind", "content"), [("csv", "at,n\n1,x\n,2\n"), ("json", '{"at": 1, "n": "x"}\n{"n": 2}\n')])
def test_the_text_of_a_row_that_cannot_be_parsed_is_the_element_of_its_dead_letter(
    tmp_path: Path, kind: str, content: str
) -> None:
    (tmp_path / f"a.{kind}").write_text(content)
    source_type = CsvSource if kind == "csv" else JsonSource
    source = source_type(paths=tmp_path, event_time="at", given=pa.schema({"at": pa.int64(), "n": pa.int64()}))
    [unparsed, undated] = source.decode(next(source.read(f"a.{kind}", 0, None))).bad
    letter = source.dead_letter("rows", f"a.{kind}", 0, unparsed)
    assert letter.element == content.splitlines()[1 if kind == "csv" else 0]
    assert letter.reason == f"a.{kind}, line {1 + (kind == 'csv')}: column 'n' is int64 and cannot hold 'x'"
    assert source.dead_letter("rows", f"a.{kind}", 0, undated).element == {"at": None, "n": 2}
    error = source.refusal("rows", f"a.{kind}", 0, unparsed)
    assert f"cannot hold 'x'; the row is {letter.element!r}\nHint: fix the row, or send" in str(error)


def test_a_long_row_is_cut_short_in_the_error_but_whole_in_its_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"at,n\n{'c' * 3000},1\n")
    source = CsvSource(paths=tmp_path, event_time="at", given=pa.schema({"at": pa.int64(), "n": pa.int64()}))
    [bad] = source.decode(next(source.read("a.csv", 0, None))).bad
    assert source.dead_letter("rows", "a.csv", 0, bad).element == "c" * 3000 + ",1"
    assert len(str(source.refusal("rows", "a.csv", 0, bad))) < 700


def test_the_hint_for_a_row_of_a_stream_does_not_suggest_to_edit_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,n\n1,x\n")
    schema = pa.schema({"at": pa.int64(), "n": pa.int64()})
    source = CsvSource(paths=tmp_path, event_time="at", given=schema, follow=True)
    [bad] = source.decode(next(source.read("a.csv", 0, None))).bad
    hint = str(source.refusal("rows", "a.csv", 0, bad)).partition("Hint: ")[2]
    assert "fix the row" not in hint
    assert hint.startswith(
        "send such rows to a separate output with .with_exception_handling() and start the run again"
    )
    assert "do not edit a file that has been read in part" in hint


def test_a_corrupt_parquet_file_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "n": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("this is no Parquet")
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    with pytest.raises(SourceError, match=r"b\.parquet is not a readable Parquet file: .*\nHint: rewrite or remove"):
        source.origins()
    with pytest.raises(SourceError, match=r"b\.parquet is not a readable Parquet file"):
        list(source.read("b.parquet", 0, None))


def test_a_parquet_file_whose_name_is_not_utf_8_is_refused_with_a_hint_to_rename_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "n": [1]}), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9.parquet"))
    with pytest.raises(SourceError, match=r"names are UTF-8, got b'.*/\\xe9\.parquet'\nHint: rename the file"):
        ParquetSource(paths=tmp_path, event_time="at").bound()


def test_damage_inside_a_parquet_file_is_a_source_error(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": np.arange(50_000), "n": np.arange(50_000)}), file, write_page_checksum=True)
    content = bytearray(file.read_bytes())
    content[60:4000] = bytes(3940)
    file.write_bytes(content)
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read at row 0 or after"):
        list(source.read("a.parquet", 0, None))


def test_a_file_with_other_columns_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"at": [1], "n": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(
        SourceError, match=r"b\.parquet does not have the expected schema: column 'n' is string, not int64"
    ):
        ParquetSource(paths=tmp_path, event_time="at").bound().origins()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "b.parquet")
    with pytest.raises(
        SourceError, match=r"b\.parquet does not have the expected schema: .* no column 'at'; its columns are n"
    ):
        ParquetSource(paths=tmp_path, event_time="at").bound().origins()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.csv").write_text("at,n\n1,1\n")
    (tmp_path / "c" / "b.csv").write_text("at,m\n1,1\n")
    with pytest.raises(SourceError, match=r"b\.csv must have the columns at, n, got at, m"):
        CsvSource(paths=tmp_path / "c", event_time="at").bound().origins()


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,n,n\n1,1,2\n")
    with pytest.raises(InvalidArgument, match="there are 2 columns named 'n'; the columns are at, n, n"):
        CsvSource(paths=tmp_path, event_time="at").bound()


def test_a_replay_clock_that_goes_back_is_an_error_with_row_and_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,seen\n1,10\n1,20\n1,15\n1,30\n")
    source = CsvSource(paths=tmp_path, event_time="at", processing_time="seen").bound()
    with pytest.raises(
        SourceError, match=r"a\.csv is not sorted .* column 'seen' goes backward from 20 to 15 at line 4"
    ):
        list(source.read("a.csv", 0, None))
    with pytest.raises(SourceError, match=r"goes backward from .* to 15 at line 4\n"):
        list(source.read("a.csv", 2, None))
    assert list(source.read("a.csv", 0, 2))
    assert list(source.read("a.csv", 3, None))


def test_a_row_without_processing_time_is_bad_and_gets_that_of_the_row_before_it() -> None:
    batch = pa.record_batch({"at": [1, 2, 3], "seen": [10, None, 30]})
    actual = decode_columns(split_columns(batch, "at", "seen"))
    assert [row.at for row in actual.values] == [1, 3]
    assert actual.clock is not None
    assert actual.clock.tolist() == [10, 30]
    assert actual.positions.tolist() == [0, 2]
    assert actual.bad[0].processing_time == 10
    assert actual.bad[0].reason == "column 'seen' is null: the row has no processing time"


def test_event_times_may_be_timestamps_of_any_unit_and_zone_numbers_or_text() -> None:
    moment = dt.datetime(2013, 1, 1, 10, 15, tzinfo=dt.UTC)
    micros = int(moment.timestamp()) * 1_000_000
    columns = [
        *(pa.array([moment], pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")),
        pa.array([moment], pa.timestamp("us", "America/New_York")),
        pa.array([moment.replace(tzinfo=None)], pa.timestamp("ms")),
        pa.array([micros], pa.int64()),
        pa.array(["2013-01-01T10:15:00Z"]),
        pa.array(["2013-01-01T05:15:00-05:00"]).dictionary_encode(),
        pa.array(["2013-01-01 10:15"], pa.large_string()),
    ]
    for column in columns:
        times, known = instants(column)
        assert times.tolist() == [micros], column.type
        assert known is None
    mixed, known = instants(pa.array(["2013-01-01T10:15Z", "2013-01-01T10:15", "never", None]))
    assert mixed.tolist() == [micros, micros, 0, 0]
    assert known is not None
    assert known.tolist() == [True, True, False, False]
    assert instants(pa.array([1.5]))[1] == np.array([False])
    far, known = instants(pa.array([2**62], pa.timestamp("s")))
    assert known is not None
    assert (far.tolist(), known.tolist()) == ([0], [False])


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.csv.{suffix}").write_bytes(b"neither compressed nor text")
    with pytest.raises(SourceError, match=rf"a\.csv\.{suffix} cannot be decompressed: .*\nHint: replace the file"):
        CsvSource(paths=tmp_path, event_time="at").bound()


def test_an_unsupported_compression_is_refused_with_the_supported_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv.xz").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"a\.csv\.xz is compressed in a format .*\nHint: .*\.gz, \.bz2, \.zst"):
        CsvSource(paths=tmp_path, event_time="at").bound()


@pytest.mark.parametrize("blank", ["", "\n", "   \n"])
def test_a_line_with_two_objects_is_bad_however_many_lines_have_none(tmp_path: Path, blank: str) -> None:
    text = f'{{"at": 1}}{{"at": 2}}\n{blank}{{"at": 3}} \n{{"at":\n4}}\n{{"at": 5}}\r\n'
    (tmp_path / "rows.json").write_text(text)
    with dm.Pipeline() as p:
        good, bad = p | dm.io.ReadJson(tmp_path / "rows.json", event_time="at").with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value.at for record in p.result.collected("good")] == [3, 5]
    assert len(p.result.collected("bad")) == 3 + blank.startswith(" ")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"at": "2024-01-01T10:00Z", "k": "a", "v": 1, "v": 2}', "it has 'v' more than once"),
        ('{"at": "2024-01-01T10:00Z", "k": {"x": 1}, "v": 1}', "column 'k' is string and cannot hold {'x': 1}"),
        (r'{"at": "2024-01-01T10:00Z", "k": "\ud800", "v": 1}', "'k' has half of a surrogate pair, which is no"),
        (r'{"at": "2024-01-01T10:00Z", "k": "a", "v": 1, "other": ["\ud800"]}', "'other' has half of a surrogate pair"),
    ],
)
def test_the_reason_of_a_bad_line_of_json_names_the_column_at_fault(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"at": "2024-01-01T10:00Z", "k": "a", "v": 1}\n' + line + "\n")
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.int64()})
    read = dm.io.ReadJson(tmp_path / "a.json", event_time="at", schema=schema).with_exception_handling()
    with dm.Pipeline() as p:
        good, bad = p | read
        _ = good | "good" >> dm.io.Collect(), bad | "bad" >> dm.io.Collect()
    assert len(p.result.collected("good")) == 1
    assert [record.value.reason.partition("line 2: ")[2][: len(reason)] for record in p.result.collected("bad")] == [
        reason
    ]


@pytest.mark.parametrize("columns", [["__bad__", "n"], ["n", "__bad__"]])
@pytest.mark.parametrize("bad", [[], ["7,x"]])
def test_a_column_may_have_the_name_of_the_internal_column_of_bad_rows(
    columns: list[str], bad: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("\n".join([",".join(columns), "1,2", *bad, "3,4", ""]))
    schema = pa.schema(dict.fromkeys(columns, pa.int64()))
    with dm.Pipeline() as p:
        rows, letters = (
            p | dm.io.ReadCsv(tmp_path / "a.csv", event_time=None, header=True, schema=schema).with_exception_handling()
        )
        _ = rows | "rows" >> Collect()
        _ = letters | "letters" >> Collect()
    assert [record.value for record in p.result.collected("rows")] == [(1, 2), (3, 4)]
    assert [record.value.element for record in p.result.collected("letters")] == bad
