"""Local times of a zone: those that occur twice or not at all have the instants of Python's folds, also in columns."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import zoneinfo
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.errors import InvalidArgument
from dataflow_model.zones import LocalTimes, offset_text, offsets, offsets_of, start_of_date

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local times
MICROSECOND = dt.timedelta(microseconds=1)
ZONES = st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime", "Factory"}))
ANY_TIME = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001 - the same


@functools.cache
def changes(zone: str) -> list[dt.datetime]:
    """Return the local times, on both sides, of the changes of a zone's clocks in some years."""
    known = zoneinfo.ZoneInfo(zone)
    found = []
    for year in (1916, 1940, 1981, 1999, 2011, 2018, 2024, 2045):
        hours = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=12 * n) for n in range(730)]
        for earlier, later in itertools.pairwise(hours):
            start, end = earlier, later
            if start.astimezone(known).utcoffset() == end.astimezone(known).utcoffset():
                continue
            while end - start > dt.timedelta(seconds=1):
                middle = start + (end - start) // 2 // dt.timedelta(seconds=1) * dt.timedelta(seconds=1)
                is_before = middle.astimezone(known).utcoffset() == start.astimezone(known).utcoffset()
                start, end = (middle, end) if is_before else (start, middle)
            found += [moment.astimezone(known).replace(tzinfo=None, fold=0) for moment in (start, end)]
    return found


@st.composite
def zones_and_times(draw: st.DrawFn) -> tuple[str, list[dt.datetime]]:
    """Draw a zone and local times, most of them about a change of its clocks."""
    zone = draw(ZONES)
    near = st.sampled_from(changes(zone) or [EPOCH])
    distances = st.sampled_from([0, 1, 1_799, 1_800, 3_599, 3_600, 86_399]) | st.integers(0, 90_000)
    times = st.builds(
        lambda time, seconds, sign, micros: time + sign * dt.timedelta(seconds=seconds, microseconds=micros),
        near,
        distances,
        st.sampled_from([-1, 1]),
        st.sampled_from([0, 1]),
    )
    return zone, draw(st.lists(times | ANY_TIME, min_size=1, max_size=12))


def column_of(times: Sequence[dt.datetime]) -> Any:
    return np.array([(time - EPOCH) // MICROSECOND for time in times], np.int64)


def by_folds(zone: str, time: dt.datetime) -> tuple[int, int]:
    """Return the instants of a local time with `fold=0` and `fold=1`, as Python computes them."""
    known = zoneinfo.ZoneInfo(zone)
    first, second = (
        (time.replace(tzinfo=known, fold=fold) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MICROSECOND
        for fold in (0, 1)
    )
    return first, second


@given(
    zones_and_times(),
    st.sampled_from(["bad row", "earlier", "later"]),
    st.sampled_from(["bad row", "earlier", "later"]),
)
@example(("Pacific/Apia", [dt.datetime(2011, 12, 30, 12)]), "bad row", "bad row")  # noqa: DTZ001
@example(("Europe/Berlin", [dt.datetime(2045, 7, 1)]), "bad row", "bad row")  # noqa: DTZ001 - Arrow knows no summer then
def test_local_times_in_a_column_are_converted_like_python_does_with_fold(
    drawn: tuple[str, list[dt.datetime]], ambiguous: str, nonexistent: str
) -> None:
    zone, times = drawn
    local = column_of(times)
    decided = LocalTimes(zone, ambiguous, nonexistent)
    shifts, problems = decided.offsets(local)
    known = zoneinfo.ZoneInfo(zone)
    for index, time in enumerate(times):
        folds = by_folds(zone, time)
        exists = (EPOCH + folds[0] * MICROSECOND).replace(tzinfo=dt.UTC).astimezone(known).replace(tzinfo=None) == time
        choice = "earlier" if folds[0] == folds[1] else ambiguous if exists else nonexistent
        [alone], why = decided.offsets(local[index : index + 1])
        assert why.get(0) == problems.get(index)
        assert alone == shifts[index] or choice == "bad row"
        if choice == "bad row":
            option = "ambiguous" if exists else "nonexistent"
            assert f'pass {option}="earlier" or {option}="later"' in problems[index]
            assert f"in {zone}" in problems[index]
        else:
            assert index not in problems
            assert local[index] - shifts[index] == (min(folds) if choice == "earlier" else max(folds))


@given(zones_and_times())
def test_the_offsets_of_a_column_are_those_of_its_times(drawn: tuple[str, list[dt.datetime]]) -> None:
    zone, times = drawn
    before, after = offsets_of(zone, column_of(times))
    assert list(zip(before.tolist(), after.tolist(), strict=True)) == [offsets(zone, time) for time in times]


@given(zones_and_times(), st.booleans(), st.randoms())
def test_a_column_that_chooses_between_two_instants_restores_every_instant(
    drawn: tuple[str, list[dt.datetime]], with_offsets: bool, random: Any
) -> None:
    zone, times = drawn
    known = zoneinfo.ZoneInfo(zone)
    instants = [time.replace(tzinfo=dt.UTC) for time in times if dt.datetime(2, 1, 1) < time < dt.datetime(9998, 1, 1)]  # noqa: DTZ001
    random.shuffle(instants)  # the order of the rows does not matter
    shown = [instant.astimezone(known) for instant in instants]
    said = [
        offset_text(time.utcoffset() // MICROSECOND) if with_offsets else str(time.fold)  # type: ignore[operator]
        for time in shown
    ]
    local = column_of([time.replace(tzinfo=None) for time in shown])
    shifts, problems = LocalTimes(zone, "fold").offsets(local, lambda places: [said[place] for place in places])
    assert not problems
    assert (local - shifts).tolist() == column_of([time.replace(tzinfo=None) for time in instants]).tolist()


@given(ZONES, st.dates(dt.date(1850, 1, 1), dt.date(2100, 1, 1)))
@example("America/Sao_Paulo", dt.date(2018, 11, 4))
@example("America/Toronto", dt.date(1919, 3, 31))
@example("America/Havana", dt.date(2013, 11, 3))
@example("Pacific/Apia", dt.date(2011, 12, 30))
def test_a_date_starts_at_its_first_instant_unless_the_zone_skipped_it(zone: str, date: dt.date) -> None:
    midnight = dt.datetime.combine(date, dt.time())
    known = zoneinfo.ZoneInfo(zone)
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + start_of_date(zone, midnight) * MICROSECOND
    assert start.astimezone(known).replace(tzinfo=None) >= midnight
    assert (start - MICROSECOND).astimezone(known).replace(tzinfo=None) < midnight
    local = column_of([midnight, midnight])
    shifts, problems = LocalTimes(zone).offsets(local, are_dates=lambda places: np.full(len(places), True))
    if start.astimezone(known).date() == date:
        assert not problems
        assert (local - shifts).tolist() == [start_of_date(zone, midnight)] * 2
    else:
        assert list(problems) == [0, 1]


@pytest.mark.parametrize(
    ("said", "utc"),
    [("0", 0), ("1", 1), ("+02:00", 0), ("+0200", 0), ("+02", 0), (" +01:00 ", 1), ("+01:00:00", 1)],
)
def test_an_offset_is_written_in_every_usual_form(said: str, utc: int) -> None:
    local = column_of([dt.datetime(2013, 10, 27, 2, 30)])  # noqa: DTZ001
    shifts, problems = LocalTimes("Europe/Berlin", "fold").offsets(local, lambda _: [said])
    assert ((local - shifts) // 3_600_000_000 % 24).tolist() == [utc]
    assert not problems


@pytest.mark.parametrize(
    ("said", "words"), [(None, "is empty"), ("", "is empty"), ("2", "holds '2'"), ("+05:00", "holds")]
)
def test_a_choosing_column_with_another_value_is_a_problem(said: str | None, words: str) -> None:
    local = column_of([dt.datetime(2013, 10, 27, 2, 30)])  # noqa: DTZ001
    _, problems = LocalTimes("Europe/Berlin", "which").offsets(local, lambda _: [said])
    assert f"occurs twice in Europe/Berlin, and column 'which' {words}" in problems[0]
    assert "must be 0 or +02:00 for the earlier time, and 1 or +01:00 for the later one" in problems[0]


def test_an_hour_in_utc_may_be_written_as_z() -> None:
    local = column_of([dt.datetime(2013, 10, 27, 1, 30)])  # noqa: DTZ001
    shifts, problems = LocalTimes("Europe/London", "which").offsets(local, lambda _: ["Z"])
    assert (shifts.tolist(), problems) == ([0], {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ambiguous": None}, "`ambiguous` must be 'bad row', 'earlier', 'later' or the name of a column, got None"),
        ({"nonexistent": "fold"}, "`nonexistent` must be 'bad row', 'earlier' or 'later', got 'fold'"),
    ],
)
def test_unknown_choices_for_ambiguous_and_nonexistent_times_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        LocalTimes("Europe/Berlin", **options)
