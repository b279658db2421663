"""The trigger that fires at regular times: every hour on the hour, every day at eight, every month."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.arguments import check_zone
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.overriding import override
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    DurationLike,
    EventTime,
    Instant,
    InstantLike,
    ProcessingTime,
    duration,
)
from dataflow_model.triggers import local_times
from dataflow_model.triggers.contexts import TimeDomain, TriggerContext
from dataflow_model.triggers.delays import Deadline

if TYPE_CHECKING:
    from dataflow_model.triggers.local_times import Period

EPOCH: Final = "1970-01-01T00:00"
"""Midnight in the given zone."""
_DAY: Final = duration("1 day")


@attrs.frozen(repr=False, init=False)
class AtPeriod(Deadline):
    """Fire at regular times: at the next `reference + n × period`, for any integer n.

    The first element since the trigger's turn began sets the time. In processing time it is the first of the times not
    before the clock when that element arrives. In event time it is the first not before the element's event time, and
    the trigger fires when the watermark reaches it. A pane that a sibling fires does not change the time; windows that
    merge keep the earliest time.

    With a zone, whole days, months and years follow the local calendar: eight in the morning stays eight in the morning
    when the clocks change. A local time that the change skips is shifted by the skipped time; one that occurs twice
    counts once, the first time. A reference on the 29th, 30th or 31st means the last day of shorter months.

    Args:
        period: a duration, or text such as `"1 month"`, `"3 months"` or `"1 year"`, which needs a zone.
        domain: the clock to follow.
        reference: one of the times: an instant, or text or a datetime without a zone, which is local time in
            `timezone` (in UTC without one). By default midnight of 1 January 1970.
        timezone: a zone of the IANA database; without one a day has 24 hours.

    Raises:
        InvalidArgument: for a period that is not positive, months without a zone, an unknown zone, or a `reference` in
            local time that occurs twice in the zone or is skipped there.
        InvalidType: for a reference of the other time domain, or a `domain` that is not a `TimeDomain`.

    Source: the papers' AtPeriod.

    Example:
        >>> AtPeriod("1 hour").describe()
        'at the next full hour of processing time'
        >>> AtPeriod("1 day", reference="2013-01-01T08:00", timezone="America/New_York")
        AtPeriod('1 day', reference='2013-01-01T08:00:00', timezone='America/New_York')
    """

    period: Period
    domain: TimeDomain
    reference: Instant
    timezone: str | None

    def __init__(
        self,
        period: DurationLike | Period,
        *,
        domain: TimeDomain = TimeDomain.PROCESSING_TIME,
        reference: InstantLike = EPOCH,
        timezone: str | None = None,
    ) -> None:
        if not isinstance(domain, TimeDomain):
            raise InvalidType(
                f"`domain` must be a TimeDomain, got {domain!r}",
                hint="use TimeDomain.PROCESSING_TIME, or TimeDomain.EVENT_TIME for the watermark",
            )
        of: type[EventTime | ProcessingTime] = EventTime if domain is TimeDomain.EVENT_TIME else ProcessingTime
        if isinstance(reference, (EventTime, ProcessingTime)) and not isinstance(reference, of):
            raise InvalidType(
                f"`reference` must be a time of the domain {domain.value}, got {reference!r}",
                hint="pass it as text, such as '2013-01-01T08:00'",
            )
        length = local_times.period(period)
        if timezone is not None:
            check_zone(timezone)
        elif isinstance(length, local_times.Months):
            raise InvalidArgument(
                f"a period in months needs a time zone, since months differ in length, got {period!r}",
                hint="pass timezone='UTC' or another zone",
            )
        at = of(local_times.instant(reference, timezone))
        self.__attrs_init__(length, domain, at, timezone)  # pyright: ignore[reportAttributeAccessIssue] - attrs makes it

    @property
    def _domain(self) -> TimeDomain:
        return self.domain

    def _deadline(self, context: TriggerContext) -> int:
        first = context.event_time if self.domain is TimeDomain.EVENT_TIME else context.now(self.domain)
        at = local_times.next_time(int(first), int(self.reference), self.period, self.timezone)
        return max(int(MIN_TIMESTAMP), min(at, int(MAX_TIMESTAMP)))

    @override
    def describe(self) -> str:
        return f"at the next {self._words()}"

    @override
    def describe_repeated(self) -> str:
        return f"every {self._words()}"

    def _words(self) -> str:
        unit = local_times.period_text(self.period).removeprefix("1 ")
        date, _, time = self._local_reference().partition("T")
        if self._is_aligned():
            words = f"full {unit} of {self.domain.value}"
        elif self.period == _DAY:
            words = f"{unit} of {self.domain.value} at {time.removesuffix(':00')}"
        else:
            words = f"{unit} of {self.domain.value}, counted from {date} {time.removesuffix(':00')}"
        return words if self.timezone is None else f"{words} in {self.timezone}"

    def _is_aligned(self) -> bool:
        return self._local_reference() == local_times.local(0, None)

    def _local_reference(self) -> str:
        return local_times.local(int(self.reference), self.timezone)

    def __repr__(self) -> str:
        parts = [repr(local_times.period_text(self.period))]
        if self.domain is not TimeDomain.PROCESSING_TIME:
            parts.append(f"domain={self.domain!r}")
        if not self._is_aligned():
            parts.append(f"reference={self._local_reference()!r}")
        if self.timezone is not None:
            parts.append(f"timezone={self.timezone!r}")
        return f"AtPeriod({', '.join(parts)})"
