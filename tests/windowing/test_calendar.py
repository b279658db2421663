"""Calendar windows: local midnight to local midnight, in any zone."""

from __future__ import annotations

import datetime
import pickle
import zoneinfo
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, duration, event_time
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import CalendarWindows

# Zones whose clocks change at midnight, skip or repeat a date, or have odd offsets, and a few plain ones.
ODD_ZONES = [
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Havana",
    "America/Juneau", "America/New_York", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund",
    "America/St_Johns", "America/Toronto", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza",
    "Asia/Kathmandu", "Asia/Manila", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe",
    "Europe/Amsterdam", "Europe/Dublin", "Pacific/Apia", "Pacific/Kwajalein", "UTC",
]  # fmt: skip
ZONES = st.sampled_from(ODD_ZONES) | st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime", "Factory"}))
MAKERS = st.sampled_from([CalendarWindows.days, CalendarWindows.weeks, CalendarWindows.months, CalendarWindows.years])
DATES = st.dates(datetime.date(1600, 1, 1), datetime.date(2400, 1, 1))
FUNCTIONS = st.builds(lambda make, n, zone: make(n, zone), MAKERS, st.integers(1, 5), ZONES) | st.builds(
    lambda make, n, zone, start: make(n, zone, start), MAKERS, st.integers(1, 400), ZONES, DATES
)
YEAR = 31_556_952_000_000
# About 1845 to 2095, where zones have their history, then all of time.
TIMES = st.integers(-125 * YEAR, 125 * YEAR).map(EventTime) | st.integers(-(2**63), 2**63 - 1).map(EventTime)


def _only(fn: CalendarWindows, time: EventTime) -> IntervalWindow:
    (window,) = fn.assign(time, None)
    return window


def _hours(fn: CalendarWindows, written: str) -> float:
    window = _only(fn, event_time(written))
    return (int(window.end) - int(window.start)) / 3_600_000_000


def _local(zone: str, time: EventTime) -> datetime.datetime:
    return time.to_datetime().astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)


@given(FUNCTIONS, TIMES)
@example(CalendarWindows.days(), MIN_TIMESTAMP)
@example(CalendarWindows.months(7, "Asia/Beirut"), EventTime(int(MAX_TIMESTAMP) - 1))
@example(CalendarWindows.days(timezone="Pacific/Apia"), event_time("2011-12-30T10:00Z"))
def test_every_instant_is_in_exactly_one_window(fn: CalendarWindows, time: EventTime) -> None:
    window = _only(fn, time)
    assert window.start <= time < window.end or time == window.end == MAX_TIMESTAMP
    assert _only(fn, window.start) == _only(fn, window.max_timestamp) == window
    if window.end != MAX_TIMESTAMP:
        assert _only(fn, window.end).start == window.end
    if window.start != MIN_TIMESTAMP:
        assert _only(fn, EventTime(int(window.start) - 1)).end == window.start


@given(ZONES, st.integers(-125 * YEAR, 125 * YEAR).map(EventTime))
def test_a_day_starts_when_the_local_clock_first_shows_midnight_or_later(zone: str, time: EventTime) -> None:
    start = _only(CalendarWindows.days(timezone=zone), time).start
    shown = _local(zone, start)
    just_before = _local(zone, EventTime(int(start) - 1))
    midnight = shown.replace(hour=0, minute=0, second=0, microsecond=0)
    assert just_before < midnight <= shown
    assert shown == midnight or shown - just_before > datetime.timedelta(microseconds=1), (
        "not midnight, and no change of clocks"
    )


@given(st.sampled_from(["days", "weeks", "months", "years"]), st.integers(1, 30), DATES, st.integers(-300, 300))
def test_windows_are_counted_from_the_start_date(unit: str, n: int, start: datetime.date, count: int) -> None:
    fn: CalendarWindows = getattr(CalendarWindows, unit)(n, "UTC", start)
    factor = {"days": 1, "weeks": 7, "months": 1, "years": 12}[unit]
    begins = start
    if unit in {"days", "weeks"}:
        begins = start + datetime.timedelta(days=count * n * factor)
    else:
        months = start.year * 12 + start.month - 1 + count * n * factor
        if not 12 <= months <= 9990 * 12:
            return
        for day in range(start.day, 0, -1):
            try:
                begins = datetime.date(months // 12, months % 12 + 1, day)
            except ValueError:
                continue
            break
    instant = event_time(datetime.datetime.combine(begins, datetime.time(), datetime.UTC))
    assert _only(fn, instant).start == instant
    assert _only(fn, EventTime(int(instant) - 1)).end == instant


@given(FUNCTIONS, st.lists(TIMES, max_size=8))
@example(CalendarWindows.days(), [MIN_TIMESTAMP, MAX_TIMESTAMP])
def test_calendar_windows_are_assigned_alike_to_columns_and_rows(fn: CalendarWindows, times: list[EventTime]) -> None:
    row, starts, ends = fn.assign_many(np.array(times, dtype=np.int64))
    windows = [_only(fn, time) for time in times]
    assert row is None
    assert starts.tolist() == [int(window.start) for window in windows]
    assert ends.tolist() == [int(window.end) for window in windows]


def test_days_have_23_and_25_hours_where_the_clocks_change() -> None:
    days = CalendarWindows.days(timezone="America/New_York")
    assert _hours(days, "2013-03-09T17:00Z") == 24
    assert _hours(days, "2013-03-10T17:00Z") == 23
    assert _hours(days, "2013-11-03T17:00Z") == 25


@pytest.mark.parametrize(
    ("zone", "noon", "start", "hours"),
    [
        ("America/Sao_Paulo", "2017-10-15T15:00Z", "2017-10-15T01:00-02:00", 23),
        ("America/Sao_Paulo", "2017-10-14T15:00Z", "2017-10-14T00:00-03:00", 24),
        ("America/Sao_Paulo", "2018-11-04T15:00Z", "2018-11-04T01:00-02:00", 23),
        ("America/Sao_Paulo", "2018-11-03T15:00Z", "2018-11-03T00:00-03:00", 24),
        ("America/Sao_Paulo", "2018-02-17T15:00Z", "2018-02-17T00:00-02:00", 25),
        ("Africa/Cairo", "2023-04-28T10:00Z", "2023-04-28T01:00+03:00", 23),
        ("Africa/Cairo", "2023-10-26T10:00Z", "2023-10-26T00:00+03:00", 25),
        ("Asia/Beirut", "2021-03-28T10:00Z", "2021-03-28T01:00+03:00", 23),
        ("America/Havana", "2013-11-03T17:00Z", "2013-11-03T00:00-04:00", 25),
        ("America/Toronto", "1919-03-31T17:00Z", "1919-03-31T00:30-04:00", 23.5),
        ("Australia/Lord_Howe", "2013-10-06T02:00Z", "2013-10-06T00:00+10:30", 23.5),
    ],
)
def test_a_skipped_or_repeated_midnight_starts_its_day_once(zone: str, noon: str, start: str, hours: float) -> None:
    days = CalendarWindows.days(timezone=zone)
    assert _only(days, event_time(noon)).start == event_time(start)
    assert _hours(days, noon) == hours


def test_a_date_that_a_zone_skipped_has_no_window() -> None:
    days = CalendarWindows.days(timezone="Pacific/Apia")
    last = _only(days, event_time("2011-12-29T12:00-10:00"))
    following = _only(days, last.end)
    assert last == IntervalWindow(event_time("2011-12-29T00:00-10:00"), event_time("2011-12-31T00:00+14:00"))
    assert _local("Pacific/Apia", following.start) == datetime.datetime(2011, 12, 31)  # noqa: DTZ001 - what the clocks show
    assert _hours(days, "2011-12-31T12:00+14:00") == 24


def test_weeks_start_on_a_monday_by_default() -> None:
    friday = event_time("2013-03-15T12:00Z")
    assert _only(CalendarWindows.weeks(), friday).start == event_time("2013-03-11T00:00Z")
    assert _only(CalendarWindows.weeks(start="2013-01-06"), friday).start == event_time("2013-03-10T00:00Z")


def test_months_that_start_on_the_31st_start_on_the_last_day_of_shorter_months() -> None:
    fn = CalendarWindows.months(start="2012-01-31")
    assert _only(fn, event_time("2012-03-01T00:00Z")).start == event_time("2012-02-29T00:00Z")
    assert _only(fn, event_time("2012-03-31T00:00Z")).start == event_time("2012-03-31T00:00Z")


def test_years_that_start_on_29_february_start_on_the_28th_in_common_years() -> None:
    fn = CalendarWindows.years(start="2012-02-29")
    assert _only(fn, event_time("2013-06-01T00:00Z")).start == event_time("2013-02-28T00:00Z")
    assert _only(fn, event_time("2016-06-01T00:00Z")).start == event_time("2016-02-29T00:00Z")


def test_windows_of_utc_days_are_fixed_windows() -> None:
    window = _only(CalendarWindows.days(), event_time("1960-02-29T13:00Z"))
    assert window.start == event_time("1960-02-29T00:00Z")
    assert window.end - window.start == duration("1 day")


@pytest.mark.parametrize("n", [0, -1, 1.0, True, "1"])
def test_a_number_of_units_below_one_or_not_whole_is_refused(n: Any) -> None:
    with pytest.raises(InvalidArgument, match="`n` must be a whole number of months, at least 1, got"):
        CalendarWindows.months(n)


def test_a_zone_in_place_of_the_number_is_refused_with_the_right_argument() -> None:
    zone: Any = "Europe/Berlin"
    with pytest.raises(InvalidArgument, match=r"got 'Europe/Berlin'\nHint: write timezone='Europe/Berlin'$"):
        CalendarWindows.days(zone)


@pytest.mark.parametrize("zone", ["Mars/Phobos", "", "../etc/passwd"])
def test_an_unknown_zone_is_refused_with_a_way_out(zone: str) -> None:
    with pytest.raises(InvalidArgument, match=r"(?s)`timezone` must be the name of a zone .*Hint: use"):
        CalendarWindows.days(timezone=zone)


def test_a_zone_that_is_not_text_is_refused() -> None:
    zone: Any = datetime.UTC
    with pytest.raises(InvalidType, match="`timezone` must be the name of a zone"):
        CalendarWindows.days(timezone=zone)


def test_a_start_that_is_not_a_date_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="`start` must be a date, got 'yesterday'"):
        CalendarWindows.days(start="yesterday")
    with pytest.raises(InvalidType, match="`start` must be a date without a time"):
        CalendarWindows.days(start=datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC))


@pytest.mark.parametrize(
    "fn",
    [
        CalendarWindows.days(),
        CalendarWindows.weeks(2, "Asia/Tokyo"),
        CalendarWindows.months(start="2013-01-15"),
        CalendarWindows.years(3, "Europe/Paris", "2000-01-01"),
    ],
)
def test_the_repr_of_calendar_windows_evaluates_to_them(fn: CalendarWindows) -> None:
    assert eval(repr(fn)) == fn  # noqa: S307 - the repr under test
    assert pickle.loads(pickle.dumps(fn)) == fn
