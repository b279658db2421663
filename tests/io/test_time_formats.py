"""Formats of times: what Python's `strptime` reads is read as Python reads it, and nothing else is."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.text.time_formats import TimeFormat, times_of

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - formats without an offset
FORMATS = [
    "%d/%m/%Y",
    "%d.%m.%y %H:%M",
    "%Y%m%d",
    "%Y%m%d%H%M%S",
    "%Y",
    "%d%m%Y",
    "%Y-%j",
    "%m/%d/%Y %I:%M:%S %p",
    "%I%p %d-%b-%Y",
    "%a, %d %B %Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%A %Y年%m月%d日%%",
    "%d.%m.%Y  %H:%M",
]


def by_python(text: str, form: str) -> dt.datetime | None:
    try:
        time = dt.datetime.strptime(text, form)  # noqa: DTZ007 - as the format says
    except ValueError:
        return None
    return time if time.tzinfo is None else time.astimezone(dt.UTC).replace(tzinfo=None)


def read_all(texts: list[str | None], form: str) -> list[dt.datetime | None]:
    good, micros = TimeFormat(form).read(pa.array(texts, pa.string()))
    times = iter(micros.tolist())
    return [EPOCH + dt.timedelta(microseconds=next(times)) if is_read else None for is_read in good]


@st.composite
def written_times(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a format, and times in it of which some are changed."""
    form = draw(st.sampled_from(FORMATS))
    texts = []
    for moment in draw(st.lists(st.datetimes(dt.datetime(1000, 1, 1), timezones=st.just(dt.UTC)), max_size=4)):  # noqa: DTZ001
        text = moment.strftime(form)
        match draw(st.sampled_from(["as it is", "without zeros", "replaced", "inserted", "upper case", "cut off"])):
            case "without zeros":
                text = text.replace("0", "", draw(st.integers(1, 3)))
            case "replaced" | "inserted" as change:
                index = draw(st.integers(0, len(text) - 1))
                new = draw(st.sampled_from("0123456789 :/.-APz"))
                text = text[:index] + new + text[index + (change == "replaced") :]
            case "upper case":
                text = text.upper()
            case "cut off":
                text = text[:-1]
        texts.append(text)
    return form, texts


@given(written_times())
@example(("%d/%m/%Y", ["31/02/2024", "29/02/2023", "31/04/2024", "29/02/2024", "1/2/2024", " 1/2/2024", "01/02/24"]))
@example(("%Y%m%d%H%M%S", ["20240102235960", "20240102235961", "20240102240000", "20240102030405"]))
@example(("%d%m%Y", ["122024", "1122024", "40012024"]))
@example(("%I%p %d-%b-%Y", ["12am 01-feb-2024", "13PM 01-Feb-2024", "0AM 01-Feb-2024"]))
@example(("%Y", ["2024", "0000", "24"]))
def test_a_time_in_a_format_is_read_like_python_reads_it(case: tuple[str, list[str]]) -> None:
    form, texts = case
    expected = [by_python(text, form) for text in texts]
    if "%j" in form:  # Python takes day 366 of other years for the first of the next
        expected = [
            None if time is not None and f"{time.year:04}" not in text else time
            for text, time in zip(texts, expected, strict=True)
        ]
    assert read_all([*texts, None], form) == [*expected, None]
    assert [read_all([text], form)[0] for text in texts] == expected


def test_an_offset_may_lack_its_minutes_and_gives_the_time_in_utc() -> None:
    texts = ["01.07.2013 12:00 +0530", "01.07.2013 12:00 -03:30", "01.07.2013 12:00 +05", "01.07.2013 12:00 Z"]
    times = read_all([*texts, "01.07.2013 12:00 EST", "01.07.2013 12:00"], "%d.%m.%Y %H:%M %z")
    assert [time and time.isoformat()[11:16] for time in times] == ["06:30", "15:30", "07:00", "12:00", None, None]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("%Y-%m-%d %Z", "cannot have %Z, got .*\nHint: pass zone=, or write %z"),
        ("%G-W%V-%u", "cannot have %G, got .*\nHint: the directives are %Y, %y, .* read the column as text by schema="),
        ("%s", "cannot have %s"),
        ("%d.%m.%Y %", "cannot have %, got"),
        ("%H:%M", r"must say the year \(%Y or %y\), got '%H:%M'"),
        ("%m %B %Y", "can say the month once, got %m and %B in '%m %B %Y'"),
        ("%Y-%j %d", r"can say the day of the year \(%j\) or month and day"),
        ("dd.mm.yyyy", "takes formats as of strptime, got 'dd.mm.yyyy'"),
        ("100%%", "takes formats as of strptime, got '100%%'"),
    ],
)
def test_a_format_that_cannot_be_read_reliably_is_refused(form: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"`timestamp_formats` {problem}"):
        TimeFormat(form)


def test_a_column_keeps_its_unit_and_refuses_what_it_cannot_hold() -> None:
    forms = [TimeFormat("%d.%m.%Y %H:%M:%S.%f")]
    texts = pa.array(["01.07.2013 12:00:00.5", "2013-07-01T12:00:00.123456789", None])
    times, _ = times_of(texts, pa.timestamp("ns", "UTC"), forms, None)
    assert times.cast(pa.int64()).to_pylist() == [1372680000_500000000, 1372680000_123456789, None]
    with pytest.raises(pa.ArrowInvalid, match="would lose data"):
        times_of(texts, pa.timestamp("s"), forms, None)


# In files.


def read(path: Path, content: str, **options: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Return the rows, their event times, and the reasons of the bad rows."""
    path.write_text(content)
    with dm.Pipeline() as p:
        good, bad = p | dm.io.ReadCsv(path, event_time="at", **options).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    rows = p.result.collected("good")
    reasons = [record.value.reason for record in p.result.collected("bad")]
    return [record.value for record in rows], [str(record.event_time) for record in rows], reasons


def test_a_day_that_does_not_exist_is_a_bad_row(tmp_path: Path) -> None:
    content = "at,v\n29/02/2024,1\n31/02/2024,2\n29/02/2023,3\n"
    rows, _, reasons = read(tmp_path / "a.csv", content, timestamp_formats=["%d/%m/%Y"])
    assert [row.v for row in rows] == [1]
    assert reasons == [
        f"a.csv, line {place + 2}: column 'at' is timestamp[us] and cannot hold '{text}'"
        for place, text in ((1, "31/02/2024"), (2, "29/02/2023"))
    ]


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("20240102", "%Y%m%d", "2024-01-02T00:00:00Z"),
        ("010224", "%d%m%y", "2024-02-01T00:00:00Z"),
        ("2024", "%Y", "2024-01-01T00:00:00Z"),
        ("2024.02", "%Y.%m", "2024-02-01T00:00:00Z"),
        ("2024-02-01", "%d.%m.%Y", "2024-02-01T00:00:00Z"),
    ],
)
def test_a_time_column_that_looks_like_another_type_is_read_by_its_format(
    tmp_path: Path, text: str, form: str, expected: str
) -> None:
    [row], times, _ = read(tmp_path / "a.csv", f"at,id\n{text},20240102\n", timestamp_formats=[form])
    assert times == [f"EventTime({expected})"]
    assert isinstance(row.at, dt.datetime)
    assert row.id == 20240102


def test_numbers_remain_microseconds_if_no_format_is_numeric(tmp_path: Path) -> None:
    content = "at,seen\n5,01.01.2024\n"
    rows, times, _ = read(tmp_path / "a.csv", content, timestamp_formats=["%d.%m.%Y"])
    assert rows == [(5, dt.datetime(2024, 1, 1))]  # noqa: DTZ001
    assert times == ["EventTime(1970-01-01T00:00:00.000005Z)"]
    schema = pa.schema({"at": pa.int64(), "seen": pa.timestamp("us")})
    assert read(tmp_path / "a.csv", content, timestamp_formats=["%d.%m.%Y"], schema=schema)[0] == rows
    with pytest.raises(InvalidArgument, match=r"`timestamp_formats` does not apply to the time column 'at', .* int64"):
        dm.io.ReadCsv(tmp_path / "a.csv", event_time="at", timestamp_formats=["%Y%m%d"], schema=schema)


def test_iso_times_with_and_without_an_offset_are_read_besides_a_format(tmp_path: Path) -> None:
    content = "at\n01.07.2013\n2013-07-02\n2013-07-01T12:00+05:00\n2013-07-01T12:00:00.5Z\n2013-07-01 12:00\n"
    rows, times, bad = read(tmp_path / "a.csv", content, timestamp_formats=["%d.%m.%Y"])
    expected = ["01T00:00:00", "02T00:00:00", "01T07:00:00", "01T12:00:00.500000", "01T12:00:00"]
    assert [row.at.isoformat() for row in rows] == [f"2013-07-{rest}" for rest in expected]
    assert times == [f"EventTime(2013-07-{rest}Z)" for rest in expected]
    assert not bad


def test_a_format_with_an_offset_gives_instants_whatever_the_zone(tmp_path: Path) -> None:
    content = "at\n01.07.2013 12:00 +0500\n2013-07-01T12:00+05:00\n"
    for options in ({}, {"zone": "Europe/Berlin"}):
        rows, _, bad = read(tmp_path / "a.csv", content, timestamp_formats=["%d.%m.%Y %H:%M %z"], **options)
        assert [row.at for row in rows] == [dt.datetime(2013, 7, 1, 7, tzinfo=dt.UTC)] * 2
        assert not bad


def test_other_columns_are_inferred_as_times_if_all_their_values_are_times(tmp_path: Path) -> None:
    content = "at,seen,note,empty\n01.07.2013,02.07.2013,03.07.2013,\n04.07.2013,,soon,\n"
    [row, _], _, bad = read(tmp_path / "a.csv", content, timestamp_formats=["%d.%m.%Y"])
    assert (row.seen, row.note, row.empty) == (dt.datetime(2013, 7, 2), "03.07.2013", "")  # noqa: DTZ001
    assert not bad


def test_words_for_null_are_null_in_columns_of_times_but_not_in_quotes(tmp_path: Path) -> None:
    content = 'at,seen\n01.07.2013,-\n02.07.2013,""\n03.07.2013,"-"\n04.07.2013,\n'
    options: dict[str, Any] = {"timestamp_formats": ["%d.%m.%Y"], "zone": "Europe/Berlin"}
    schema = pa.schema({"at": pa.timestamp("us"), "seen": pa.timestamp("us")})
    rows, _, bad = read(tmp_path / "a.csv", content, null_values=["-"], schema=schema, **options)
    assert [row.seen for row in rows] == [None, None]
    assert len(bad) == 2
    rows, _, bad = read(tmp_path / "a.csv", content.replace("-", "NA"), schema=schema, **options)
    assert [row.seen for row in rows] == [None] * 4
    assert not bad


def test_the_error_for_a_format_that_does_not_fit_names_column_and_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\n2024-13-01\n")
    with (
        pytest.raises(SourceError, match=r"'at' is timestamp\[us\] and cannot hold '2024-13-01'"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.io.ReadCsv(tmp_path, event_time="at", timestamp_formats=["%Y-%m-%d"]) | dm.io.Collect()


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2013-01-01T05:00:00Z"], pa.timestamp("us", "UTC")),
        (["2013-01-01T05:00:00-05:00", None], pa.timestamp("us", "UTC")),
        (["2013-01-01T05:00:00.5Z", "2013-01-01T05:00:00Z"], pa.timestamp("us", "UTC")),
        (["2013-01-01", "2013-01-01 05:00:00Z"], pa.timestamp("us", "UTC")),
        (["2013-01-01", "2013-01-01T05:00"], pa.timestamp("us")),
        (["2013-01-01T05:00:00.123456"], pa.timestamp("us")),
        (["2013-01-01T05:00:00.123456789Z"], pa.string()),
        (["2013-01-01T05:00:00Z", "soon"], pa.string()),
        ([[], ["2013-01-01T05:00:00Z"]], pa.list_(pa.timestamp("us", "UTC"))),
        ([{"at": "2013-01-01T05:00:00.5Z"}], pa.struct({"at": pa.timestamp("us", "UTC")})),
        ([None], pa.string()),
        ([""], pa.string()),
    ],
)
def test_times_of_json_are_in_utc_if_one_of_them_has_an_offset(tmp_path: Path, texts: list[Any], kind: Any) -> None:
    (tmp_path / "a.json").write_text("".join(json.dumps({"t": text}) + "\n" for text in texts))
    source = JsonSource(paths=tmp_path, event_time=None).bound()
    assert source.schema() == pa.schema({"t": kind})
    rows = [row for batch in source.read("a.json", 0, None) for row in source.decode(batch).values]
    assert len(rows) == len(texts)


def test_an_offset_of_json_is_applied(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"t": "2013-01-01T05:00:00.5-05:00"}\n{"t": "2013-01-01T10:00:00"}\n')
    source = JsonSource(paths=tmp_path, event_time=None).bound()
    [batch] = source.read("a.json", 0, None)
    ten = dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC)
    assert [row.t for row in source.decode(batch).values] == [ten + dt.timedelta(seconds=0.5), ten]
