"""Whole microseconds: the numbers that all times are, from text and as text.

`dataflow_model.time` makes types of them: instants, which count from the epoch in UTC, and durations.
"""

from __future__ import annotations

import datetime
import fractions
import math
import re
import time
from typing import Any, Final, SupportsInt

import numpy as np

from dataflow_model.errors import InvalidArgument

__all__ = [
    "EPOCH",
    "GREATEST",
    "LEAST",
    "MICROS_PER_SECOND",
    "duration_text",
    "format_duration",
    "format_instant",
    "micros_of_delta",
    "micros_of_numpy",
    "micros_of_seconds",
    "micros_since_epoch",
    "missing_time",
    "parse_duration",
    "parse_instant",
    "saturate",
    "shifted",
    "wall_clock",
]

MICROS_PER_SECOND: Final = 1_000_000
GREATEST: Final = 2**63 - 1
LEAST: Final = -(2**63)
"""−∞ and +∞: times have 64 bits."""
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_UNITS: Final = {
    "us": 1, "µs": 1, "μs": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_UNITS_OF_NUMPY: Final[dict[str, int | fractions.Fraction]] = {
    "W": 604_800_000_000,
    "D": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
    "ns": fractions.Fraction(1, 10**3),
    "ps": fractions.Fraction(1, 10**6),
    "fs": fractions.Fraction(1, 10**9),
    "as": fractions.Fraction(1, 10**12),
}
_QUANTITY: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zµ]+)\s*,?", re.IGNORECASE)


def saturate(micros: int) -> int:
    """Return a number of microseconds, or −∞ or +∞ if it lies beyond."""
    return max(LEAST, min(micros, GREATEST))


def shifted(instant: int, by: int) -> int:
    """Return an instant that is later by a number of microseconds; −∞ and +∞ stay what they are."""
    return instant if instant in (GREATEST, LEAST) else saturate(instant + by)


def wall_clock() -> int:
    """Return the wall clock's time in microseconds since the epoch."""
    return time.time_ns() // 1_000


def format_instant(instant: SupportsInt) -> str:
    """Format microseconds since the epoch as ISO 8601 in UTC, or as `+inf` or `-inf`.

    Example:
        >>> format_instant(1_000_000), format_instant(GREATEST), format_instant(LEAST)
        ('1970-01-01T00:00:01Z', '+inf', '-inf')
    """
    micros = int(instant)
    if GREATEST - 1 <= micros <= GREATEST:
        return "+inf" if micros == GREATEST else "+inf-1us"
    if micros == LEAST:
        return "-inf"
    try:
        moment = EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros}us"
    return moment.replace(tzinfo=None).isoformat() + "Z"


def format_duration(micros: int) -> str:
    """Format a number of microseconds with the most readable unit.

    Example:
        >>> format_duration(-5), format_duration(90_000_000)
        ('-5us', '90s')
    """
    if abs(micros) < MICROS_PER_SECOND and micros != 0:
        return f"{micros}us"
    return f"{micros / MICROS_PER_SECOND:.6f}".rstrip("0").rstrip(".") + "s"


def duration_text(duration: SupportsInt) -> str:
    """Format a duration as text that `duration` parses, in the largest unit that divides it evenly.

    Example:
        >>> duration_text(3_600_000_000), duration_text(90_000_000), duration_text(0)
        ('1 hour', '90 seconds', '0 seconds')
    """
    micros = int(duration)
    fitting = (name for name in ("day", "hour", "minute", "second", "millisecond") if micros % _UNITS[name] == 0)
    name = next(fitting, "microsecond") if micros else "second"
    count = micros // _UNITS[name]
    return f"{count} {name}" if abs(count) == 1 else f"{count} {name}s"


def micros_of_seconds(value: float) -> int:
    """Return a number of seconds in microseconds; raise `InvalidArgument` for NaN."""
    if isinstance(value, int):
        return saturate(value * MICROS_PER_SECOND)
    if math.isnan(value):
        raise InvalidArgument(
            f"a number of seconds must not be NaN, got {value!r}",
            hint="replace missing values before they become times",
        )
    micros: Any = value * MICROS_PER_SECOND  # which may be infinite, and cannot be rounded then
    return round(saturate(micros))


def parse_duration(text: str) -> int:
    """Return the length of time that a text names; raise `InvalidArgument` for other text.

    Example:
        >>> parse_duration("1 min 30 s")
        90000000
    """
    total, at = 0, 0
    while at < len(text):
        quantity = _QUANTITY.match(text, at)
        unit = quantity.group(2).lower() if quantity else ""
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        if quantity is None or unit not in _UNITS:
            raise InvalidArgument(
                f"{text!r} is not a duration",
                hint="use numbers with units (ms, s, min, h, days, weeks), such as '90 seconds' or '1 hour 30 min'; "
                "months and years differ in length: their windows are dm.CalendarWindows.months() and .years()",
            )
        total += round(fractions.Fraction(quantity.group(1)) * _UNITS[unit])
        at = quantity.end()
    if not text.strip():
        raise InvalidArgument(f"{text!r} is not a duration", hint="use '90 seconds', for example")
    return saturate(total)


def parse_instant(text: str) -> int:
    """Return the instant that a text names, in ISO 8601 with a zone; raise `InvalidArgument` for other text.

    Example:
        >>> parse_instant("1970-01-01T01:00+01:00"), parse_instant("+inf") == GREATEST
        (0, True)
    """
    if text in {"+inf", "inf", "-inf"}:
        return LEAST if text == "-inf" else GREATEST
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{text!r} is not an instant", hint="use '2013-01-01T05:00-05:00', for example"
        ) from error
    if moment.tzinfo is None:
        raise InvalidArgument(
            f"an instant needs a time zone, got {text!r}", hint="add 'Z' for UTC, or an offset such as '-05:00'"
        )
    return micros_since_epoch(moment)


def micros_of_delta(delta: datetime.timedelta) -> int:
    """Return a `timedelta`, pendulum's included, in microseconds."""
    # The method of timedelta itself: pendulum's override cannot divide by a plain timedelta.
    return int(datetime.timedelta.__floordiv__(delta, _MICROSECOND))


def micros_of_numpy(value: np.datetime64 | np.timedelta64) -> int:
    """Return a `datetime64` or `timedelta64` of NumPy in whole microseconds, rounded down.

    Raises:
        InvalidArgument: for NaT, and for a length of time without a unit, in months or in years.

    Example:
        >>> import numpy as np
        >>> micros_of_numpy(np.datetime64("1970-01-02")), micros_of_numpy(np.timedelta64(1500, "ns"))
        (86400000000, 1)
    """
    if np.isnat(value):
        raise missing_time(value)
    unit, step = np.datetime_data(value.dtype)
    if isinstance(value, np.datetime64) and unit in {"Y", "M"}:
        value, unit, step = value.astype("M8[D]"), "D", 1
    micros = _UNITS_OF_NUMPY.get(unit)
    if micros is None:
        raise InvalidArgument(
            f"a length of time needs a unit that always has the same length, got {value!r}",
            hint="use np.timedelta64(90, 's'), for example",
        )
    return saturate(math.floor(int(value.astype(np.int64)) * step * micros))


def missing_time(value: object) -> InvalidArgument:
    """Return the error for NaT of NumPy or pandas."""
    return InvalidArgument(
        f"a time must not be missing, got {value!r}",
        hint="filter such elements out before, or send them to an output: .with_exception_handling()",
    )


def micros_since_epoch(moment: datetime.datetime) -> int:
    """Return an aware `datetime`, pendulum's included, in microseconds since the epoch."""
    # The method of datetime itself: pendulum's override goes through a float and loses microseconds.
    return micros_of_delta(datetime.datetime.__sub__(moment, EPOCH))
