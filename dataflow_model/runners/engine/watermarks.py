"""The low watermark of a stream and its further percentiles, as one value."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, Self

import attrs

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_WATERMARKS", "MIN_WATERMARKS", "Watermarks"]

_MIN: Final = int(MIN_TIMESTAMP)
_MAX: Final = int(MAX_TIMESTAMP)


@attrs.frozen
class Watermarks:
    """How complete a stream is, as event times in microseconds.

    All values of one plan have the same percentiles: those below 100 that one of its triggers waits for or one of its
    functions asks for, lowest percentile first. A value may leave out the last ones, or all: those are at the low
    watermark. None is behind the low watermark: `of` sees to that, and all operations keep it so.

    Attributes:
        low: the low watermark.
        percentiles: the watermark's further percentiles.

    Example:
        >>> Watermarks(10, (30, 20)).min(Watermarks(15)), Watermarks(10, (30, 20)).advance(Watermarks(15))
        (Watermarks(low=10, percentiles=(15, 15)), Watermarks(low=15, percentiles=(30, 20)))
        >>> Watermarks(10, (30, 20)).held(25), Watermarks(10, (30, 20)).held(5)
        (Watermarks(low=10, percentiles=(25, 20)), Watermarks(low=5, percentiles=(5, 5)))
    """

    low: int
    percentiles: tuple[int, ...] = ()

    @classmethod
    def of(cls, low: int, percentiles: Iterable[int] = ()) -> Self:
        """Return watermarks, each percentile raised to the low watermark if it is behind it.

        Example:
            >>> Watermarks.of(10, (30, 5))
            Watermarks(low=10, percentiles=(30, 10))
        """
        return cls(low, tuple(max(low, percentile) for percentile in percentiles))

    @staticmethod
    def least(several: Iterable[Watermarks]) -> Watermarks:
        """Return the minimum of several, component by component; +∞ if there are none."""
        return functools.reduce(Watermarks.min, several, MAX_WATERMARKS)

    def min(self, other: Watermarks) -> Watermarks:
        """Return the minimum of both, component by component."""
        if self is other or other is MAX_WATERMARKS:
            return self
        if self is MAX_WATERMARKS:
            return other
        if not self.percentiles and not other.percentiles:
            return self if self.low <= other.low else other
        width = max(len(self.percentiles), len(other.percentiles))
        return Watermarks(min(self.low, other.low), tuple(map(min, self.further(width), other.further(width))))

    def advance(self, to: Watermarks) -> Watermarks:
        """Return the maximum of both, component by component: what is known once `to` has been reported.

        Watermarks that have not moved are returned as the same object.
        """
        if not self.percentiles and not to.percentiles:
            return to if to.low > self.low else self
        width = max(len(self.percentiles), len(to.percentiles))
        further = self.further(width)
        advanced = Watermarks(max(self.low, to.low), tuple(map(max, further, to.further(width))))
        return self if advanced.low == self.low and advanced.percentiles == further else advanced

    def held(self, at: int) -> Watermarks:
        """Return the watermarks as far as a hold lets them through."""
        if at >= self.low and not self.percentiles:
            return self
        return Watermarks(min(self.low, at), tuple(min(value, at) for value in self.percentiles))

    def less(self, back: int) -> Watermarks:
        """Return the watermarks behind transforms that may move event times back by as much; ±∞ stay where they are."""
        return Watermarks(_less(self.low, back), tuple(_less(value, back) for value in self.percentiles))

    def further(self, count: int) -> tuple[int, ...]:
        """Return so many further percentiles: those that are left out are at the low watermark.

        Example:
            >>> Watermarks(10, (30,)).further(3)
            (30, 10, 10)
        """
        left_out = count - len(self.percentiles)
        return self.percentiles + (self.low,) * left_out if left_out else self.percentiles


def _less(value: int, back: int) -> int:
    return max(value - back, _MIN) if _MIN < value < _MAX else value


MIN_WATERMARKS: Final = Watermarks(_MIN)
"""Nothing is known yet: neutral for `advance`."""
MAX_WATERMARKS: Final = Watermarks(_MAX)
"""The stream has ended: neutral for `min`."""
