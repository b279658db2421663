"""Times as people read them, for tables: instants in UTC, spans, and lengths of time in the units that fit them.

A `repr` and an error state a time exactly; a table that many people read is better off without its microseconds.
"""

from __future__ import annotations

import datetime
from typing import Final

from dataflow_model.micros import EPOCH, GREATEST, LEAST, MICROS_PER_SECOND

__all__ = ["readable_duration", "readable_instant", "readable_span"]

_UNITS: Final = (
    ("day", 86_400_000_000, "h", 3_600_000_000),
    ("h", 3_600_000_000, "min", 60_000_000),
    ("min", 60_000_000, "s", MICROS_PER_SECOND),
)
"""Each unit with its microseconds, and the smaller unit that is shown beside it."""
_YEAR: Final = 31_557_600_000_000
_MILLISECOND: Final = 1_000
_BEFORE: Final = "before year 1"
_AFTER: Final = "after year 9999"


def readable_instant(micros: int, *, whole_seconds: bool = False) -> str:
    """Return an instant in UTC as a table shows it.

    Args:
        micros: microseconds since the epoch.
        whole_seconds: leave out the fraction of a second.

    Example:
        >>> readable_instant(1_357_043_400_000_000), readable_instant(1_500_000)
        ('2013-01-01 12:30:00', '1970-01-01 00:00:01.5')
        >>> readable_instant(1_500_000, whole_seconds=True), readable_instant(GREATEST), readable_instant(LEAST + 5)
        ('1970-01-01 00:00:01', '+inf', 'before year 1')
    """
    moment = _moment(micros)
    if isinstance(moment, str):
        return moment
    return f"{moment.date()} {_clock(moment, with_seconds=True, whole_seconds=whole_seconds)}"


def readable_span(start: int, end: int) -> str:
    """Return the span `[start, end)` as a table shows it: whole days as dates, and a date that is repeated only once.

    Example:
        >>> hour, day = 3_600_000_000, 86_400_000_000
        >>> readable_span(0, hour), readable_span(0, day), readable_span(23 * hour, day)
        ('[1970-01-01 00:00, 01:00)', '[1970-01-01, 1970-01-02)', '[1970-01-01 23:00, 24:00)')
        >>> readable_span(LEAST, GREATEST), readable_span(LEAST, LEAST + 5)
        ('[-inf, +inf)', 'before year 1')
    """
    first, last = _moment(start), _moment(end)
    if isinstance(first, str) or isinstance(last, str):
        texts = [
            bound if isinstance(bound, str) else readable_instant(at) for bound, at in ((first, start), (last, end))
        ]
        nowhere = {texts[0], texts[1]} in ({"-inf", _BEFORE}, {_BEFORE}, {_AFTER}, {_AFTER, "+inf"})
        return (_BEFORE if _BEFORE in texts else _AFTER) if nowhere else f"[{texts[0]}, {texts[1]})"
    midnight = datetime.time()
    if first.time() == last.time() == midnight:
        return f"[{first.date()}, {last.date()})"
    seconds = any(at.second or at.microsecond for at in (first, last))
    opening, closing = (_clock(at, with_seconds=seconds) for at in (first, last))
    if last.time() == midnight and (last - first).days == 0:
        closing = f"24:00{':00' * seconds}"
    elif last.date() != first.date():
        closing = f"{last.date()} {closing}"
    return f"[{first.date()} {opening}, {closing})"


def readable_duration(micros: int) -> str:
    """Return a length of time in the one or two largest units that fit it.

    Example:
        >>> [readable_duration(micros) for micros in (5, 1_500, 396_080, 12_345_678, -90_000_000)]
        ['5 µs', '1.5 ms', '396 ms', '12.3 s', '-1 min 30 s']
        >>> readable_duration(81_312_302_737_520), readable_duration(93_600_000_000)
        ('2.6 years', '1 day 2 h')
    """
    size = abs(micros)
    sign = "-" if micros < 0 else ""
    if size >= 2 * _YEAR:
        return f"{sign}{size / _YEAR:,.1f} years"
    for name, unit, smaller_name, smaller in _UNITS:
        if size >= unit:
            count, rest = divmod(size // smaller, unit // smaller)
            plural = "s" if name == "day" and count != 1 else ""
            return f"{sign}{count} {name}{plural}" + (f" {rest} {smaller_name}" if rest else "")
    if size >= MICROS_PER_SECOND or not size:
        return f"{sign}{_short(size / MICROS_PER_SECOND)} s"
    if size >= _MILLISECOND:
        return f"{sign}{size // _MILLISECOND if size >= 10 * _MILLISECOND else _short(size / _MILLISECOND)} ms"
    return f"{sign}{size} µs"


def _moment(micros: int) -> datetime.datetime | str:
    """Return an instant as a datetime, or what to say of one that no datetime can be."""
    if micros >= GREATEST - 1:  # the last instant of the global window, to which panes in it belong
        return "+inf"
    if micros == LEAST:
        return "-inf"
    try:
        return EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return _BEFORE if micros < 0 else _AFTER


def _clock(moment: datetime.datetime, *, with_seconds: bool, whole_seconds: bool = False) -> str:
    if not with_seconds:
        return f"{moment:%H:%M}"
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond and not whole_seconds else ""
    return f"{moment:%H:%M:%S}{fraction}"


def _short(count: float) -> str:
    """Return a number with at most one digit after the point, rounded down."""
    return f"{int(count * 10) / 10:.1f}".removesuffix(".0")
