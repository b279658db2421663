"""Watermark estimators: what seeds a source's watermark, as values; the engine folds observations with them.

Source: the MillWheel paper, section 4.4 (injectors), and the Dataflow Model paper, section 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import MIN_TIMESTAMP, Duration, DurationLike, EventTime, duration

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARRIVAL",
    "AdaptiveLateness",
    "Arrival",
    "AtTheEnd",
    "BoundedOutOfOrderness",
    "Explicit",
    "Monotonic",
    "WallTime",
    "WatermarkEstimator",
    "check_estimator",
]


@attrs.frozen
class Arrival:
    """Take the time of arrival as the event time: the watermark is then perfect."""

    def __repr__(self) -> str:
        return "ARRIVAL"


ARRIVAL = Arrival()
"""Pass as `event_time=` when a record happens when it is seen."""


@runtime_checkable
class WatermarkEstimator(Protocol):
    """What the watermark of an origin is, given how far the origin has come.

    How far that is depends on no order of observations within a tick, so that tasks that read in parallel can each
    send a summary. For most estimators it is the greatest event time seen; `Explicit` looks at punctuation rows only,
    `WallTime` at the clock, and from what `AdaptiveLateness` gives the delay that it has learned is taken off.
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return W: all data with event time < W is believed seen. It must not fall when `reached` rises."""
        ...


def check_estimator(value: object) -> WatermarkEstimator:
    """Return `value` if it is an estimator; else an error that says what one looks like."""
    if not isinstance(value, WatermarkEstimator):
        raise InvalidType(
            f"`watermark` must be an estimator, got {value!r}",
            hint="pass watermark=dm.BoundedOutOfOrderness('30 minutes'), for example",
        )
    return value


def _to_duration(value: DurationLike) -> Duration:
    return duration(value)


def _behind(reached: EventTime, delay: Duration) -> EventTime:
    return reached if reached == MIN_TIMESTAMP else reached - delay


def _check_delay(delay: Duration) -> None:
    if delay < Duration(0):
        raise InvalidArgument(
            f"`delay` must not be negative, got {delay!r}",
            hint="use dm.Monotonic() for data that are in order, or a delay such as '10 minutes'",
        )


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
        _check_delay(self.delay)

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached − delay`; −∞ before the first element."""
        return _behind(reached, self.delay)


@attrs.frozen
class Monotonic:
    """Take event times as never going back: the watermark is the greatest seen.

    Example:
        >>> Monotonic().watermark(EventTime(5))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached` itself."""
        return reached


@attrs.frozen(repr=False)
class Explicit:
    """Take the watermark from punctuation rows: rows which say that everything before their event time has come.

    A punctuation row is an element like any other; filter it out behind the source if it is no data.

    Args:
        punctuation: tells of a row whether it is one; rows are what the source gives, so named tuples for files.

    Raises:
        InvalidType: for something that cannot be called.

    Source: punctuations (Tucker et al. 2003), one of the watermarks that the Dataflow Model paper builds on.

    Example:
        >>> def closes_a_minute(row):
        ...     return row.kind == "end of minute"
        >>> Explicit(closes_a_minute)
        Explicit(closes_a_minute)
    """

    punctuation: Callable[[Any], bool]

    def __attrs_post_init__(self) -> None:
        """Check the predicate."""
        if not callable(self.punctuation):
            raise InvalidType(
                f"`punctuation` must be a function of a row, got {self.punctuation!r}",
                hint="pass dm.Explicit(lambda row: row.is_punctuation), for example",
            )

    def watermark(self, reached: EventTime) -> EventTime:
        """Return the greatest event time of a punctuation row; −∞ before the first."""
        return reached

    def __repr__(self) -> str:
        # Without an address: the checkpoint's fingerprint has it.
        return f"Explicit({getattr(self.punctuation, '__qualname__', type(self.punctuation).__qualname__)})"


@attrs.frozen
class WallTime:
    """Trail the processing clock: for sources that may have no events for a while, yet must let windows close.

    With delay d an element is late when it comes more than d after it happened. The clock is the pipeline's: the wall,
    or the replay clock.

    Raises:
        InvalidArgument: for a negative delay.

    Example:
        >>> WallTime("1 minute").watermark(EventTime(60_000_005))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    delay: Duration = attrs.field(converter=_to_duration, default=Duration(0))

    def __attrs_post_init__(self) -> None:
        """Check the delay."""
        _check_delay(self.delay)

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached − delay`, where `reached` is the clock."""
        return _behind(reached, self.delay)


@attrs.frozen
class AdaptiveLateness:
    """Learn how far out of order elements come, and trail the greatest event time so that about a fraction is late.

    A sketch (a t-digest) holds the distribution of the skew: how far an element is behind the greatest event time of
    earlier ticks. The delay is its quantile at `1 − fraction`; it is learned anew as records come. Before
    `1 / fraction` records nothing can be said about such a quantile, and the watermark stays at −∞.

    Args:
        fraction: the share of records that may be late, in (0, 1).

    Raises:
        InvalidArgument: for a fraction out of range.

    Source: t-digest: Dunning and Ertl, "Computing extremely accurate quantiles using t-digests"; here that of Apache
    DataSketches.

    Example:
        >>> AdaptiveLateness(0.001).warm_up
        1000
    """

    fraction: float

    def __attrs_post_init__(self) -> None:
        """Check the fraction."""
        if not 0 < self.fraction < 1:
            raise InvalidArgument(
                f"`fraction` must be between 0 and 1, got {self.fraction!r}",
                hint="0.001 allows one late record in a thousand; for a fixed delay use dm.BoundedOutOfOrderness(d)",
            )

    @property
    def warm_up(self) -> int:
        """How many records it takes before there is a watermark."""
        return round(1 / self.fraction)

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached`; the engine takes the delay off that it has learned."""
        return reached


@attrs.frozen
class AtTheEnd:
    """Keep the watermark at −∞ until the source ends: nothing is believed complete before.

    Example:
        >>> AtTheEnd().watermark(EventTime(5)) == MIN_TIMESTAMP
        True
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return −∞."""
        del reached
        return MIN_TIMESTAMP
