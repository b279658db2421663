"""Watermark estimators as values: how a source's watermark follows from the event times or the clock.

Source: the MillWheel paper, section 4.4 (injectors), and the Dataflow Model paper, section 2.3.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import attrs
import numpy as np

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.time import MIN_TIMESTAMP, Duration, DurationLike, EventTime, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable


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

    An estimator of your own may have an attribute `max_ahead`, a duration such as `"1 day"`, which means what it does
    for `BoundedOutOfOrderness`. The engine applies it, so `watermark` never gets an event time that is further ahead.
    """

    def watermark(self, reached: EventTime) -> EventTime:
        """Return the watermark for the progress `reached`; it must not decrease when `reached` increases."""
        ...


def check_estimator(value: object) -> WatermarkEstimator:
    """Return `value` if it is an estimator, and `BoundedOutOfOrderness(value)` for a duration.

    Raises:
        InvalidArgument: for a negative duration, or text that is none.
        InvalidType: for anything else.

    Example:
        >>> check_estimator("1 hour")
        BoundedOutOfOrderness(delay=Duration(3600s))
    """
    if isinstance(value, _DURATIONS) and not isinstance(value, bool):
        return BoundedOutOfOrderness(value)
    if not isinstance(value, WatermarkEstimator) or isinstance(value, type):
        raise InvalidType(
            f"`watermark` must be an estimator or a duration, got {value!r}",
            hint="pass watermark=dm.BoundedOutOfOrderness('30 minutes'), for example",
        )
    max_ahead_of(value)
    return value


_DURATIONS: Final = (Duration, datetime.timedelta, np.timedelta64, int, float, str)
TOO_FAR_AHEAD: Final = "elements_too_far_ahead"
"""The counter of the elements of a source that do not move its watermark, because of `max_ahead`."""
_AHEAD_HINT: Final = "pass a duration such as '1 day', or leave `max_ahead` out"


def _max_ahead(value: DurationLike | None) -> Duration | None:
    return None if value is None else nonnegative_duration("max_ahead", value, _AHEAD_HINT)


def max_ahead_of(estimator: WatermarkEstimator) -> Duration | None:
    """Return how far ahead of the clock an event time may be to move the watermark; `None` for no limit.

    Raises:
        InvalidArgument: for an estimator of the user's own whose `max_ahead` is negative.
        InvalidType: for one whose `max_ahead` is not a duration.

    Example:
        >>> max_ahead_of(Monotonic(max_ahead="1 day")), max_ahead_of(WallTime())
        (Duration(86400s), None)
    """
    return _max_ahead(getattr(estimator, "max_ahead", None))


def check_ahead(event_time: object, estimator: WatermarkEstimator) -> None:
    """Raise `InvalidArgument` for an estimator with `max_ahead` where no event time can be ahead of the clock."""
    limit = max_ahead_of(estimator)
    if limit is not None and (event_time is None or isinstance(event_time, Arrival)):
        raise InvalidArgument(
            "`max_ahead` compares event times with the clock, but here each element happens when it arrives, or has no "
            f"event time, got event_time={event_time!r} and max_ahead={duration_text(limit)!r}",
            hint="name the column of the event times, or leave `max_ahead` out",
        )


def _repr(self: Any) -> str:
    """Return the `repr` of an estimator, which fingerprints contain; a `max_ahead` that is not set is not in it."""
    values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
    shown = ", ".join(f"{name}={value!r}" for name, value in values.items() if name != "max_ahead" or value is not None)
    return f"{type(self).__qualname__}({shown})"


def _behind(reached: EventTime, delay: Duration) -> EventTime:
    return reached if reached == MIN_TIMESTAMP else reached - delay


def _delay(value: DurationLike) -> Duration:
    hint = "use dm.Monotonic() for data that are in order, or a delay such as '10 minutes'"
    return nonnegative_duration("delay", value, hint)


@attrs.frozen(repr=False)
class BoundedOutOfOrderness:
    """A watermark that trails the greatest event time by a fixed delay.

    With the delay d the watermark is `greatest − d`; an element is late if it is more than d behind.

    Args:
        delay: the delay.
        max_ahead: how far ahead of the clock an event time may be to move the watermark; `None` for no limit. Elements
            further ahead do not move it, and are counted as `elements_too_far_ahead`; they are elements as any other
            otherwise. The clock is that of the tick at which an element arrives: the wall clock, or the replay clock.

    Raises:
        InvalidArgument: for a negative delay or `max_ahead`.

    Source: Flink's strategy of the same name; Spark's `withWatermark` works the same way.

    Example:
        >>> from dataflow_model.time import event_time
        >>> BoundedOutOfOrderness("30 minutes").watermark(event_time("2013-01-01T12:00Z"))
        EventTime(2013-01-01T11:30:00Z)
        >>> BoundedOutOfOrderness("30 minutes", max_ahead="1 day")
        BoundedOutOfOrderness(delay=Duration(1800s), max_ahead=Duration(86400s))
    """

    delay: Duration = attrs.field(converter=_delay)
    max_ahead: Duration | None = attrs.field(converter=_max_ahead, default=None, kw_only=True)

    __repr__ = _repr

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached − delay`; −∞ before the first element."""
        return _behind(reached, self.delay)


@attrs.frozen(repr=False)
class Monotonic:
    """A watermark for event times that never decrease: it is the greatest event time seen.

    Args:
        max_ahead: as in `BoundedOutOfOrderness`.

    Example:
        >>> Monotonic().watermark(EventTime(5))
        EventTime(1970-01-01T00:00:00.000005Z)
    """

    max_ahead: Duration | None = attrs.field(converter=_max_ahead, default=None, kw_only=True)

    __repr__ = _repr

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached` itself."""
        return reached


@attrs.frozen(repr=False)
class Explicit:
    """A watermark taken from punctuation rows, which state that everything before their event time has arrived.

    A punctuation row is also an element; filter it out after the source if it is not data.

    Args:
        punctuation: a function of a row that returns whether it is a punctuation row; for files, rows are named tuples.
        max_ahead: as in `BoundedOutOfOrderness`, of which punctuation rows move the watermark.

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
    max_ahead: Duration | None = attrs.field(converter=_max_ahead, default=None, kw_only=True)

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
        name = getattr(self.punctuation, "__qualname__", type(self.punctuation).__qualname__)
        return f"Explicit({name}{'' if self.max_ahead is None else f', max_ahead={self.max_ahead!r}'})"


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


@attrs.frozen(repr=False)
class AdaptiveLateness:
    """A watermark that learns how far elements are out of order, so that about a given fraction of them is late.

    It trails the greatest event time by a learned delay. A sketch (a t-digest) keeps the distribution of the skew, that
    is, how far an element is behind the greatest event time of earlier ticks; the delay is its quantile at
    `1 − fraction`, updated as records arrive. Until `1 / fraction` records have been seen, that quantile is unknown and
    the watermark stays at −∞.

    Args:
        fraction: the share of records that may be late, in (0, 1).
        max_ahead: as in `BoundedOutOfOrderness`; nothing is learned from elements further ahead.

    Raises:
        InvalidArgument: for a fraction outside (0, 1), or a negative `max_ahead`.
        InvalidType: for a fraction that is no number.

    Source: t-digest: Dunning and Ertl, "Computing extremely accurate quantiles using t-digests"; here that of Apache
    DataSketches.

    Example:
        >>> AdaptiveLateness(0.001)
        AdaptiveLateness(fraction=0.001)
    """

    fraction: float
    max_ahead: Duration | None = attrs.field(converter=_max_ahead, default=None, kw_only=True)

    __repr__ = _repr

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
