"""What a join by distance in event time does; the engine runs it on columns, so there is no function per element."""

from __future__ import annotations

import enum
from typing import Any, Final, Self

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.overriding import override
from dataflow_model.plan.functions.dofn import BoundedLatenessFn
from dataflow_model.time import Duration, duration, duration_text

_TWO: Final = 2


@attrs.frozen
class Distance:
    """How much later than its left partner an element of the right side may be; negative if it is earlier.

    Attributes:
        least: the least distance, in microseconds.
        greatest: the greatest distance, in microseconds; both bounds are included.

    Example:
        >>> Distance.between(("0 s", "15 minutes")), Distance(-300_000_000, 300_000_000)
        (between=('0 seconds', '15 minutes'), within='5 minutes')
        >>> Distance(-300_000_000, 300_000_000).describe(), Distance.between(("0 s", "15 minutes")).describe()
        ('partners at most 5 minutes apart', 'right partners 0 seconds to 15 minutes after the left ones')
    """

    least: int
    greatest: int

    @classmethod
    def between(cls, bounds: Any) -> Self:
        """Return the distance between two durations.

        Raises:
            InvalidType: unless `bounds` is a pair of durations.
            InvalidArgument: if the first one is greater.
        """
        if not isinstance(bounds, tuple | list) or len(bounds) != _TWO:
            raise InvalidType(
                f"`between` must be a pair of durations, got {bounds!r}",
                hint="use between=('0 s', '15 minutes') for right elements up to 15 minutes after their left partners",
            )
        least, greatest = (int(duration(bound)) for bound in bounds)
        if least > greatest:
            raise InvalidArgument(
                f"the first duration of `between` must not be greater than the second, got {bounds!r}",
                hint=f"use between=({bounds[1]!r}, {bounds[0]!r})",
            )
        return cls(least, greatest)

    def reach(self, *, is_right: bool) -> int:
        """Return how much later than an element of one side its partners may be."""
        return -self.least if is_right else self.greatest

    def describe(self) -> str:
        """Return what explanations say."""
        least, greatest = (duration_text(Duration(micros=bound)) for bound in (self.least, self.greatest))
        if self.least == -self.greatest:
            return f"partners at most {greatest} apart"
        return f"right partners {least} to {greatest} after the left ones"

    def __repr__(self) -> str:
        least, greatest = (duration_text(Duration(micros=bound)) for bound in (self.least, self.greatest))
        return f"within={greatest!r}" if self.least == -self.greatest else f"between=({least!r}, {greatest!r})"


class Firing(enum.Enum):
    """When an element is emitted without a partner."""

    AT_ONCE = "at once"
    ON_TIME = "on time"
    FINAL = "final"


class JoinWithin(BoundedLatenessFn):
    """Joins pairs of a key and a side with a value: `(key, (is_right, value))`.

    An element waits for partners until none can arrive any more: until the watermark has passed the last event time of
    a partner by the lateness. An element that is later than the lateness is dropped and counted, since its partners may
    be gone.

    Args:
        distance: how far apart partners may be.
        lateness: how late an element may be, in microseconds.
        keeps: whether an element of the left side, and one of the right side, is emitted without a partner once none
            can arrive.
        firing: when it is emitted without one.
    """

    def __init__(
        self, distance: Distance, lateness: int, keeps: tuple[bool, bool], firing: Firing = Firing.FINAL
    ) -> None:
        self.distance = distance
        self.lateness = lateness
        self.keeps = keeps
        self.firing = firing

    def title(self) -> str:
        """Return how far apart partners may be, for explanations."""
        return self.distance.describe()

    @override
    def definition(self) -> str:
        kind = {(False, False): "inner", (True, False): "left", (False, True): "right"}.get(self.keeps, "full")
        emitted = f", alone {self.firing.value}" if any(self.keeps) else ""
        return f"{kind} join of {self.distance.describe()}{emitted}"


class CorrectedJoinWithin(JoinWithin):
    """Joins likewise, but emits elements without a partner early, and takes them back when a partner arrives.

    They are emitted when they arrive, or when the watermark has passed the last event time of a partner, although a
    late one may still arrive.
    """

    retracts = True
