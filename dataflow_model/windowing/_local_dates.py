"""When the dates of a time zone begin, in microseconds since the epoch."""

from __future__ import annotations

import calendar
import datetime
import functools
from typing import Final, Literal

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.zones import start_of_date

DAY: Final = 86_400_000_000
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
    return start_of_date(timezone, datetime.datetime.fromordinal(ordinal))
