"""Days, weeks, months and years of a local calendar, daylight saving time included."""

from __future__ import annotations

import bisect
import datetime
import enum
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import attrs
import numpy as np

from dataflow_model.arguments import calls_explained, check_zone, factory
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.values import interval
from dataflow_model.windowing._bounds import inside, inside_many
from dataflow_model.windowing._local_dates import DAY, boundaries_around
from dataflow_model.windowing.base import WindowFn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataflow_model.time import EventTime
    from dataflow_model.values import IntervalWindow

_EPOCH_DAY: Final = datetime.date(1970, 1, 1)
_EPOCH_MONDAY: Final = datetime.date(1970, 1, 5)


class CalendarUnit(enum.Enum):
    """The unit of a calendar window."""

    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"


_COUNTED_AS: Final[dict[CalendarUnit, tuple[Literal["days", "months"], int]]] = {
    CalendarUnit.DAYS: ("days", 1),
    CalendarUnit.WEEKS: ("days", 7),
    CalendarUnit.MONTHS: ("months", 1),
    CalendarUnit.YEARS: ("months", 12),
}


def _date(value: datetime.date | str) -> datetime.date:
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError as error:
            raise InvalidArgument(
                f"`start` must be a date, got {value!r}", hint="pass '2013-01-01', for example"
            ) from error
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise InvalidType(
            f"`start` must be a date without a time, got {value!r} of type {type(value).__name__}",
            hint="pass '2013-01-01' or datetime.date(2013, 1, 1), and the zone as `timezone`",
        )
    return datetime.date(value.year, value.month, value.day)


@calls_explained(
    otherwise="write dm.CalendarWindows.days(), .weeks(), .months() or .years(), with the number of them and `timezone`"
)
@attrs.frozen(order=False, repr=False)
class CalendarWindows(WindowFn):
    """Divide event time at local midnight, every n days, weeks, months or years of a time zone.

    Created by `CalendarWindows.days`, `.weeks`, `.months` and `.years`. A window runs from local midnight to local
    midnight, so a day has 23 or 25 hours if the clocks change on it. If a change of the clocks skips midnight, the
    window starts at the first instant of the date; if midnight occurs twice, it starts at the first occurrence. A date
    that a time zone skipped has no window. Windows leave no gaps and never overlap. The windows before year 1 and after
    year 9999 extend to −∞ and +∞.

    Source: Beam's `CalendarWindows` (Java).

    Example:
        >>> from dataflow_model.time import event_time
        >>> days = CalendarWindows.days(timezone="America/New_York")
        >>> days.assign(event_time("2013-03-10T12:00Z"), None)
        ([2013-03-10T05:00:00Z, 2013-03-11T04:00:00Z),)
    """

    unit: CalendarUnit = attrs.field(validator=attrs.validators.instance_of(CalendarUnit))
    n: int
    timezone: str
    start: datetime.date = attrs.field(converter=_date)

    def __attrs_post_init__(self) -> None:
        """Check the number and the zone."""
        n: object = self.n
        if type(n) is not int or n < 1:
            raise InvalidArgument(
                f"`n` must be a whole number of {self.unit.value}, at least 1, got {n!r}",
                hint=f"write timezone={n!r}" if isinstance(n, str) else "use n=1 for one, for example",
            )
        check_zone(self.timezone)

    @factory
    def days(cls, n: int = 1, timezone: str = "UTC", start: datetime.date | str = _EPOCH_DAY) -> Self:
        """Return windows of `n` days, counted from the date `start`.

        Raises:
            InvalidArgument: if `n` is less than 1, the zone is unknown or `start` is not a date.
            InvalidType: if `start` has a time, or the zone is not text.

        Example:
            >>> CalendarWindows.days(2, "Asia/Tokyo", start="2013-01-01")
            CalendarWindows.days(2, 'Asia/Tokyo', start='2013-01-01')
        """
        return cls(CalendarUnit.DAYS, n, timezone, start)

    @factory
    def weeks(cls, n: int = 1, timezone: str = "UTC", start: datetime.date | str = _EPOCH_MONDAY) -> Self:
        """Return windows of `n` weeks, counted from the date `start`; the default is a Monday.

        Raises as `days` does.

        Example:
            >>> from dataflow_model.time import event_time
            >>> CalendarWindows.weeks().assign(event_time("2013-01-01T00:00Z"), None)
            ([2012-12-31T00:00:00Z, 2013-01-07T00:00:00Z),)
        """
        return cls(CalendarUnit.WEEKS, n, timezone, start)

    @factory
    def months(cls, n: int = 1, timezone: str = "UTC", start: datetime.date | str = _EPOCH_DAY) -> Self:
        """Return windows of `n` months, counted from the date `start`.

        A start on the 29th, 30th or 31st means the last day of the months that are shorter. Raises as `days` does.

        Example:
            >>> from dataflow_model.time import event_time
            >>> CalendarWindows.months(3).assign(event_time("2013-02-14T00:00Z"), None)
            ([2013-01-01T00:00:00Z, 2013-04-01T00:00:00Z),)
        """
        return cls(CalendarUnit.MONTHS, n, timezone, start)

    @factory
    def years(cls, n: int = 1, timezone: str = "UTC", start: datetime.date | str = _EPOCH_DAY) -> Self:
        """Return windows of `n` years, counted from the date `start`; 29 February means 28 in common years.

        Raises as `days` does.

        Example:
            >>> from dataflow_model.time import event_time
            >>> CalendarWindows.years(start="2012-07-01").assign(event_time("2013-02-14T00:00Z"), None)
            ([2012-07-01T00:00:00Z, 2013-07-01T00:00:00Z),)
        """
        return cls(CalendarUnit.YEARS, n, timezone, start)

    def assign(self, event_time: EventTime, element: Any) -> tuple[IntervalWindow]:
        """Return the one window that contains the event time."""
        del element
        time = inside(event_time)
        bounds = self._around(time // DAY)
        after = bisect.bisect_right(bounds, time)
        return (interval(bounds[after - 1], bounds[after]),)

    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]]:
        """Assign a column of event times, looking each day of it up in the calendar once."""
        times = inside_many(event_times)
        if not len(times):
            return None, times, times
        days: list[int] = np.unique(times // DAY).tolist()
        bounds = np.array(sorted({bound for day in days for bound in self._around(day)}), dtype=np.int64)
        after = np.searchsorted(bounds, times, side="right")
        return None, bounds[after - 1], bounds[after]

    def _around(self, day: int) -> tuple[int, ...]:
        counted, factor = _COUNTED_AS[self.unit]
        return boundaries_around(counted, factor * self.n, self.timezone, self.start, day)

    def __repr__(self) -> str:
        default = _EPOCH_MONDAY if self.unit is CalendarUnit.WEEKS else _EPOCH_DAY
        start = "" if self.start == default else f", start={self.start.isoformat()!r}"
        return f"CalendarWindows.{self.unit.value}({self.n}, {self.timezone!r}{start})"
