"""Watermark estimators: folds over a source's event times that seed its watermark."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import MIN_TIMESTAMP, Duration, DurationLike, EventTime, duration

__all__ = ["ARRIVAL", "Arrival", "BoundedOutOfOrderness", "Monotonic", "WatermarkEstimator"]


@attrs.frozen
class Arrival:
    """Take the time of arrival as the event time: the watermark is then perfect."""

    def __repr__(self) -> str:
        return "ARRIVAL"


ARRIVAL = Arrival()
"""Pass as `event_time=` when a record happens when it is seen."""


@runtime_checkable
class WatermarkEstimator(Protocol):
    """What a source's watermark is, given the greatest event time it has seen.

    The built-in estimators depend on nothing else, so the order of observations within a tick does not matter and
    tasks that read in parallel can send one number each.
    """

    def watermark(self, greatest: EventTime) -> EventTime:
        """Return W: all data with event time < W is believed seen."""
        ...


def _to_duration(value: DurationLike) -> Duration:
    return duration(value)


@attrs.frozen
class BoundedOutOfOrderness:
    """Trail the greatest event time by a fixed delay.

    With delay d the watermark is `greatest − d`; an element is late when it is more than d behind.

    Raises:
        InvalidArgument: for a negative delay.

    Source: Flink's strategy of the same name; Spark's `withWatermark` is this one with the delay `d`.

    Example:
        >>> from dataflow_model.time import event_time
        >>> BoundedOutOfOrderness("30 minutes").watermark(event_time("2013-01-01T12:00Z"))
        EventTime(2013-01-01T11:30:00Z)
    """

    delay: Duration = attrs.field(converter=_to_duration)

    def __attrs_post_init__(self) -> None:
        """Check the delay."""
        if self.delay < Duration(0):
            raise InvalidArgument(f"`delay` must not be negative, got {self.delay!r}")

    def watermark(self, greatest: EventTime) -> EventTime:
        """Return `greatest − delay`; −∞ before the first element."""
        return greatest if greatest == MIN_TIMESTAMP else greatest - self.delay


@attrs.frozen
class Monotonic:
    """Take event times as never going back: the watermark is the greatest seen.

    Example:
        >>> Monotonic().watermark(EventTime(5))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    def watermark(self, greatest: EventTime) -> EventTime:
        """Return `greatest` itself."""
        return greatest
