"""Local times in CSV files that occur twice or not at all: what becomes of their rows, on every host."""

from __future__ import annotations

import collections
import datetime as dt
import random
import zoneinfo
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.csv_parsing import parser, problem_of_row
from dataflow_model.io.text.parsing import parse_rows
from dataflow_model.io.text.row_texts import RowTexts
from dataflow_model.plan.columns.source_columns import BAD_FIELD
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from pathlib import Path

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TWICE = 'which occurs twice in Europe/Berlin; pass ambiguous="earlier" or ambiguous="later", or the name of a column'
SKIPPED = 'which the clocks in Europe/Berlin skip; pass nonexistent="earlier" or nonexistent="later"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def read(path: Path, content: str, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the rows, and the dead letters."""
    path.write_text(content)
    options = {"zone": "Europe/Berlin", "event_time": "at", **options}
    with dm.Pipeline() as p:
        good, bad = p | dm.io.ReadCsv(path, **options).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    rows = p.result.collected("good")
    assert p.result.metrics()["ReadCsv"].get("dead_letters", 0) == len(list(p.result.collected("bad")))
    return [record.value for record in rows], [record.value for record in p.result.collected("bad")]


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def test_a_time_that_occurs_twice_or_not_at_all_is_a_bad_row_that_names_the_way_out(file: Path) -> None:
    content = "at,n\n2013-10-27T01:59,1\n2013-10-27T02:30,2\n2013-03-31T02:30,3\n2013-03-31 03:00,4\n"
    rows, letters = read(file, content)
    assert [row.n for row in rows] == [1, 4]
    assert [letter.element for letter in letters] == ["2013-10-27T02:30,2", "2013-03-31T02:30,3"]
    assert letters[0].reason == f"rows.csv, line 3: column 'at' holds '2013-10-27T02:30', {TWICE} that says which"
    assert letters[1].reason == f"rows.csv, line 4: column 'at' holds '2013-03-31T02:30', {SKIPPED}"


def test_without_an_output_for_bad_rows_the_error_names_the_way_out(file: Path) -> None:
    file.write_text("at\n2013-10-27T02:30\n")
    with (
        pytest.raises(SourceError, match=r"'2013-10-27T02:30', which occurs twice in Europe/Berlin; pass ambiguous="),
        dm.Pipeline() as p,
    ):
        _ = p | dm.io.ReadCsv(file, event_time="at", zone="Europe/Berlin") | dm.io.Collect()


def test_the_earlier_of_two_possible_instants_is_before_the_later_one(file: Path) -> None:
    content = "at\n2013-10-27T02:30\n2013-03-31T02:30\n"
    rows, bad = read(file, content, ambiguous="earlier", nonexistent="earlier")
    assert ([row.at for row in rows], bad) == ([utc("2013-10-27T00:30"), utc("2013-03-31T00:30")], [])
    rows, bad = read(file, content, ambiguous="later", nonexistent="later")
    assert ([row.at for row in rows], bad) == ([utc("2013-10-27T01:30"), utc("2013-03-31T01:30")], [])


@pytest.mark.parametrize("values", [("0", "1"), ("+02:00", "+01:00"), ("+0200", "+0100"), ('"+02:00"', '" +01"')])
def test_a_column_of_any_type_can_choose_between_two_possible_instants(file: Path, values: tuple[str, str]) -> None:
    first, second = values
    content = f"at,which\n2013-10-27T02:30,{second}\n2013-10-27T02:30,{first}\n2013-10-27T02:31,\n2013-07-01T12:00,\n"
    rows, [letter] = read(file, content, ambiguous="which")
    expected = ["2013-10-27T01:30", "2013-10-27T00:30", "2013-07-01T10:00"]
    assert [row.at for row in rows] == list(map(utc, expected))
    assert "holds '2013-10-27T02:31', which occurs twice in Europe/Berlin, and column 'which' is empty" in letter.reason


def test_an_offset_that_looks_like_a_number_is_an_offset(file: Path) -> None:
    content = "at,off\n2013-11-03T01:30,-0500\n2013-11-03T01:30,-0400\n2013-11-03T01:30,-0600\n"
    columns = pa.schema({"at": pa.timestamp("us", "UTC"), "off": pa.int64()})
    rows, [letter] = read(file, content, zone="America/New_York", ambiguous="off", schema=columns)
    assert rows == [(utc("2013-11-03T06:30"), -500), (utc("2013-11-03T05:30"), -400)]
    assert "column 'off' holds '-0600'; it must be 0 or -04:00 for the earlier time" in letter.reason


def test_the_column_that_chooses_the_instant_is_read_even_if_nothing_else_needs_it(file: Path) -> None:
    file.write_text("when,seen,which\n2013-10-27T02:30,2013-10-27T02:40,1\n")
    options: dict[str, Any] = {"zone": "Europe/Berlin", "rename": {"when": "at", "which": "fold"}}
    with dm.Pipeline() as p:
        rows = p | dm.io.ReadCsv(file, event_time="at", ambiguous="fold", **options)
        _ = rows | dm.Map(lambda row: row.seen) | dm.io.Collect()
    [record] = p.result.collected("Collect")
    assert (record.value, record.event_time) == (utc("2013-10-27T01:40"), dm.event_time("2013-10-27T01:30Z"))


def test_a_missing_column_for_the_choice_of_instants_is_refused_with_the_existing_ones(file: Path) -> None:
    file.write_text("at,n\n2013-10-27T02:30,1\n")
    with pytest.raises(InvalidArgument, match=r"`ambiguous` must be .*, got 'infer'\nHint: .*; the columns are at, n"):
        dm.io.ReadCsv(file, event_time="at", zone="Europe/Berlin", ambiguous="infer")


def test_a_time_with_an_offset_is_never_ambiguous(file: Path) -> None:
    content = "at\n2013-10-27T02:30+01:00\n2013-10-27T02:30+02:00\n2013-10-27T02:30\n"
    rows, [letter] = read(file, content)
    assert [row.at for row in rows] == [utc("2013-10-27T01:30"), utc("2013-10-27T00:30")]
    assert letter.reason.startswith("rows.csv, line 4: ")


@pytest.mark.parametrize(
    ("zone", "date", "start"),
    [
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00"),
        ("Africa/Cairo", "2023-04-28", "2023-04-27T22:00"),
        ("America/Havana", "2013-11-03", "2013-11-03T04:00"),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30"),
    ],
)
@pytest.mark.parametrize("form", [None, "%d.%m.%Y"])
def test_a_date_without_a_unique_midnight_begins_where_its_calendar_window_does(
    file: Path, zone: str, date: str, start: str, form: str | None
) -> None:
    text = date if form is None else dt.date.fromisoformat(date).strftime(form)
    formats = ["%d.%m.%Y %H:%M", *([] if form is None else [form])]
    rows, [letter] = read(file, f"at\n{text}\n{date}T00:00\n", zone=zone, timestamp_formats=formats)
    assert [row.at for row in rows] == [utc(start)]
    assert f"holds '{date}T00:00', which " in letter.reason
    [window] = dm.CalendarWindows.days(timezone=zone).assign(dm.event_time(rows[0].at), None)
    assert window.start == dm.event_time(utc(start))


def test_a_date_that_a_zone_skipped_is_a_bad_row(file: Path) -> None:
    rows, [letter] = read(file, "at\n2011-12-29\n2011-12-30\n2011-12-31\n", zone="Pacific/Apia")
    assert [row.at for row in rows] == [utc("2011-12-29T10:00"), utc("2011-12-30T10:00")]
    assert "holds '2011-12-30', which the clocks in Pacific/Apia skip" in letter.reason


def test_summer_time_after_2037_is_that_of_the_calendar_windows(file: Path) -> None:
    rows, bad = read(file, "at\n2045-07-01T00:00\n")
    assert ([row.at for row in rows], bad) == ([utc("2045-06-30T22:00")], [])


def test_nanoseconds_are_kept_and_an_instant_beyond_them_is_a_bad_row(file: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("ns")})
    content = "at\n2013-11-03T01:30:00.000000001\n2013-11-03T02:00:00.000000001\n2262-04-11T23:47:00\n"
    rows, [letter] = read(file, content, schema=schema, zone="America/New_York", ambiguous="later")
    assert [row.at.value for row in rows] == [1383460200_000000001, 1383462000_000000001]
    assert "cannot hold '2262-04-11T23:47:00'" in letter.reason


def test_explain_says_in_which_zone_local_times_are(file: Path) -> None:
    file.write_text("at\n2013-10-27T02:30\n")
    p = dm.Pipeline()
    _ = p | dm.io.ReadCsv(file, event_time="at", zone="Europe/Berlin") | dm.io.Collect()
    assert "CSV files with local times of Europe/Berlin, event time 'at'" in p.explain()


# Times as a person in the zone writes them: any, most of them about the changes of the clocks, some as dates.
ZONES = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]
)
TIMES = st.sampled_from(
    [
        *(
            "2013-10-27 01:59:59",
            "2013-10-27 02:00",
            "2013-10-27T02:59:59.999999",
            "2013-10-27 03:00",
            "2013-03-31 02:30",
        ),
        *("2013-11-03T00:00", "2013-11-03", "2013-11-03 01:30", "2013-03-10 02:00", "2018-11-04", "2018-11-04 00:00"),
        *(
            "2013-04-07 01:45",
            "2013-10-06 02:15",
            "2011-12-30",
            "2011-12-30T12:00",
            "2013-10-27T02:30+01:00",
            "soon",
            "",
        ),
    ]
)
MARKS = st.sampled_from(["", "0", "1", "+02:00", "+01:00", "-0500", "-0400", "x"])
CHOICES = st.sampled_from(["bad row", "earlier", "later"])


@given(st.lists(st.tuples(TIMES, TIMES, MARKS), min_size=1, max_size=12), ZONES, CHOICES | st.just("mark"), CHOICES)
@example([("2013-10-27 02:00", "soon", "0"), ("2013-10-27 02:00", "", "0")], "Europe/Berlin", "mark", "bad row")
def test_rows_are_read_alike_in_a_batch_and_singly(
    rows: list[tuple[str, str, str]], zone: str, ambiguous: str, nonexistent: str
) -> None:
    options = CsvOptions(zone=zone, ambiguous=ambiguous, nonexistent=nonexistent)
    kind = pa.timestamp("us", "UTC")
    columns = pa.schema({"at": kind, "seen": kind, "mark": pa.string()})

    def read_rows(some: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
        lines = [f"{','.join(row)}\n".encode() for row in some]
        ends = np.cumsum(list(map(len, lines)))
        texts = RowTexts(0, b"".join(lines), np.append(0, ends[:-1]), ends)
        parse = parser(columns.names, columns, options)

        def explain(line: bytes, problem: str) -> str:
            return problem_of_row(line, columns.names, columns, options, problem)

        batches = parse_rows(texts, parse, columns, explain)
        return [{BAD_FIELD.name: None, **row} for batch in batches for row in batch.to_pylist()]

    together = read_rows(rows)
    assert together == [row for line in rows for row in read_rows([line])]
    assert together == read_rows(rows[::-1])[::-1]


# The night of an autumn Sunday in Berlin: sensors that write their offset, or do not.
FIRST = utc("2013-10-26T22:00")
READINGS = [FIRST + dt.timedelta(minutes=minutes) for minutes in range(0, 300, 5)]


def local_rows() -> list[str]:
    """Return rows in any order, each with the fold and with the offset of its time."""
    rows = []
    for sensor in ("a", "b"):
        for instant in READINGS:
            shown = instant.astimezone(BERLIN)
            rows.append(f"{shown:%d.%m.%Y %H:%M},{sensor},{shown.fold},{shown:%z}")
    random.Random(5).shuffle(rows)
    return rows


AMBIGUOUS = ("bad row", "earlier", "later", "fold", "off")


def expected_counts(ambiguous: str) -> dict[tuple[str, dm.EventTime], int]:
    """Return how many readings each sensor has in each hour, by the folds of Python's times."""
    counts: collections.Counter[tuple[str, dm.EventTime]] = collections.Counter()
    for instant in READINGS:
        shown = instant.astimezone(BERLIN)
        is_twice = shown.replace(fold=0).utcoffset() != shown.replace(fold=1).utcoffset()
        if is_twice and ambiguous == "bad row":
            continue
        if is_twice and ambiguous in {"earlier", "later"}:
            instant = shown.replace(fold=int(ambiguous == "later")).astimezone(dt.UTC)  # noqa: PLW2901
        for sensor in ("a", "b"):
            counts[sensor, dm.event_time(instant.replace(minute=0))] += 1
    return dict(counts)


@on_hosts("local", "workers", "process", "batch", slow=("streaming",))
def test_every_host_puts_the_hours_of_an_autumn_night_into_the_same_windows(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    rows = local_rows()
    for number in (0, 1):
        lines = ["at,sensor,fold,off", *rows[number::2]]
        (tmp_path / f"{number}.csv").write_text("\n".join(lines) + "\n")
    with dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint")) as p:
        for ambiguous in AMBIGUOUS:
            source = dm.io.ReadCsv(
                f"{tmp_path}/*.csv",
                event_time="at",
                timestamp_formats=["%d.%m.%Y %H:%M"],
                zone="Europe/Berlin",
                ambiguous=ambiguous,
                watermark=dm.BoundedOutOfOrderness("1 day"),
            )
            good, bad = p | f"read {ambiguous}" >> source.with_exception_handling()
            keyed = good | f"key {ambiguous}" >> dm.Map(lambda row: (row.sensor, row))
            hours = keyed | f"hours {ambiguous}" >> dm.Window.into(dm.FixedWindows("1 hour"))
            _ = hours | f"count {ambiguous}" >> dm.Count.per_key() | f"counts {ambiguous}" >> dm.io.Collect()
            _ = bad | f"bad {ambiguous}" >> dm.io.Collect()
    for ambiguous in AMBIGUOUS:
        panes = p.result.collected(f"counts {ambiguous}")
        counts = {(pane.value[0], pane.window.start): pane.value[1] for pane in panes}
        letters = [record.value for record in p.result.collected(f"bad {ambiguous}")]
        assert counts == expected_counts(ambiguous)
        assert len(letters) == (48 if ambiguous == "bad row" else 0)
        assert all("which occurs twice in Europe/Berlin; pass ambiguous=" in letter.reason for letter in letters)
        assert p.result.metrics()[f"read {ambiguous}"].get("dead_letters", 0) == len(letters)
