"""Counters, distributions and gauges of users' functions; each belongs to the transform that calls the function."""

from __future__ import annotations

import numbers
import sys
from typing import Any, Final

import attrs

from dataflow_model.arguments import EXTRA, calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.metrics.collecting import current
from dataflow_model.micros import wall_clock
from dataflow_model.time import Duration, Instant

_MOST: Final = sys.float_info.max


@attrs.frozen
class Counter:
    """A metric that only increases; created by `counter(name)`."""

    name: str

    def inc(self, by: int = 1) -> None:
        """Increase the counter; outside of a run this does nothing.

        Raises:
            InvalidArgument: if `by` is negative, since a counter never decreases.
            InvalidType: if `by` is not an int.
        """
        if not _is_number(by, numbers.Integral):
            raise InvalidType(f"the counter {self.name!r} takes whole numbers, got {by!r}", hint=_AMOUNTS)
        if by < 0:
            raise InvalidArgument(f"the counter {self.name!r} cannot decrease, got {by!r}", hint=_LEVELS)
        tally = current()
        if tally is not None:
            tally.of_users().count(self.name, int(by))


@attrs.frozen
class Distribution:
    """A metric that keeps the count, sum, minimum and maximum of numbers; created by `distribution(name)`."""

    name: str

    def update(self, value: float) -> None:
        """Add a number to the distribution; outside of a run this does nothing.

        Raises:
            InvalidArgument: for infinity and NaN, which would hide all other numbers, and for an int beyond the range
                of a float.
            InvalidType: if `value` is not a number.
        """
        number = _checked_number("distribution", self.name, value)
        tally = current()
        if tally is not None:
            tally.of_users().observe(self.name, number)


@attrs.frozen
class Gauge:
    """A metric that keeps the value set last, by the wall clock; created by `gauge(name)`."""

    name: str

    def set(self, value: float) -> None:
        """Set the gauge; outside of a run this does nothing.

        Raises:
            InvalidArgument: for infinity and NaN, and for an int beyond the range of a float.
            InvalidType: if `value` is not a number.
        """
        number = _checked_number("gauge", self.name, value)
        tally = current()
        if tally is not None:
            tally.of_users().set(self.name, number, wall_clock())


_named: Final = calls_explained(
    {EXTRA: "a metric has a name and no namespace: it belongs to the transform whose function uses it"}
)


@_named
def counter(name: str) -> Counter:
    """Return the counter with this name, to use in functions that a pipeline calls.

    The counter belongs to the transform whose function uses it: two transforms that use the same name have a counter
    each. A stream counts each element once, even if a micro-batch is run again.

    Raises:
        InvalidArgument: for an empty name.
        InvalidType: for a name that is not a string.

    Source: Beam's `Metrics.counter`, whose counters count attempts; here the transform's label is the namespace.

    Example:
        >>> import dataflow_model as dm
        >>> short = dm.metrics.counter("short words")
        >>> def lengths(word):
        ...     if len(word) < 3:
        ...         short.inc()
        ...     return len(word)
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(["to", "be", "seen"]) | "lengths" >> dm.Map(lengths) | dm.io.Collect()
        >>> p.result.report().transforms["lengths"].user.counters
        {'short words': 2}
    """
    return Counter(_checked(name))


@_named
def distribution(name: str) -> Distribution:
    """Return the distribution with this name, to use in functions that a pipeline calls; see `counter`.

    Raises:
        InvalidArgument: for an empty name.
        InvalidType: for a name that is not a string.

    Source: Beam's `Metrics.distribution`, which takes whole numbers only.

    Example:
        >>> import dataflow_model as dm
        >>> lengths = dm.metrics.distribution("lengths")
        >>> def upper(word):
        ...     lengths.update(len(word))
        ...     return word.upper()
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(["to", "be", "seen"]) | "upper" >> dm.Map(upper) | dm.io.Collect()
        >>> p.result.report().transforms["upper"].user.distributions["lengths"]
        DistributionValue(count=3, sum=8, min=2, max=4)
    """
    return Distribution(_checked(name))


@_named
def gauge(name: str) -> Gauge:
    """Return the gauge with this name, to use in functions that a pipeline calls; see `counter`.

    Raises:
        InvalidArgument: for an empty name.
        InvalidType: for a name that is not a string.

    Source: Beam's `Metrics.gauge`.

    Example:
        >>> import dataflow_model as dm
        >>> last = dm.metrics.gauge("last length")
        >>> def upper(word):
        ...     last.set(len(word))
        ...     return word.upper()
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(["to", "be", "seen"]) | "upper" >> dm.Map(upper) | dm.io.Collect()
        >>> p.result.report().transforms["upper"].user.gauges
        {'last length': 4}
    """
    return Gauge(_checked(name))


_AMOUNTS = "use dm.metrics.distribution(…), which takes any number"
_LEVELS = "use dm.metrics.gauge(…), which can go up and down"


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidType(f"a metric's name must be text, got {name!r}", hint="use dm.metrics.counter('retries')")
    if not name.strip():
        raise InvalidArgument(
            f"a metric's name must not be empty, got {name!r}", hint="use dm.metrics.counter('retries')"
        )
    return name


def _is_number(value: object, kind: type[Any]) -> bool:
    """Return whether a value is a number of a kind; those of NumPy are, but no `bool`, duration or instant."""
    return isinstance(value, kind) and not isinstance(value, bool | Duration | Instant)


def _checked_number(kind: str, name: str, given: Any) -> float:
    """Return a number as one of Python, so that adding many up does not overflow."""
    if not _is_number(given, numbers.Real):
        raise InvalidType(f"the {kind} {name!r} takes numbers, got {given!r}", hint="pass an int or a float")
    value: float = int(given) if isinstance(given, numbers.Integral) else float(given)
    if not -_MOST <= value <= _MOST:
        raise InvalidArgument(
            f"the {kind} {name!r} takes finite numbers in the range of a float, got {shown(value)}",
            hint="skip such values",
        )
    return value
