"""Two time domains, two types: event time and processing time, in whole microseconds of UTC.

`EventTime`, `ProcessingTime` and `Duration` are `int` underneath, so they compare, hash and pickle at full speed,
but a type checker refuses to mix the domains. Sums saturate at `MIN_TIMESTAMP` (-∞) and `MAX_TIMESTAMP` (+∞).
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, overload

import pendulum

from dataflow_model.errors import InvalidArgument, InvalidType, explain

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "Duration",
    "DurationLike",
    "EventTime",
    "Instant",
    "InstantLike",
    "ProcessingTime",
    "check_zone",
    "duration",
    "duration_text",
    "event_time",
    "format_instant",
    "processing_time",
]

MICROS_PER_SECOND: Final = 1_000_000
_MAX: Final = 2**63 - 1
_MIN: Final = -(2**63)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNITS: Final = {
    "us": 1, "µs": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zµ]+)\s*,?", re.IGNORECASE)


def _saturate(micros: int) -> int:
    return max(_MIN, min(micros, _MAX))


class Duration(int):
    """A length of time in whole microseconds; may be negative, saturates like instants do.

    Example:
        >>> duration("90 seconds")
        Duration(90s)
        >>> duration("1 hour") + duration(0.5)
        Duration(3600.5s)
    """

    __slots__ = ()

    def __add__(self, other: Duration) -> Self:  # type: ignore[override]
        if isinstance(other, Instant):
            return NotImplemented  # duration + instant is an instant: Instant.__radd__
        return type(self)(_saturate(int(self) + int(other)))

    def __radd__(self, other: int) -> Self:
        return self + Duration(other)  # lets sum() start from 0

    def __sub__(self, other: Duration) -> Self:  # type: ignore[override]
        if isinstance(other, Instant):
            raise InvalidType(f"an instant cannot be subtracted from a duration, got {self!r} - {other!r}")
        return type(self)(_saturate(int(self) - int(other)))

    def __mul__(self, times: int) -> Self:
        return type(self)(_saturate(int(self) * times))

    __rmul__ = __mul__

    def __neg__(self) -> Self:
        return type(self)(_saturate(-int(self)))

    def __repr__(self) -> str:
        return f"Duration({format_duration(int(self))})"

    if TYPE_CHECKING:

        def __lt__(self, other: Duration) -> bool: ...  # type: ignore[override]
        def __le__(self, other: Duration) -> bool: ...  # type: ignore[override]
        def __gt__(self, other: Duration) -> bool: ...  # type: ignore[override]
        def __ge__(self, other: Duration) -> bool: ...  # type: ignore[override]


class Instant(int):
    """A point in time: whole microseconds since the epoch, UTC. Use its two subclasses."""

    __slots__ = ()

    def __add__(self, other: Duration) -> Self:  # type: ignore[override]
        if self in (_MAX, _MIN):
            return self
        return type(self)(_saturate(int(self) + int(other)))

    def __radd__(self, other: Duration) -> Self:  # type: ignore[override]
        return self + other

    @overload  # type: ignore[override]
    def __sub__(self, other: Duration) -> Self: ...
    @overload
    def __sub__(self, other: Self) -> Duration: ...  # type: ignore[overload-cannot-match, unused-ignore]
    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Instant):
            return Duration(_saturate(int(self) - int(other)))
        if self in (_MAX, _MIN):
            return self
        return type(self)(_saturate(int(self) - int(other)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({format_instant(int(self))})"

    def to_datetime(self) -> datetime.datetime:
        """Return the instant as an aware `datetime` in UTC; `OverflowError` for ±∞."""
        return _EPOCH + datetime.timedelta(microseconds=int(self))


class EventTime(Instant):
    """When the fact happened.

    Example:
        >>> event_time("2013-01-01T05:00-05:00")
        EventTime(2013-01-01T10:00:00Z)
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __lt__(self, other: EventTime) -> bool: ...  # type: ignore[override]
        def __le__(self, other: EventTime) -> bool: ...  # type: ignore[override]
        def __gt__(self, other: EventTime) -> bool: ...  # type: ignore[override]
        def __ge__(self, other: EventTime) -> bool: ...  # type: ignore[override]


class ProcessingTime(Instant):
    """When the fact was observed.

    Example:
        >>> processing_time("2000-01-01T12:04:59Z") + duration("1 minute")
        ProcessingTime(2000-01-01T12:05:59Z)
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __lt__(self, other: ProcessingTime) -> bool: ...  # type: ignore[override]
        def __le__(self, other: ProcessingTime) -> bool: ...  # type: ignore[override]
        def __gt__(self, other: ProcessingTime) -> bool: ...  # type: ignore[override]
        def __ge__(self, other: ProcessingTime) -> bool: ...  # type: ignore[override]


MIN_TIMESTAMP: Final = EventTime(_MIN)
"""−∞: no event is older."""
MAX_TIMESTAMP: Final = EventTime(_MAX)
"""+∞: a watermark here says that the input is complete."""

DurationLike: TypeAlias = Duration | datetime.timedelta | int | float | str
"""A duration as users may write it: a number means seconds; a string has units (`"90 seconds"`, `"1 hour 30 min"`)."""
InstantLike: TypeAlias = EventTime | ProcessingTime | datetime.datetime | int | float | str
"""An instant as users may write it: a number means seconds since the epoch; text and datetimes need a zone."""


def duration(value: DurationLike) -> Duration:
    """Return `value` as a `Duration`.

    Args:
        value: a `Duration`, a `timedelta` (pendulum's included), a number of seconds, or text such as
            `"90 seconds"`, `"1 hour 30 minutes"`, `"250 ms"`.

    Raises:
        InvalidArgument: for text without a known unit, or a number that is not finite.
        InvalidType: for a value of another type.

    Example:
        >>> duration("1 hour 30 min") == duration(5400)
        True
    """
    match value:
        case Duration():
            return value
        case bool() | Instant():
            pass
        case datetime.timedelta():
            return Duration(_micros(value))
        case int() | float():
            return Duration(_seconds(value))
        case str():
            return Duration(_parse_duration(value))
    raise InvalidType(
        explain(
            f"a duration must be a timedelta, seconds or text, got {value!r} of type {type(value).__name__}",
            hint="pass '90 seconds', 90 or datetime.timedelta(seconds=90)",
        )
    )


def event_time(value: InstantLike) -> EventTime:
    """Return `value` as an `EventTime`; see `InstantLike` for what may be given.

    Raises:
        InvalidArgument: for text or a datetime without a time zone, or text that is no instant.
        InvalidType: for a `ProcessingTime`, or a value of another type.

    Example:
        >>> event_time("2000-01-01T12:00:26Z").to_datetime().minute
        0
    """
    if isinstance(value, ProcessingTime):
        raise InvalidType(f"expected an event time, got the processing time {value!r}")
    return EventTime(_instant(value))


def processing_time(value: InstantLike) -> ProcessingTime:
    """Return `value` as a `ProcessingTime`; the same forms and errors as `event_time`.

    Example:
        >>> processing_time(0)
        ProcessingTime(1970-01-01T00:00:00Z)
    """
    if isinstance(value, EventTime):
        raise InvalidType(f"expected a processing time, got the event time {value!r}")
    return ProcessingTime(_instant(value))


def format_instant(micros: int) -> str:
    """Write microseconds since the epoch as ISO 8601 in UTC, ±∞ by its name.

    Example:
        >>> format_instant(1_000_000), format_instant(MAX_TIMESTAMP), format_instant(MIN_TIMESTAMP)
        ('1970-01-01T00:00:01Z', '+inf', '-inf')
    """
    if micros >= _MAX - 1:
        return "+inf" if micros == _MAX else "+inf-1us"
    if micros == _MIN:
        return "-inf"
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=int(micros))
    except OverflowError:
        return f"{int(micros)}us"
    return moment.replace(tzinfo=None).isoformat() + "Z"


def format_duration(micros: int) -> str:
    """Write a number of microseconds with the unit that reads best.

    Example:
        >>> format_duration(-5), format_duration(90_000_000)
        ('-5us', '90s')
    """
    if abs(micros) < MICROS_PER_SECOND and micros != 0:
        return f"{micros}us"
    return f"{micros / MICROS_PER_SECOND:.6f}".rstrip("0").rstrip(".") + "s"


def duration_text(micros: int) -> str:
    """Write a length of time as text that `duration` reads back, in the largest unit that divides it.

    Example:
        >>> duration_text(3_600_000_000), duration_text(90_000_000), duration_text(0)
        ('1 hour', '90 seconds', '0 seconds')
    """
    micros = int(micros)
    fitting = (name for name in ("day", "hour", "minute", "second", "millisecond") if micros % _UNITS[name] == 0)
    name = next(fitting, "microsecond") if micros else "second"
    count = micros // _UNITS[name]
    return f"{count} {name}" if abs(count) == 1 else f"{count} {name}s"


def check_zone(name: object) -> None:
    """Refuse what is no name of a time zone."""
    problem = f"`timezone` must be the name of a zone of the IANA database, got {name!r}"
    hint = "use 'America/New_York', for example"
    if not isinstance(name, str):
        raise InvalidType(explain(problem, hint=hint))
    try:
        pendulum.timezone(name)
    except (ValueError, OSError) as error:
        raise InvalidArgument(explain(problem, hint=hint)) from error


def _seconds(value: float) -> int:
    if math.isnan(value):
        raise InvalidArgument(f"a number of seconds must be a number, got {value!r}")
    if value in (float("inf"), float("-inf")):
        return _MAX if value > 0 else _MIN
    return _saturate(round(value * MICROS_PER_SECOND))


def _parse_duration(text: str) -> int:
    total, at = 0, 0
    while at < len(text):
        found = _QUANTITY.match(text, at)
        unit = found.group(2).lower() if found else ""
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        if found is None or unit not in _UNITS:
            raise InvalidArgument(
                explain(
                    f"{text!r} is not a duration",
                    hint="use numbers with units, such as '90 seconds' or '1 hour 30 min'",
                )
            )
        total += round(decimal.Decimal(found.group(1)) * _UNITS[unit])
        at = found.end()
    if not text.strip():
        raise InvalidArgument(explain(f"{text!r} is not a duration", hint="use '90 seconds', for example"))
    return _saturate(total)


def _instant(value: InstantLike) -> int:
    match value:
        case Instant():
            return int(value)
        case bool() | Duration():
            pass
        case int() | float():
            return _seconds(value)
        case datetime.datetime():
            if value.tzinfo is None:
                raise InvalidArgument(
                    explain(
                        f"an instant needs a time zone, got {value!r}",
                        hint="add one: value.replace(tzinfo=datetime.UTC)",
                    )
                )
            return _since_epoch(value)
        case str():
            return _parse_instant(value)
    raise InvalidType(
        explain(
            f"an instant must be a datetime, seconds since the epoch or text, "
            f"got {value!r} of type {type(value).__name__}",
            hint="pass '2013-01-01T05:00-05:00' or datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)",
        )
    )


def _parse_instant(text: str) -> int:
    if text in {"+inf", "inf", "-inf"}:
        return _MIN if text == "-inf" else _MAX
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(
            explain(f"{text!r} is not an instant", hint="use '2013-01-01T05:00-05:00', for example")
        ) from error
    if moment.tzinfo is None:
        raise InvalidArgument(
            explain(
                f"an instant needs a time zone, got {text!r}", hint="add 'Z' for UTC, or an offset such as '-05:00'"
            )
        )
    return _since_epoch(moment)


def _micros(delta: datetime.timedelta) -> int:
    # The method of timedelta itself: pendulum's override cannot divide by a plain timedelta.
    return int(datetime.timedelta.__floordiv__(delta, datetime.timedelta(microseconds=1)))


def _since_epoch(moment: datetime.datetime) -> int:
    # The method of datetime itself: pendulum's override goes through a float and loses microseconds.
    return _micros(datetime.datetime.__sub__(moment, _EPOCH))
