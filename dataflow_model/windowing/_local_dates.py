"""When the dates of a time zone begin, in microseconds since the epoch."""

from __future__ import annotations

import calendar
import datetime
import functools
from typing import Final, Literal, cast

import pendulum

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

DAY: Final = 86_400_000_000
_SECOND: Final = datetime.timedelta(seconds=1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - UTC without the zone, for plain arithmetic
_EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
# Python's dates are those of the years 1 to 9999; the margin leaves room for any zone's offset.
_FIRST: Final = datetime.date.min.toordinal() + 3
_LAST: Final = datetime.date.max.toordinal() - 3
_MONTHS_A_YEAR: Final = 12


@functools.lru_cache(maxsize=65_536)
def boundaries_around(
    unit: Literal["days", "months"], n: int, timezone: str, start: datetime.date, day: int
) -> tuple[int, ...]:
    """Return the boundaries about a day of UTC: from the last not after it begins to the first not before it ends.

    Windows are `n` days (or months) long and counted from the date `start`. Each instant of the day lies between two
    neighbours of the result, which is strictly increasing.
    """
    months = unit == "months"

    def boundary(k: int) -> int:
        return _beginning(timezone, _nth_date(start, k, n, months=months))

    begins = max(day * DAY, int(MIN_TIMESTAMP))
    date = datetime.date.fromordinal(min(max(day + _EPOCH_ORDINAL, _FIRST), _LAST))
    k = _periods_between(start, date, n, months=months)
    while boundary(k) > begins:
        k -= 1
    while boundary(k + 1) <= begins:
        k += 1
    bounds = [boundary(k)]
    while bounds[-1] < (day + 1) * DAY and bounds[-1] != MAX_TIMESTAMP:
        k += 1
        # A date that the zone skipped begins and ends at one instant: no window.
        if boundary(k) > bounds[-1]:
            bounds.append(boundary(k))
    return tuple(bounds)


def _periods_between(start: datetime.date, date: datetime.date, n: int, *, months: bool) -> int:
    if months:
        return ((date.year - start.year) * _MONTHS_A_YEAR + date.month - start.month) // n
    return (date.toordinal() - start.toordinal()) // n


def _nth_date(start: datetime.date, k: int, n: int, *, months: bool) -> int:
    """Return the ordinal of the date `k` periods after `start`; out of Python's calendar, any ordinal out there."""
    if not months:
        return start.toordinal() + k * n
    year, month = divmod(start.year * _MONTHS_A_YEAR + start.month - 1 + k * n, _MONTHS_A_YEAR)
    if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
        return _FIRST - 1 if year < datetime.MINYEAR else _LAST + 1
    last_day = calendar.monthrange(year, month + 1)[1]
    return datetime.date(year, month + 1, min(start.day, last_day)).toordinal()


@functools.lru_cache(maxsize=65_536)
def _beginning(timezone: str, ordinal: int) -> int:
    """Return the first instant at which the zone shows the date's midnight or later; ±∞ outside the calendar."""
    if not _FIRST <= ordinal <= _LAST:
        return int(MIN_TIMESTAMP if ordinal < _FIRST else MAX_TIMESTAMP)
    zone = pendulum.timezone(timezone)
    midnight = datetime.datetime.fromordinal(ordinal)
    first, second = (midnight - _offset(midnight.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    # fold=0 takes the offset before a change of the clocks, fold=1 the one after. Midnight that comes twice: the first.
    if second < first:
        # Midnight is skipped: its date begins at the very change, between the two readings.
        first = _first_at_or_after(midnight, zone, second, first)
    return (first - _EPOCH) // _MICROSECOND


def _first_at_or_after(
    wall: datetime.datetime, zone: datetime.tzinfo, before: datetime.datetime, at: datetime.datetime
) -> datetime.datetime:
    """Bisect, to the second, for the instant in `(before, at]` from which the zone shows `wall` or later."""
    while at - before > _SECOND:
        middle = before + (at - before) // 2 // _SECOND * _SECOND
        local_time = middle.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None, fold=0)
        before, at = (before, middle) if local_time >= wall else (middle, at)
    return at


def _offset(moment: datetime.datetime) -> datetime.timedelta:
    return cast("datetime.timedelta", moment.utcoffset())  # the moment has a zone
