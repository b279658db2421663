"""Two time domains, two types: event time and processing time, in whole microseconds of UTC.

`EventTime`, `ProcessingTime` and `Duration` are subclasses of `int`, so they compare, hash and pickle at full speed,
but they cannot be mixed with each other or with bare numbers. Type checkers reject that too, because they are not told
of `int`: `int(time)` is the number. Sums saturate at `MIN_TIMESTAMP` (−∞) and `MAX_TIMESTAMP` (+∞).
"""

from __future__ import annotations

import datetime
import math
import numbers
import operator
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Never,
    NoReturn,
    Self,
    SupportsIndex,
    SupportsInt,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np

from dataflow_model.errors import InvalidArgument, InvalidType, explain
from dataflow_model.micros import (
    EPOCH,
    GREATEST,
    LEAST,
    duration_text,
    format_duration,
    format_instant,
    micros_of_delta,
    micros_of_numpy,
    micros_of_seconds,
    micros_since_epoch,
    missing_time,
    parse_duration,
    parse_instant,
    saturate,
    shifted,
)

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "Duration",
    "DurationLike",
    "EventTime",
    "Instant",
    "InstantLike",
    "ProcessingTime",
    "duration",
    "duration_text",
    "event_time",
    "format_instant",
    "processing_time",
]

# The end of the year 9999. Larger numbers are not meant as seconds: in milliseconds, they are times after 1978.
_END_OF_SECONDS: Final = 253_402_300_800


def _checked(micros: _MicrosT) -> _MicrosT:
    """Return an instant or a duration that fits into 64 bits, as times are kept; one made of a larger number does not.

    Raises:
        InvalidArgument: for any other.
    """
    if LEAST <= int(micros) <= GREATEST:
        return micros
    greatest = f"dm.{type(micros).__name__}({'micros=' if isinstance(micros, Duration) else ''}2**63 - 1)"
    raise InvalidArgument(
        f"{_kind(micros)} must fit into 64 bits of microseconds, got {micros!r}",
        hint=f"add durations instead of numbers, since their sums end at ±∞, or use {greatest}",
    )


if TYPE_CHECKING:

    class _Number:
        """An `int`, as type checkers are to see it: they take any sum or comparison of an `int` with a number."""

        def __new__(cls, micros: SupportsInt, /) -> Self: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...
        def __bool__(self) -> bool: ...
        def __eq__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...
        def __truediv__(self, other: _Number | float) -> float: ...
        def __floordiv__(self, other: Any) -> int: ...
        def __mod__(self, other: Any) -> Any: ...

else:
    _Number = int


_MicrosT = TypeVar("_MicrosT", bound="_Micros")


class _Micros(_Number):
    """The base of instants and durations: `+`, `-` and ordering reject bare numbers.

    A bare number passed as an instant or a duration means seconds; in arithmetic it would be microseconds. `==` and
    `!=` reject it only where the unit decides: it would be equal if it counted seconds. Python
    computes `number + time` and `number < time` itself if the number is a `float` or a `bool`, without asking the
    subclass of `int`, so these two cannot be rejected.
    """

    __slots__ = ()
    __array_priority__ = 1_000  # NumPy scalars and arrays on the left defer to this class

    if not TYPE_CHECKING:  # type checkers see the orderings of the subclasses, each within its own kind

        def __lt__(self, other: object) -> bool:
            if type(other) is not type(self) and not self._comparable(other, "<"):
                return NotImplemented
            return int.__lt__(self, other)

        def __le__(self, other: object) -> bool:
            if type(other) is not type(self) and not self._comparable(other, "<="):
                return NotImplemented
            return int.__le__(self, other)

        def __gt__(self, other: object) -> bool:
            if type(other) is not type(self) and not self._comparable(other, ">"):
                return NotImplemented
            return int.__gt__(self, other)

        def __ge__(self, other: object) -> bool:
            if type(other) is not type(self) and not self._comparable(other, ">="):
                return NotImplemented
            return int.__ge__(self, other)

        def __rsub__(self, other: Any) -> Any:
            self._refuse(other, f"{other!r} - {self!r}", type(self))
            return NotImplemented

        def __eq__(self, other: object) -> bool:
            equal: bool = int.__eq__(self, other)
            if equal is True or type(other) is type(self):
                return equal
            self._refuse_seconds(other, "==")
            return int(self) == other if equal is NotImplemented else equal  # NumPy numbers compare with a plain `int`

        def __ne__(self, other: object) -> bool:
            differs: bool = int.__ne__(self, other)
            if differs is False or type(other) is type(self):
                return differs
            self._refuse_seconds(other, "!=")
            return int(self) != other if differs is NotImplemented else differs

        __hash__ = int.__hash__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - the name and signature are IPython's
        """Print the `repr`; IPython and hypothesis would otherwise print a plain number."""
        del cycle
        printer.text(repr(self))

    def _comparable(self, other: object, sign: str) -> bool:
        """Return whether `other` is of the same kind; raise for a bare number and for another kind of time."""
        if not isinstance(other, _Micros):
            self._refuse(other, f"{self!r} {sign} {other!r}", type(self))
            return False
        if isinstance(other, type(self)) or isinstance(self, type(other)):
            return True
        raise InvalidType(
            f"{_kind(self)} and {_kind(other)} cannot be compared or subtracted, got {self!r} {sign} {other!r}",
            hint="compare two event times or two processing times; event_time(int(x) / 10**6) converts",
        )

    def _refuse(self, other: object, expression: str, kind: type[_Micros]) -> None:
        """Raise if `other` is meant as a time but is none yet; the hint names what makes it one.

        Args:
            other: a value of another class. Of an unknown one, Python reports that the operation does not exist.
            expression: the operation.
            kind: what is needed in the place of `other`.
        """
        match other:
            case _Micros():
                return
            case datetime.timedelta() | np.timedelta64():
                needed: type[_Micros] = Duration
            case datetime.datetime() | np.datetime64():
                needed = type(self) if isinstance(self, Instant) else EventTime
            case str():
                needed = kind
            case _ if isinstance(other, numbers.Number) or hasattr(other, "dtype"):
                self._refuse_number(other, expression, kind)  # `dtype`: NumPy booleans and arrays are not a `Number`
            case _:
                return
        raise InvalidType(
            f"{_kind(self)} and a value of type {type(other).__name__} do not mix, got {expression}",
            hint=f"convert it first: dm.{_READERS[needed]}({other!r})",
        )

    def _refuse_seconds(self, other: object, sign: str) -> None:
        """Raise if `other` is a number that would equal this time if it counted seconds, which it does not."""
        if type(other) is not int and (isinstance(other, _NO_SECONDS) or not isinstance(other, _SECONDS)):
            return
        seconds: Any = other
        if seconds and int(self) == seconds * 1_000_000:
            self._refuse_number(other, f"{self!r} {sign} {other!r}", type(self))

    def _refuse_number(self, other: object, expression: str, kind: type[_Micros]) -> NoReturn:
        """Raise the error for a bare number; the hint names the two ways to give it a unit."""
        number = repr(other) if isinstance(other, int | float) else "n"
        problem = f"{_kind(self)} and a bare number do not mix, since a number has no unit, got {expression}"
        in_micros = f"dm.Duration(micros={number})" if kind is Duration else f"dm.{kind.__name__}({number})"
        hint = f"write dm.{_READERS[kind]}({number}) for seconds or {in_micros} for microseconds"
        raise InvalidType(problem, hint=hint)


def _kind(value: _Micros) -> str:
    match value:
        case EventTime():
            return "an event time"
        case ProcessingTime():
            return "a processing time"
        case Duration():
            return "a duration"
        case _:
            return "an instant"


def _is_sum_of_nothing(value: object) -> bool:
    """Return whether a value is the int 0, from which `sum` and `dm.Sum` start, and which has no need of a unit."""
    return type(value) is int and value == 0


if TYPE_CHECKING:

    def _new(kind: type[_MicrosT], micros: int, /) -> _MicrosT:
        """Make a time of an int without the check of `Duration`, for results of arithmetic."""
        ...

else:
    _new = int.__new__


class Duration(_Micros):
    """A length of time in whole microseconds; it may be negative, and saturates as instants do.

    `duration` makes one of seconds or of text, and `Duration(micros=n)` of microseconds.

    `+`, `-` and ordering take another duration. They reject a bare number, which would silently be microseconds. The
    sum of nothing is the number 0, so `+` and `-` take the int 0, which is the same length in every unit. Scaling with
    `*` rounds to a microsecond, as `timedelta` does; `/`, `//` and `%` work on the plain number of microseconds.

    Raises:
        InvalidType: for a bare number other than 0, text, or `micros` that are not whole; by `+` and `-` with a bare
            number other than 0, including `bool` and NumPy numbers; by `<`, `<=`, `>` and `>=` with any bare number; by
            `*` with another time or a sequence.

    Source: Beam's `Duration`, whose bare number is seconds.

    Example:
        >>> duration("90 seconds")
        Duration(90s)
        >>> duration("1 hour") + duration(0.5)
        Duration(3600.5s)
        >>> sum([duration("1 hour"), duration("1 second")]) > duration("1 hour")
        True
        >>> duration("1 hour") + 5
        Traceback (most recent call last):
            ...
        dataflow_model.errors.InvalidType: a duration and a bare number do not mix, since a number has no unit, got ...
        Hint: write dm.duration(5) for seconds or dm.Duration(micros=5) for microseconds
    """

    __slots__ = ()

    def __new__(cls, length: Literal[0] | Duration = 0, /, *, micros: SupportsIndex = 0, **others: Never) -> Self:
        """Return the duration; the number must be whole, as `int` would cut off the rest or take text.

        A number by position is for `pickle`, which does not call `__init__`.
        """
        given: Any = length
        if type(given) is int and given == 0:
            given = micros
        unknown: dict[str, Any] = others
        if unknown:
            name, value = next(iter(unknown.items()))
            raise InvalidType(f"Duration has no argument {name!r}", hint=f"write dm.duration('{value} {name}')")
        if type(given) is int:
            return _new(cls, given)
        try:
            return _new(cls, operator.index(given))
        except TypeError:
            raise InvalidType(
                f"{cls.__name__} takes a whole number of microseconds, got {given!r}",
                hint=f"write dm.duration({given!r})" + (" for seconds" if isinstance(given, float) else ""),
            ) from None

    if not TYPE_CHECKING:

        def __init__(self, length: Duration | int = 0, /, **_: SupportsIndex) -> None:
            """Reject a bare number other than 0, which others take for seconds."""
            if length and not isinstance(length, Duration):
                raise InvalidType(
                    f"a duration needs a unit, got Duration({length!r})",
                    hint=f"write dm.duration({int(length)}) for seconds or dm.Duration(micros={int(length)}) for "
                    "microseconds",
                )

    def __add__(self, other: Duration) -> Self:
        operand: Any = other
        if isinstance(operand, Duration):
            return _new(type(self), saturate(int(self) + int(operand)))
        if _is_sum_of_nothing(operand):
            return self
        self._refuse(operand, f"{self!r} + {other!r}", Duration)
        return NotImplemented  # duration + instant is an instant: Instant.__radd__

    def __radd__(self, other: int) -> Self:
        if _is_sum_of_nothing(other):
            return self
        self._refuse(other, f"{other!r} + {self!r}", Duration)
        return NotImplemented

    def __sub__(self, other: Duration) -> Self:
        operand: Any = other
        if isinstance(operand, Duration):
            return _new(type(self), saturate(int(self) - int(operand)))
        if _is_sum_of_nothing(operand):
            return self
        if isinstance(operand, Instant):
            raise InvalidType(
                f"an instant cannot be subtracted from a duration, got {self!r} - {other!r}",
                hint="swap the two: instant - duration",
            )
        self._refuse(operand, f"{self!r} - {other!r}", Duration)
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        if _is_sum_of_nothing(other):
            return -self
        self._refuse(other, f"{other!r} - {self!r}", Duration)
        return NotImplemented

    def __mul__(self, times: float) -> Self:
        factor: Any = times
        # To NumPy, a `timedelta64` is an integer, whatever its unit.
        if isinstance(factor, _Micros | str | bytes | list | tuple | np.timedelta64):
            raise InvalidType(
                f"a duration is scaled by a number, got {self!r} * {times!r}", hint="write dm.duration('1 hour') * 2"
            )
        if not isinstance(factor, numbers.Real):
            return NotImplemented
        product: Any = int(self) * factor
        if product != product:  # noqa: PLR0124 - NaN, which `saturate` would take for −∞
            raise InvalidArgument(
                f"a duration cannot be scaled to NaN, got {self!r} * {times!r}",
                hint="replace missing values before they become times",
            )
        return _new(type(self), round(saturate(product)))

    __rmul__ = __mul__

    def __neg__(self) -> Self:
        return _new(type(self), saturate(-int(self)))

    def __abs__(self) -> Self:
        return _new(type(self), saturate(abs(int(self))))

    def __repr__(self) -> str:
        return f"Duration({format_duration(int(self))})"

    if TYPE_CHECKING:

        def __lt__(self, other: Duration) -> bool: ...
        def __le__(self, other: Duration) -> bool: ...
        def __gt__(self, other: Duration) -> bool: ...
        def __ge__(self, other: Duration) -> bool: ...


class Instant(_Micros):
    """A point in time, in whole microseconds since the epoch, UTC. Use its two subclasses.

    Durations can be added to and subtracted from an instant; instants of the same kind can be subtracted and compared.
    `//` and `%` divide the time since the epoch by a duration. A bare number is rejected, since it would silently be
    microseconds; `int(instant)` is the number of microseconds since the epoch.

    Raises:
        InvalidType: by `+`, `-`, `//`, `%`, `<`, `<=`, `>` and `>=` with a bare number or an instant of the other kind.

    Example:
        >>> noon = event_time("2013-01-01T12:30Z")
        >>> noon % duration("1 hour"), noon // duration("1 day"), int(noon)
        (Duration(1800s), 15706, 1357043400000000)
    """

    __slots__ = ()

    def __add__(self, other: Duration) -> Self:
        operand: Any = other
        if isinstance(operand, Duration):
            return type(self)(shifted(int(self), int(operand)))
        if isinstance(operand, Instant):
            raise InvalidType(
                f"two instants cannot be added, got {self!r} + {other!r}",
                hint="add a duration to an instant, or subtract the instants",
            )
        self._refuse(operand, f"{self!r} + {other!r}", Duration)
        return NotImplemented

    def __radd__(self, other: Duration) -> Self:
        operand: Any = other
        if isinstance(operand, Duration):
            return self + operand
        self._refuse(operand, f"{other!r} + {self!r}", Duration)
        return NotImplemented

    @overload
    def __sub__(self, other: Duration) -> Self: ...
    @overload
    def __sub__(self, other: Self) -> Duration: ...  # type: ignore[overload-cannot-match, unused-ignore]
    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Duration):
            return type(self)(shifted(int(self), -int(other)))
        if isinstance(other, Instant) and self._comparable(other, "-"):
            return _new(Duration, saturate(int(self) - int(other)))
        self._refuse(other, f"{self!r} - {other!r}", Duration)
        return NotImplemented

    def __bool__(self) -> bool:
        return True  # the epoch is an instant like any other: `held or timestamp` must not pass over it

    def __mod__(self, other: Duration) -> Duration:
        operand: Any = other
        if isinstance(operand, Duration):
            return _new(Duration, int(self) % int(operand))
        self._refuse_divisor(operand, f"{self!r} % {other!r}")
        return NotImplemented

    def __floordiv__(self, other: Duration) -> int:
        operand: Any = other
        if isinstance(operand, Duration):
            return int(self) // int(operand)
        self._refuse_divisor(operand, f"{self!r} // {other!r}")
        return NotImplemented

    def __divmod__(self, other: Duration) -> tuple[int, Duration]:
        return self // other, self % other

    def __rmod__(self, other: object) -> Any:
        return self._refuse_as_divisor(other, "%")

    def __rfloordiv__(self, other: object) -> Any:
        return self._refuse_as_divisor(other, "//")

    def __rdivmod__(self, other: object) -> Any:
        return self._refuse_as_divisor(other, "//")

    def _refuse_divisor(self, other: object, expression: str) -> None:
        if isinstance(other, Instant):
            raise InvalidType(
                f"an instant is divided by a duration, got {expression}",
                hint="subtract an instant first: (timestamp - start) // dm.duration('1 hour')",
            )
        self._refuse(other, expression, Duration)

    def _refuse_as_divisor(self, other: object, sign: str) -> Any:
        if isinstance(other, _Micros | numbers.Number) or hasattr(other, "dtype"):
            raise InvalidType(
                f"nothing can be divided by an instant, got {other!r} {sign} {self!r}",
                hint="subtract an instant first: dm.duration('1 day') // (timestamp - start)",
            )
        return NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}({format_instant(int(self))})"

    def __format__(self, spec: str) -> str:
        """Format as `datetime` does, in UTC, if `spec` has codes such as `%H:%M`; `to_datetime` has the limits."""
        return format(self.to_datetime(), spec) if "%" in spec else super().__format__(spec)

    def to_datetime(self) -> datetime.datetime:
        """Return the instant as an aware `datetime` in UTC; raise `OverflowError` outside the years 1 to 9999."""
        try:
            return EPOCH + datetime.timedelta(microseconds=int(self))
        except OverflowError:
            raise OverflowError(
                explain(
                    f"a datetime is in the years 1 to 9999, got {self!r}",
                    hint="elements without event times, as of dm.Create, are at -inf: give them times with "
                    "dm.TimestampedValue or dm.WithTimestamps; the global window and a completed watermark are at +inf",
                )
            ) from None


class EventTime(Instant):
    """The time at which an event happened.

    Example:
        >>> event_time("2013-01-01T05:00-05:00")
        EventTime(2013-01-01T10:00:00Z)
        >>> f"{event_time('2013-01-01T05:00-05:00'):%H:%M}"
        '10:00'
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __lt__(self, other: EventTime) -> bool: ...
        def __le__(self, other: EventTime) -> bool: ...
        def __gt__(self, other: EventTime) -> bool: ...
        def __ge__(self, other: EventTime) -> bool: ...


class ProcessingTime(Instant):
    """The time at which an event was observed.

    Example:
        >>> processing_time("2000-01-01T12:04:59Z") + duration("1 minute")
        ProcessingTime(2000-01-01T12:05:59Z)
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __lt__(self, other: ProcessingTime) -> bool: ...
        def __le__(self, other: ProcessingTime) -> bool: ...
        def __gt__(self, other: ProcessingTime) -> bool: ...
        def __ge__(self, other: ProcessingTime) -> bool: ...


_SECONDS: Final = (int, float, np.number)
_NO_SECONDS: Final = (_Micros, bool, np.timedelta64)
_READERS: Final = {EventTime: "event_time", ProcessingTime: "processing_time", Duration: "duration"}

MIN_TIMESTAMP: Final = EventTime(LEAST)
"""−∞: no event is earlier."""
MAX_TIMESTAMP: Final = EventTime(GREATEST)
"""+∞: a watermark with this value means that the input is complete."""

DurationLike: TypeAlias = Duration | datetime.timedelta | np.timedelta64 | int | float | str
"""A value that can be passed as a duration: a number of seconds, text with units (`"90 seconds"`), or a `timedelta`."""
InstantLike: TypeAlias = EventTime | ProcessingTime | datetime.datetime | np.datetime64 | int | float | str
"""A value that can be passed as an instant: seconds since the epoch, or text or a datetime with a time zone.

A `datetime64` of NumPy, which never has a time zone, is in UTC, as columns without one are.
"""


def duration(value: DurationLike) -> Duration:
    """Return `value` as a `Duration`.

    Args:
        value: a `Duration`, a `timedelta` (those of pendulum, pandas and NumPy included), a number of seconds, or text
            such as `"90 seconds"`, `"1 hour 30 minutes"`, `"250 ms"`. Nanoseconds are rounded down.

    Raises:
        InvalidArgument: for text without a known unit, NaN, NaT, a `timedelta64` without a unit, in months or in years,
            or a `Duration` of more than 64 bits.
        InvalidType: for a value of another type.

    Example:
        >>> duration("1 hour 30 min") == duration(5400)
        True
    """
    given: object = value
    match given:
        case Duration():
            return _checked(given)
        case bool() | Instant():
            pass
        case np.timedelta64():
            return _new(Duration, micros_of_numpy(given))
        case datetime.timedelta():
            return _new(Duration, saturate(micros_of_delta(given)))
        case int() | float():
            return _new(Duration, micros_of_seconds(given))
        case numbers.Integral():  # as of NumPy
            return duration(int(given))
        case str():
            return _new(Duration, parse_duration(given))
    if type(given).__name__ == "NaTType":
        raise missing_time(given)
    raise InvalidType(
        f"a duration must be a timedelta, seconds or text, got {value!r} of type {type(value).__name__}",
        hint="pass '90 seconds', 90 or datetime.timedelta(seconds=90)",
    )


def event_time(value: InstantLike) -> EventTime:
    """Return `value` as an `EventTime`; see `InstantLike` for the values it accepts.

    Raises:
        InvalidArgument: for text or a datetime without a time zone, text that is not an instant, numbers that are too
            large for seconds, such as milliseconds, and an `EventTime` of more than 64 bits.
        InvalidType: for a `ProcessingTime`, or a value of another type.

    Example:
        >>> event_time("2000-01-01T12:00:26Z").to_datetime().minute
        0
    """
    if type(value) is EventTime:
        return _checked(value)  # at once: the engine makes windows from what it has converted before
    if isinstance(value, ProcessingTime):
        raise InvalidType(
            f"expected an event time, got the processing time {value!r}",
            hint="use the element's `timestamp`; only timers of the processing-time domain take processing times",
        )
    return EventTime(_instant(value))


def processing_time(value: InstantLike) -> ProcessingTime:
    """Return `value` as a `ProcessingTime`; it accepts the same values and raises the same errors as `event_time`.

    Example:
        >>> processing_time(0)
        ProcessingTime(1970-01-01T00:00:00Z)
    """
    if isinstance(value, EventTime):
        raise InvalidType(
            f"expected a processing time, got the event time {value!r}",
            hint="use dm.processing_time(…); only event-time timers take event times",
        )
    return ProcessingTime(_instant(value))


def _instant(value: object) -> int:
    match value:
        case Instant():
            return int(_checked(value))
        case bool() | Duration():
            pass
        case int() | float():
            if _END_OF_SECONDS <= abs(value) < math.inf:
                raise InvalidArgument(
                    f"an instant in seconds since the epoch must be in the years -6060 to 9999, got {value!r}",
                    hint="divide milliseconds by 1_000, and microseconds by 1_000_000",
                )
            return micros_of_seconds(value)
        case np.timedelta64():
            pass  # which is a `numbers.Integral`
        case np.datetime64():
            return micros_of_numpy(value)
        case numbers.Integral():
            return _instant(int(value))
        case datetime.datetime():
            if value.tzinfo is None:
                if type(value).__name__ == "NaTType":  # pandas' missing time is a datetime
                    raise missing_time(value)
                raise InvalidArgument(
                    f"an instant needs a time zone, got {value!r}",
                    hint="add one: value.replace(tzinfo=datetime.UTC)",
                )
            return micros_since_epoch(value)
        case str():
            return parse_instant(value)
    raise InvalidType(
        f"an instant must be a datetime, seconds since the epoch or text, got {value!r} of type {type(value).__name__}",
        hint="pass '2013-01-01T05:00-05:00' or datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)",
    )
