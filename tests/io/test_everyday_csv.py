"""CSV files as people have them: what is read, what is a bad row, and what is refused with a way out."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SourceError
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, content: str | bytes | None = None, **options: Any) -> tuple[list[Any], list[str]]:
    """Return the rows, and the reasons of the bad ones."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    options.setdefault("event_time", "at")
    with dm.Pipeline() as p:
        good, bad = p | dm.io.ReadCsv(path, **options).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    letters = [record.value for record in p.result.collected("bad")]
    return [record.value for record in p.result.collected("good")], [letter.reason for letter in letters]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def test_a_file_with_semicolons_and_decimal_commas_is_read(file: Path) -> None:
    rows, bad = read(file, "at;price\n1;1,5\n2;-2,25\n", delimiter=";", decimal_point=",")
    assert rows == [(1, 1.5), (2, -2.25)]
    assert not bad


def test_values_in_quotes_hold_delimiters_line_breaks_and_quotes(file: Path) -> None:
    rows, bad = read(file, 'at,note\n1,"two\nlines, and a ""word"""\n2,"a\r\nb"\n3,5" disk\n')
    assert [row.note for row in rows] == ['two\nlines, and a "word"', "a\r\nb", '5" disk']
    assert not bad


def test_a_quote_that_is_not_closed_is_a_bad_row_and_the_rest_is_read(file: Path) -> None:
    rows, bad = read(file, 'at,note\n1,a\n2,"open\n3,"c"\n4,d\n')
    assert [row.at for row in rows] == [1, 3, 4]
    assert bad == ["rows.csv, line 3: a quote is not closed"]


def test_quotes_are_ordinary_text_if_quoting_is_disabled(file: Path) -> None:
    rows, _ = read(file, 'at|note\n1|"a\n2|b"\n', delimiter="|", quote=None)
    assert [row.note for row in rows] == ['"a', 'b"']


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_unix_windows_and_old_macs_are_recognised(file: Path, end: str) -> None:
    rows, bad = read(file, end.join(["at,n", "1,10", "", "2,20"]))
    assert rows == [(1, 10), (2, 20)]
    assert not bad


def test_a_byte_order_mark_does_not_become_part_of_the_first_name_or_value(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", b"\xef\xbb\xbfat,n\n1,10\n")[0] == [(1, 10)]
    assert read(tmp_path / "b.csv", b"\xef\xbb\xbf1,10\n", columns=["at", "n"])[0] == [(1, 10)]


def test_a_byte_order_mark_inside_a_file_is_text_wherever_reading_begins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffann,1\nbob,2\n\ufeffann,3\n\ufeffeve,4\n")
    source = CsvSource(paths=tmp_path, event_time=None, options=CsvOptions(names=["name", "n"])).bound()
    expected = [("ann", 1), ("bob", 2), ("\ufeffann", 3), ("\ufeffeve", 4)]
    for step in (1, 2, 3, 4):
        batches = [batch for start in range(0, 4, step) for batch in source.read("a.csv", start, min(start + step, 4))]
        assert [row for batch in batches for row in source.decode(batch).values] == expected


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis"])
def test_a_file_in_a_given_encoding_is_read(file: Path, encoding: str) -> None:
    city = "東京" if encoding == "shift_jis" else "Zürich"
    rows, bad = read(file, f'at,city\n1,"{city}\n,"\n'.encode(encoding), encoding=encoding)
    assert rows == [(1, f"{city}\n,")]
    assert not bad


def test_a_row_with_text_that_is_not_in_the_encoding_is_a_bad_row_with_that_reason(file: Path) -> None:
    rows, [reason] = read(file, "at,city\n1,Bern\n2,Zürich\n".encode("latin-1"))
    assert rows == [(1, "Bern")]
    assert "column 'city' holds b'Z\\xfcrich', which is not UTF-8; pass encoding='cp1252'" in reason
    rows, [reason] = read(file.with_name("b.csv"), b"at,city\n1,Bern\n2,\x81\n", encoding="cp1252")
    assert rows == [(1, "Bern")]


def test_a_header_in_another_encoding_is_refused_with_the_way_out(file: Path) -> None:
    file.write_bytes("at,Straße\n1,x\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"rows\.csv is not in UTF-8: .*\nHint: pass the file's encoding"):
        dm.io.ReadCsv(file, event_time="at")


def test_rows_with_too_few_and_too_many_values_are_bad_rows(file: Path) -> None:
    rows, bad = read(file, "at,n\n1,10\n2\n3,30,x\n4,40,\n5,50\n")
    assert rows == [(1, 10), (5, 50)]
    assert [reason.partition(": ")[2] for reason in bad] == [
        "it has 1 value, but there are 2 columns",
        "it has 3 values, but there are 2 columns",
        "it has 3 values, but there are 2 columns",
    ]


def test_a_value_of_another_type_is_named_with_its_column(file: Path) -> None:
    rows, [reason] = read(file, "at,n\n1,10\nx,20\n", schema=pa.schema({"at": pa.int64(), "n": pa.int64()}))
    assert rows == [(1, 10)]
    assert reason == "rows.csv, line 3: column 'at' is int64 and cannot hold 'x'"


def test_a_delimiter_at_the_end_of_each_line_makes_a_column_without_a_name(file: Path) -> None:
    rows, bad = read(file, "at,n,\n1,10,\n2,20,x\n", rename={"": "rest"})
    assert [(row.at, row.n, row.rest) for row in rows] == [(1, 10, ""), (2, 20, "x")]
    assert not bad


def test_two_columns_of_one_name_are_refused_and_can_be_renamed(file: Path) -> None:
    file.write_text("at,n,n\n1,10,20\n")
    with pytest.raises(InvalidArgument, match=r"there are 2 columns named 'n'.*\nHint: .*columns=\[…\], header=True"):
        dm.io.ReadCsv(file, event_time="at")
    assert read(file, columns=["at", "n", "m"], header=True)[0] == [(1, 10, 20)]


def test_files_without_a_header_are_read_with_the_given_names(file: Path) -> None:
    rows, _ = read(file, "1,10\n2,20\n", columns=["at", "n"])
    assert [(row.at, row.n) for row in rows] == [(1, 10), (2, 20)]


def test_column_names_that_do_not_match_the_rows_are_refused(file: Path) -> None:
    file.write_text("1,10,x\n2,20,y\n")
    with pytest.raises(SourceError, match=r"rows\.csv cannot be inferred: its first row has 3 values, .* 2 columns"):
        dm.io.ReadCsv(file, event_time="at", columns=["at", "n"])


def test_columns_are_renamed_and_any_name_can_be_read(file: Path) -> None:
    rows, _ = read(file, "user-id,Time of visit,class\nann,1,A\n", rename={"Time of visit": "at"})
    assert [(row["user-id"], row.at, row["class"]) for row in rows] == [("ann", 1, "A")]


def test_renaming_a_column_that_does_not_exist_is_refused(file: Path) -> None:
    file.write_text("at,n\n1,2\n")
    with pytest.raises(InvalidArgument, match=r"`rename` names the column 'when', .*\nHint: the columns are at, n"):
        dm.io.ReadCsv(file, event_time="at", rename={"when": "x"})


def test_the_given_words_and_the_empty_value_are_null_but_never_in_quotes(file: Path) -> None:
    content = 'at,n,text\n1,10,-\n2,-,"-"\n3,,\n4,40,NA\n'
    rows, _ = read(file, content, null_values=["-"])
    assert [row[1:] for row in rows] == [(10, None), (None, "-"), (None, None), (40, "NA")]
    rows, _ = read(file.with_name("b.csv"), "at,n,text\n1,10,NA\n2,NA,\n")
    assert [row[1:] for row in rows] == [(10, "NA"), (None, "")]


def test_the_documentation_lists_all_words_that_are_null_by_default(file: Path) -> None:
    page = (REPOSITORY / "docs" / "io.md").read_text(encoding="utf-8")
    _, _, text = page.partition("these words are null in columns that are not text: ")
    words = re.findall(r"`([^`]+)`", text.partition(", the last four also with a minus")[0])
    words += [f"-{word}" for word in words[-4:]]
    rows, reasons = read(file, "at,n\n" + "".join(f"{at},{word}\n" for at, word in enumerate(["1", *words])))
    assert ([row.n for row in rows[1:]], reasons) == ([None] * len(words), [])
    assert {*words, ""} == set(pa_csv.ConvertOptions().null_values)


def test_timestamps_of_other_forms_and_of_iso_8601_are_local_times_of_the_zone(file: Path) -> None:
    content = "at,n\n01.07.2013 12:00,1\n2013-01-01T12:00:00,2\n"
    options: dict[str, Any] = {"timestamp_formats": ["%d.%m.%Y %H:%M"]}
    rows, _ = read(file, content, zone="Europe/Berlin", **options)
    assert [row.at for row in rows] == [
        dt.datetime(2013, 7, 1, 10, tzinfo=dt.UTC),
        dt.datetime(2013, 1, 1, 11, tzinfo=dt.UTC),
    ]
    rows, _ = read(file, content, **options)
    assert [row.at for row in rows] == [dt.datetime(2013, 7, 1, 12), dt.datetime(2013, 1, 1, 12)]  # noqa: DTZ001


def test_a_given_schema_has_the_same_zone_and_timestamps_with_an_offset_keep_it(file: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("us"), "seen": pa.timestamp("us", "UTC")})
    rows, _ = read(file, "at,seen\n2013-07-01T12:00,2013-07-01T12:00+05:00\n", zone="Europe/Berlin", schema=schema)
    assert rows == [(dt.datetime(2013, 7, 1, 10, tzinfo=dt.UTC), dt.datetime(2013, 7, 1, 7, tzinfo=dt.UTC))]


def test_a_value_that_is_not_an_instant_does_not_change_how_other_values_are_read(file: Path) -> None:
    content = "at\n2013-07-01 12:00\nunknown\n2013-07-02T12:00+05:00\n2013-07-03\n"
    rows, [reason] = read(file, content, zone="Europe/Berlin")
    instants = [dt.datetime(2013, 7, 1, 10), dt.datetime(2013, 7, 2, 7), dt.datetime(2013, 7, 2, 22)]  # noqa: DTZ001
    assert [row.at for row in rows] == [instant.replace(tzinfo=dt.UTC) for instant in instants]
    assert reason.endswith("column 'at' is timestamp[us, tz=UTC] and cannot hold 'unknown'")
    rows, [reason] = read(file, "at\n01.07.2013\n1.7.\n", timestamp_formats=["%d.%m.%Y"])
    assert rows == [(dt.datetime(2013, 7, 1),)]  # noqa: DTZ001
    assert reason.endswith("cannot hold '1.7.'")


def test_a_time_in_an_unknown_form_is_refused_with_the_argument_that_describes_it(file: Path) -> None:
    file.write_text("at\n01.07.2013\n")
    with (
        pytest.raises(
            SourceError, match=r"holds '01\.07\.2013', which is not an instant.*\nHint: pass timestamp_formats="
        ),
        dm.Pipeline() as p,
    ):
        _ = p | dm.io.ReadCsv(file, event_time="at") | dm.io.Collect()


def test_a_file_with_an_unexpected_delimiter_is_refused_with_the_delimiter_that_it_has(file: Path) -> None:
    file.write_text("at;n\n1;2\n")
    with pytest.raises(InvalidArgument, match=r"single column, 'at;n', when ',' separates.*\nHint: pass delimiter=';'"):
        dm.io.ReadCsv(file, event_time="at")


def test_a_compressed_file_without_a_suffix_is_refused_with_the_suffix_that_it_needs(file: Path) -> None:
    file.write_bytes(gzip.compress(b"at\n1\n"))
    with pytest.raises(SourceError, match=r"is not in UTF-8.*\nHint: the file seems to be compressed; .* ends in \.gz"):
        dm.io.ReadCsv(file, event_time="at")


def test_dates_become_midnight_in_the_zone(file: Path) -> None:
    rows, _ = read(file, "at\n2013-07-01\n", zone="Europe/Berlin")
    assert rows == [(dt.datetime(2013, 6, 30, 22, tzinfo=dt.UTC),)]


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (pa.string(), "zone", "Europe/Berlin"),
        (pa.date32(), "zone", "Europe/Berlin"),
        (pa.string(), "timestamp_formats", ["%d.%m.%Y"]),
        (pa.date32(), "timestamp_formats", ["%d.%m.%Y"]),
        (pa.int64(), "timestamp_formats", ["%Y%m%d"]),
    ],
)
def test_a_schema_to_which_the_options_for_times_do_not_apply_is_refused(
    file: Path, kind: pa.DataType, option: str, value: Any
) -> None:
    message = (
        rf"`{option}` does not apply to the time column 'at', which is .* in `schema`\nHint: declare it as an instant"
    )
    with pytest.raises(InvalidArgument, match=message):
        dm.io.ReadCsv(file, event_time="at", schema=pa.schema({"at": kind}), **{option: value})


def test_local_times_of_a_zone_can_be_event_times_and_a_replay_clock(file: Path) -> None:
    file.write_text("seen,at,n\n2013-07-01T12:00,2013-07-01T11:00,1\n2013-07-01T12:01,2013-07-01T11:30,2\n")
    with dm.Pipeline() as p:
        rows = p | dm.io.ReadCsv(file, event_time="at", processing_time="seen", zone="Europe/Berlin")
        hours = rows | dm.Map(lambda row: (0, row.n)) | dm.Window.into(dm.FixedWindows("1 hour"))
        _ = hours | dm.Sum.per_key() | "sums" >> dm.io.Collect()
    assert p.result is not None
    [record] = p.result.collected("sums")
    assert record.value == (0, 3)
    assert record.window.start == dm.event_time("2013-07-01T09:00Z")


def test_an_empty_file_and_one_with_only_a_header_have_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("at,n\n")
    with pytest.raises(
        SourceError, match=r"a\.csv has no rows, so the types of its columns are not known\nHint: pass schema="
    ):
        dm.io.ReadCsv(tmp_path, event_time="at")
    (tmp_path / "c.csv").write_text("at,n\n1,10\n")
    assert read(tmp_path)[0] == [(1, 10)]


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2"])
def test_compressed_and_uncompressed_files_are_read_together(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "a.csv").write_text("at,n\n1,10\n")
    with pa.CompressedOutputStream(
        str(tmp_path / f"b.csv{suffix}"), {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[suffix]
    ) as out:
        out.write(b"at,n\n2,20\n")
    assert read(tmp_path)[0] == [(1, 10), (2, 20)]


def test_compressed_json_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"at": 1}\n') + gzip.compress(b'{"at": 2}\n'))
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadJson(tmp_path, event_time="at") | "rows" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value.at for record in p.result.collected("rows")] == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": "::"}, "`delimiter` must be one ASCII character and no line break, got '::'"),
        ({"delimiter": "§"}, "`delimiter` must be one ASCII character"),
        ({"quote": "\n"}, "`quote` must be one ASCII character"),
        ({"decimal_point": ","}, r"must differ, got ',', ',', '\"'\nHint: .*delimiter=';'"),
        ({"columns": ["a"], "rename": {"a": "b"}}, "`rename` has nothing to rename"),
        ({"columns": []}, "`columns` must name at least one column"),
        ({"header": False}, r"need names for their columns, got header=False\nHint: pass columns"),
        ({"zone": "Europe/Bonn"}, "`zone` must be the name of a time zone, got 'Europe/Bonn'"),
        ({"ambiguous": "later"}, "`ambiguous` says what .* got ambiguous='later' and no zone\nHint: pass zone="),
        ({"nonexistent": "later"}, "`nonexistent` says what .* got nonexistent='later' and no zone\nHint: pass zone="),
        ({"zone": "Europe/Berlin", "ambiguous": [True]}, r"`ambiguous` must be 'bad row', .* got \[True\]"),
        ({"zone": "Europe/Berlin", "nonexistent": "shift_forward"}, "`nonexistent` must be 'bad row', 'earlier' or"),
        ({"encoding": "utf-9"}, "`encoding` must be one that Python knows, got 'utf-9'"),
        ({"encoding": "base64"}, "`encoding` must be one that Python knows, got 'base64'"),
        ({"timestamp_formats": ["%H:%M:%S"]}, "must say the year"),
        ({"timestamp_formats": ["dd.mm.yyyy"]}, "takes formats as of strptime, got 'dd.mm.yyyy'"),
    ],
)
def test_options_that_make_no_sense_are_refused(file: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        dm.io.ReadCsv(file, event_time="at", **options)


def test_text_in_place_of_a_list_is_refused(file: Path) -> None:
    with pytest.raises(InvalidType, match=r"take lists of texts, got 'NA'\nHint: write \['NA'\]"):
        dm.io.ReadCsv(file, event_time="at", null_values="NA")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.decimal32(5, 2), "1.5", decimal.Decimal("1.50")),
        (pa.decimal64(10, 2), "1.5", decimal.Decimal("1.50")),
        (pa.decimal256(40, 2), "1.5", decimal.Decimal("1.50")),
        (pa.dictionary(pa.int8(), pa.string()), "UA", "UA"),
        (pa.dictionary(pa.int8(), pa.int64()), "3", 3),
        (pa.string_view(), "UA", "UA"),
        (pa.float16(), "1.5", 1.5),
        (pa.duration("s"), "90", dt.timedelta(seconds=90)),
    ],
)
def test_columns_that_arrow_does_not_read_from_csv_are_read(
    file: Path, kind: pa.DataType, text: str, value: Any
) -> None:
    columns = pa.schema({"at": pa.int64(), "v": kind})
    assert read(file, f"at,v\n1,{text}\n", schema=columns) == ([(1, value)], [])


@pytest.mark.parametrize(
    "kind", [pa.float16(), pa.float64(), pa.decimal32(5, 2), pa.decimal256(40, 2), pa.duration("ms")]
)
def test_a_decimal_comma_holds_for_every_type_of_number(file: Path, kind: pa.DataType) -> None:
    columns = pa.schema({"at": pa.int64(), "v": kind})
    rows, bad = read(file, "at;v\n1;1,5\n2;1.5\n3;1_0\n", delimiter=";", decimal_point=",", schema=columns)
    assert [row.at for row in rows] == [1]
    assert rows[0].v in {1.5, dt.timedelta(seconds=1.5)}
    assert len(bad) == 2


def test_calendar_intervals_are_rejected_as_types_of_columns(file: Path) -> None:
    columns = pa.schema({"at": pa.int64(), "v": pa.month_day_nano_interval()})
    with pytest.raises(InvalidArgument, match=r"column 'v' has type month_day_nano.*in CSV files\nHint: use"):
        read(file, "at,v\n1,2\n", schema=columns)


def test_a_header_ends_only_at_the_line_breaks_of_csv(file: Path) -> None:
    rows, _ = read(file, "at,a\x0bb,c\u2028d\n1,2,3\n")
    assert rows[0]._asdict() == {"at": 1, "a\x0bb": 2, "c\u2028d": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rename": ["a"]}, r"`rename` must have texts .*\['a'\]\nHint: use"),
        ({"rename": 5}, "`rename` must have texts .* got 5"),
        ({"null_values": 5}, r"`columns`, `null_values` .* got 5\nHint: write \['NA'"),
        ({"timestamp_formats": 5}, "take lists of texts, got 5"),
        ({"header": "x"}, r"`header` must be true or false, got 'x'\nHint: use header=False"),
        ({"header": 2}, "`header` must be true or false, got 2"),
    ],
)
def test_options_of_another_type_are_refused(file: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidType, match=message):
        read(file, "at\n1\n", **options)
