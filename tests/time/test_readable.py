"""Times as people read them: short, and never wrong by more than what they leave out."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.micros import EPOCH, GREATEST, LEAST
from dataflow_model.readable import readable_duration, readable_instant, readable_span

INSTANTS = st.integers(LEAST, GREATEST)
UNITS = {"µs": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9, "day": 8.64e10, "days": 8.64e10, "years": 3.15576e13}


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_an_instant_is_read_back_as_it_was(moment: dt.datetime) -> None:
    micros = (moment - EPOCH) // dt.timedelta(microseconds=1)
    assert dt.datetime.fromisoformat(readable_instant(micros)).replace(tzinfo=dt.UTC) == moment
    whole = dt.datetime.fromisoformat(readable_instant(micros, whole_seconds=True)).replace(tzinfo=dt.UTC)
    assert whole == moment.replace(microsecond=0)


@given(INSTANTS, INSTANTS)
def test_no_time_is_shown_in_microseconds_since_the_epoch(first: int, second: int) -> None:
    start, end = sorted((first, second))
    for text in (readable_instant(first), readable_span(start, end)):
        assert len(text) <= 60
        assert not re.search(r"\d{5}(?!\d)", text.partition(".")[0])


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("2013-01-01T10:00Z", "2013-01-01T11:00Z", "[2013-01-01 10:00, 11:00)"),
        ("2013-01-01T10:00Z", "2013-01-01T10:00:10Z", "[2013-01-01 10:00:00, 10:00:10)"),
        ("2013-01-01T23:30Z", "2013-01-02T00:00Z", "[2013-01-01 23:30, 24:00)"),
        ("2013-01-01T23:30:30Z", "2013-01-02T00:00Z", "[2013-01-01 23:30:30, 24:00:00)"),
        ("2013-01-01T23:30Z", "2013-01-02T00:30Z", "[2013-01-01 23:30, 2013-01-02 00:30)"),
        ("2013-01-01T12:00Z", "2013-01-03T00:00Z", "[2013-01-01 12:00, 2013-01-03 00:00)"),
        ("2013-01-01T00:00Z", "2013-02-01T00:00Z", "[2013-01-01, 2013-02-01)"),
        ("2013-01-01T10:00Z", "2013-01-01T10:00:00.5Z", "[2013-01-01 10:00:00, 10:00:00.5)"),
        ("-inf", "2013-01-01T00:00Z", "[-inf, 2013-01-01 00:00:00)"),
    ],
)
def test_a_window_says_its_date_once(start: str, end: str, text: str) -> None:
    assert readable_span(int(dm.event_time(start)), int(dm.event_time(end))) == text


def test_a_window_beyond_the_calendar_is_shown_relative_to_it() -> None:
    assert readable_span(LEAST, LEAST + 10**6) == readable_span(LEAST + 1, LEAST + 10**6) == "before year 1"
    assert readable_span(GREATEST - 10**6, GREATEST) == "after year 9999"
    assert readable_span(LEAST + 5, GREATEST - 5) == "[before year 1, after year 9999)"


@given(st.integers(-(10**16), 10**16))
def test_a_readable_duration_is_accurate_to_a_tenth(micros: int) -> None:
    text = readable_duration(micros)
    read = sum(float(count.replace(",", "")) * UNITS[unit] for count, unit in re.findall(r"([\d.,]+) (\S+)", text))
    assert text.startswith("-") == (micros < 0)
    assert abs(abs(micros) - read) <= max(abs(micros) / 10, 1)
