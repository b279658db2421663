"""Local times: calendar periods, and the times at which a period recurs in a time zone."""

from __future__ import annotations

import calendar
import datetime
import functools
import re
import zoneinfo
from typing import Final, TypeAlias

import attrs
import pendulum

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    DurationLike,
    EventTime,
    InstantLike,
    duration,
    duration_text,
    event_time,
    processing_time,
)
from dataflow_model.zones import offset_text, offsets

_DAY: Final = 86_400_000_000
_MONTHS_A_YEAR: Final = 12
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - UTC without the zone, for plain arithmetic
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MONTHS_TEXT: Final = re.compile(r"\s*(\d+)\s*(month|year)s?\s*", re.IGNORECASE)
# Python's calendar has the years 1 to 9999; the margin leaves room for any zone's offset.
_FIRST: Final = (datetime.datetime(1, 1, 4) - _EPOCH) // _MICROSECOND  # noqa: DTZ001 - the same
_LAST: Final = (datetime.datetime(9999, 12, 28) - _EPOCH) // _MICROSECOND  # noqa: DTZ001 - the same


@attrs.frozen(repr=False)
class Months:
    """A number of calendar months.

    Example:
        >>> Months(12)
        1 year
    """

    n: int

    def __repr__(self) -> str:
        return period_text(self)


Period: TypeAlias = Duration | Months
"""A length of time, or a number of months."""


def period(value: DurationLike | Period) -> Period:
    """Return a value as a `Duration` or `Months`; it accepts what `duration` accepts, and text in months or years.

    Raises:
        InvalidArgument: for a period that is not positive, or text that is not a period.

    Example:
        >>> period("2 years"), period("90 minutes")
        (2 years, Duration(5400s))
    """
    months = _MONTHS_TEXT.fullmatch(value) if isinstance(value, str) else None
    length: Period
    if isinstance(value, Months):
        length = value
    elif months is not None:
        length = Months(int(months.group(1)) * (_MONTHS_A_YEAR if months.group(2).lower() == "year" else 1))
    elif isinstance(value, pendulum.Duration) and (value.years or value.months):
        if value != pendulum.duration(years=value.years, months=value.months):
            raise InvalidArgument(
                f"`period` must be in months, or in days and smaller units, got {value!r}",
                hint="use '2 months' or '60 days', for example, but not both together",
            )
        length = Months(value.years * _MONTHS_A_YEAR + value.months)
    else:
        length = duration(value)
    if (length.n if isinstance(length, Months) else int(length)) <= 0:
        raise InvalidArgument(f"`period` must be positive, got {value!r}", hint="pass '1 hour', for example")
    return length


def period_text(length: Period) -> str:
    """Format a period as text that `period` parses.

    Example:
        >>> period_text(Months(3)), period_text(duration("1 day"))
        ('3 months', '1 day')
    """
    if not isinstance(length, Months):
        return duration_text(length)
    whole_years = length.n % _MONTHS_A_YEAR == 0
    count, unit = (length.n // _MONTHS_A_YEAR, "year") if whole_years else (length.n, "month")
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def instant(value: InstantLike, timezone: str | None) -> int:
    """Return an instant, or a local time without a zone of its own, as microseconds since the epoch.

    Raises:
        InvalidArgument: for a local time that occurs twice in the zone, unless it has `fold=1`, or that is skipped.

    Example:
        >>> instant("1970-01-01T08:00", "America/New_York") // 3_600_000_000
        13
    """
    naive = _without_zone(value)
    if naive is not None:
        _check_unique(naive, timezone)
        return _from_local(naive, timezone)
    micros = int(event_time(value) if isinstance(value, EventTime) else processing_time(value))
    if not _FIRST <= micros <= _LAST:
        raise InvalidArgument(
            f"`reference` must be in the years 1 to 9999, got {value!r}",
            hint="pass '2013-01-01T08:00', for example",
        )
    return micros


def local(micros: int, timezone: str | None) -> str:
    """Format an instant as local time that `instant` parses; a local time that occurs twice is in UTC instead.

    Example:
        >>> local(0, None), local(0, "America/New_York")
        ('1970-01-01T00:00:00', '1969-12-31T19:00:00')
    """
    wall = _to_local(micros, timezone)
    before, after = _offsets(wall, timezone)
    return wall.isoformat() if before == after else (_EPOCH_UTC + micros * _MICROSECOND).isoformat()


def next_time(micros: int, reference: int, length: Period, timezone: str | None) -> int:
    """Return the first time `reference + n × length`, for any integer n, that is not before an instant.

    With a zone, days and months are calendar days and months. After the year 9999 the result is +∞.

    Example:
        >>> next_time(5, 2, Duration(micros=10), None), next_time(2, 2, Duration(micros=10), None)
        (12, 2)
    """
    months = length.n if isinstance(length, Months) else None
    if months is None and (timezone is None or int(length) % _DAY):  # type: ignore[arg-type]
        step = int(length)  # type: ignore[arg-type]
        return reference - (reference - micros) // step * step
    if micros > _LAST:
        return int(MAX_TIMESTAMP)
    micros = max(micros, _FIRST)  # no calendar reaches further back
    start, now = _to_local(reference, timezone), _to_local(micros, timezone)
    if months is None:
        step = int(length) // _DAY  # type: ignore[arg-type]
        n = (now.date() - start.date()).days // step
    else:
        step = months
        n = ((now.year - start.year) * _MONTHS_A_YEAR + now.month - start.month) // step

    def time(n: int) -> int:
        return _nth(start, n * step, timezone, months=months is not None)

    while time(n) >= micros and time(n - 1) >= micros:
        n -= 1
    while time(n) < micros:
        n += 1
    return time(n)


@functools.lru_cache(maxsize=4096)
def _nth(start: datetime.datetime, offset: int, timezone: str | None, *, months: bool) -> int:
    """Return the instant `offset` days or months after a local time; ±∞ outside the years 1 to 9999."""
    try:
        if not months:
            wall = start + datetime.timedelta(days=offset)
        else:
            year, month = divmod(start.year * _MONTHS_A_YEAR + start.month - 1 + offset, _MONTHS_A_YEAR)
            day = min(start.day, calendar.monthrange(year, month + 1)[1])
            wall = start.replace(year=year, month=month + 1, day=day)
    except (OverflowError, ValueError, calendar.IllegalMonthError):
        return int(MIN_TIMESTAMP) if offset < 0 else int(MAX_TIMESTAMP)
    return _from_local(wall, timezone)


def _from_local(wall: datetime.datetime, timezone: str | None) -> int:
    """Return the instant of a local time: the first if it occurs twice; shifted by the skipped time if skipped."""
    return (wall - _EPOCH) // _MICROSECOND - _offsets(wall, timezone)[wall.fold]


def _offsets(wall: datetime.datetime, timezone: str | None) -> tuple[int, int]:
    return (0, 0) if timezone is None else offsets(timezone, wall)


def _check_unique(wall: datetime.datetime, timezone: str | None) -> None:
    before, after = _offsets(wall, timezone)
    if before > after and not wall.fold:
        raise InvalidArgument(
            f"`reference` must say which time it is, got {wall.isoformat()!r}, which occurs twice in {timezone}",
            hint=f"pass '{wall.isoformat()}{offset_text(before)}' for the earlier time, or "
            f"'{wall.isoformat()}{offset_text(after)}' for the later one",
        )
    if before < after:
        raise InvalidArgument(
            f"`reference` must be a time that exists, got {wall.isoformat()!r}, which the clocks in {timezone} skip",
            hint=f"pass the time of another day, such as '1970-01-01T{wall.time().isoformat()}'",
        )


def _to_local(micros: int, timezone: str | None) -> datetime.datetime:
    zone = datetime.UTC if timezone is None else zoneinfo.ZoneInfo(timezone)
    return (_EPOCH_UTC + micros * _MICROSECOND).astimezone(zone).replace(tzinfo=None, fold=0)


def _without_zone(value: object) -> datetime.datetime | None:
    """Return a datetime without a zone, given one or its text; `None` for any other value."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None  # `instant` reports the error
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return datetime.datetime.combine(value.date(), value.time())  # a plain datetime, also for a pendulum datetime
    return None
