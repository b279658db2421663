"""Watermark estimators as values: how a source's watermark follows from the event times or the clock.

Source: the MillWheel paper, section 4.4 (injectors), and the Dataflow Model paper, section 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.time import MIN_TIMESTAMP, Duration, DurationLike, EventTime

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
    """Use the time of arrival as the event time; the watermark is then perfect."""

    def __repr__(self) -> str:
        return "ARRIVAL"


ARRIVAL = Arrival()
"""Pass as `event_time=` if the event time of a record is its time of arrival."""


@runtime_checkable
class WatermarkEstimator(Protocol):
    """Computes the watermark of an origin from the progress of the origin.

    The progress does not depend on the order of observations within a tick, so that tasks that read in parallel can
    each send a summary. For most estimators it is the greatest event time seen; for `Explicit` only punctuation rows
    count, for `WallTime` it is the clock, and for `AdaptiveLateness` the engine also subtracts the learned delay.
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return the watermark for the progress `reached`; it must not decrease when `reached` increases."""
        ...


def check_estimator(value: object) -> WatermarkEstimator:
    """Return `value` if it is an estimator; raise `InvalidType` otherwise."""
    if not isinstance(value, WatermarkEstimator) or isinstance(value, type):
        raise InvalidType(
            f"`watermark` must be an estimator, got {value!r}",
            hint="pass watermark=dm.BoundedOutOfOrderness('30 minutes'), for example",
        )
    return value


def _behind(reached: EventTime, delay: Duration) -> EventTime:
    return reached if reached == MIN_TIMESTAMP else reached - delay


def _delay(value: DurationLike) -> Duration:
    hint = "use dm.Monotonic() for data that are in order, or a delay such as '10 minutes'"
    return nonnegative_duration("delay", value, hint)


@attrs.frozen
class BoundedOutOfOrderness:
    """A watermark that trails the greatest event time by a fixed delay.

    With the delay d the watermark is `greatest − d`; an element is late if it is more than d behind.

    Raises:
        InvalidArgument: for a negative delay.

    Source: Flink's strategy of the same name; Spark's `withWatermark` works the same way.

    Example:
        >>> from dataflow_model.time import event_time
        >>> BoundedOutOfOrderness("30 minutes").watermark(event_time("2013-01-01T12:00Z"))
        EventTime(2013-01-01T11:30:00Z)
    """

    delay: Duration = attrs.field(converter=_delay)

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached − delay`; −∞ before the first element."""
        return _behind(reached, self.delay)


@attrs.frozen
class Monotonic:
    """A watermark for event times that never decrease: it is the greatest event time seen.

    Example:
        >>> Monotonic().watermark(EventTime(5))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached` itself."""
        return reached


@attrs.frozen(repr=False)
class Explicit:
    """A watermark taken from punctuation rows, which state that everything before their event time has arrived.

    A punctuation row is also an element; filter it out after the source if it is not data.

    Args:
        punctuation: a function of a row that returns whether it is a punctuation row; for files, rows are named tuples.

    Raises:
        InvalidType: if `punctuation` cannot be called.

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
        refuse_async(self.punctuation, "Explicit")

    def watermark(self, reached: EventTime) -> EventTime:
        """Return the greatest event time of a punctuation row; −∞ before the first."""
        return reached

    def __repr__(self) -> str:
        # Without an address, since the checkpoint's fingerprint contains the repr.
        return f"Explicit({getattr(self.punctuation, '__qualname__', type(self.punctuation).__qualname__)})"


@attrs.frozen
class WallTime:
    """A watermark that trails the processing clock, for sources that may be silent while windows must still close.

    With the delay d an element is late if it arrives more than d after it happened. The clock is the pipeline's: the
    wall clock or the replay clock.

    Raises:
        InvalidArgument: for a negative delay.

    Example:
        >>> WallTime("1 minute").watermark(EventTime(60_000_005))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    delay: Duration = attrs.field(converter=_delay, default=Duration(0))

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached − delay`, where `reached` is the clock."""
        return _behind(reached, self.delay)


@attrs.frozen
class AdaptiveLateness:
    """A watermark that learns how far elements are out of order, so that about a given fraction of them is late.

    It trails the greatest event time by a learned delay. A sketch (a t-digest) keeps the distribution of the skew, that
    is, how far an element is behind the greatest event time of earlier ticks; the delay is its quantile at
    `1 − fraction`, updated as records arrive. Until `1 / fraction` records have been seen, that quantile is unknown and
    the watermark stays at −∞.

    Args:
        fraction: the share of records that may be late, in (0, 1).

    Raises:
        InvalidArgument: for a fraction outside (0, 1).
        InvalidType: for a fraction that is no number.

    Source: t-digest: Dunning and Ertl, "Computing extremely accurate quantiles using t-digests"; here that of Apache
    DataSketches.

    Example:
        >>> AdaptiveLateness(0.001)
        AdaptiveLateness(fraction=0.001)
    """

    fraction: float

    def __attrs_post_init__(self) -> None:
        """Check the fraction."""
        fraction: object = self.fraction
        if not isinstance(fraction, int | float) or isinstance(fraction, bool):
            raise InvalidType(
                f"`fraction` must be a number between 0 and 1, got {fraction!r}",
                hint="pass dm.AdaptiveLateness(0.01) for one late record in a hundred",
            )
        if not 0 < self.fraction < 1:
            raise InvalidArgument(
                f"`fraction` must be between 0 and 1, got {self.fraction!r}",
                hint="0.001 allows one late record in a thousand; for a fixed delay use dm.BoundedOutOfOrderness(d)",
            )

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached`; the engine subtracts the learned delay."""
        return reached


@attrs.frozen
class AtTheEnd:
    """A watermark that stays at −∞ until the source ends.

    Example:
        >>> AtTheEnd().watermark(EventTime(5)) == MIN_TIMESTAMP
        True
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return −∞."""
        del reached
        return MIN_TIMESTAMP
