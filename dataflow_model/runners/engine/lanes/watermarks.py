"""The low watermark of a stream and its further percentiles: as one value, and in columns at many instants."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import numpy as np

from dataflow_model.runners.engine.lanes.lanes import Lane
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_MIN: Final = int(MIN_TIMESTAMP)
_MAX: Final = int(MAX_TIMESTAMP)


@attrs.frozen
class Watermarks:
    """How complete a stream is, as event times in microseconds.

    All values of one plan have the same percentiles: those below 100 that one of its triggers waits for or one of its
    functions asks for, lowest percentile first. A value may leave out the last ones, or all: those equal the low
    watermark. No percentile is behind the low watermark: `of` ensures this, and all operations preserve it.

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
        """Return the watermarks after transforms that may move event times back by up to `back`; ±∞ are unchanged."""
        return Watermarks(_less(self.low, back), tuple(_less(value, back) for value in self.percentiles))

    def further(self, count: int) -> tuple[int, ...]:
        """Return `count` percentiles; those that are missing equal the low watermark.

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


class WatermarkLane(Lane[Watermarks]):
    """The watermarks of a stream at each of some instants, in columns.

    Its operations are those of `Watermarks`, at all instants at once.

    Attributes:
        low: by instant, the low watermark.
        percentiles: by instant, then by percentile; a lane may leave out the last ones, as a value may.

    Example:
        >>> lane = WatermarkLane.of([Watermarks(10), Watermarks(5), Watermarks(20)])
        >>> [reached.low for reached in lane.advanced(Watermarks(7))]
        [10, 10, 20]
        >>> lane.held(np.array([8, 8, 8]))[2]
        Watermarks(low=8, percentiles=())
    """

    def __init__(self, low: NDArray[np.int64], percentiles: NDArray[np.int64] | None = None) -> None:
        self.low = low
        self.percentiles = np.empty((len(low), 0), np.int64) if percentiles is None else percentiles

    @classmethod
    def of(cls, several: Sequence[Watermarks]) -> WatermarkLane:
        """Return watermarks as a lane; a lane is returned as it is."""
        if isinstance(several, WatermarkLane):
            return several
        width = max((len(watermarks.percentiles) for watermarks in several), default=0)
        low = np.array([watermarks.low for watermarks in several], np.int64)
        further = [watermarks.further(width) for watermarks in several]
        return cls(low, np.array(further, np.int64).reshape(len(several), width))

    @classmethod
    def standing(cls, watermarks: Watermarks, count: int) -> WatermarkLane:
        """Return watermarks that stay the same for `count` instants."""
        further = np.array([watermarks.percentiles], np.int64)
        return cls(np.full(count, watermarks.low, np.int64), np.repeat(further, count, axis=0))

    @classmethod
    def least(cls, lanes: Sequence[WatermarkLane]) -> WatermarkLane:
        """Return the minimum of one lane or more, component by component."""
        if len(lanes) == 1:
            return lanes[0]
        width = max(lane.percentiles.shape[1] for lane in lanes)
        low = functools.reduce(np.minimum, [lane.low for lane in lanes])
        return cls(low, functools.reduce(np.minimum, [lane.further(width) for lane in lanes]))

    def __len__(self) -> int:
        return len(self.low)

    def items(self) -> Iterator[Watermarks]:
        """Return an iterator over the values."""
        if not self.percentiles.shape[1]:
            return map(Watermarks, self.low.tolist())
        return map(Watermarks, self.low.tolist(), map(tuple, self.percentiles.tolist()))

    def item(self, row: int) -> Watermarks:
        """Return the value at an instant."""
        return Watermarks(int(self.low[row]), tuple(self.percentiles[row].tolist()))

    def sliced(self, start: int, stop: int) -> WatermarkLane:
        """Return the values at the instants `[start, stop)`."""
        return WatermarkLane(self.low[start:stop], self.percentiles[start:stop])

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> WatermarkLane:
        """Return the values at these instants."""
        indices = np.asarray(rows, np.int64)
        return WatermarkLane(self.low[indices], self.percentiles[indices])

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> WatermarkLane:
        """Return the values of all."""
        width = max(lane.percentiles.shape[1] for lane in lanes)
        further = np.concatenate([lane.further(width) for lane in lanes])
        return WatermarkLane(np.concatenate([lane.low for lane in lanes]), further)

    def further(self, count: int) -> NDArray[np.int64]:
        """Return `count` percentiles; those that are missing equal the low watermark."""
        left_out = count - self.percentiles.shape[1]
        if left_out <= 0:
            return self.percentiles
        return np.hstack([self.percentiles, np.repeat(self.low[:, None], left_out, axis=1)])

    def advanced(self, before: Watermarks) -> WatermarkLane:
        """Return what is known at each instant: the maximum of what was known before and of all up to then."""
        low = np.maximum.accumulate(np.maximum(self.low, before.low))
        width = max(self.percentiles.shape[1], len(before.percentiles))
        if not width:
            return WatermarkLane(low)
        known = np.array([before.further(width)], np.int64)
        return WatermarkLane(low, np.maximum.accumulate(np.maximum(self.further(width), known), axis=0))

    def held(self, at: NDArray[np.int64] | int) -> WatermarkLane:
        """Return the watermarks as far as the hold of each instant, or one hold for all instants, lets them through."""
        return WatermarkLane(np.minimum(self.low, at), np.minimum(self.percentiles, np.reshape(at, (-1, 1))))

    def less(self, back: int) -> WatermarkLane:
        """Return the watermarks after transforms that may move event times back by up to `back`; ±∞ are unchanged."""
        return WatermarkLane(_all_less(self.low, back), _all_less(self.percentiles, back)) if back else self


def _all_less(values: NDArray[np.int64], back: int) -> NDArray[np.int64]:
    moves = (values > _MIN) & (values < _MAX)
    return np.where(moves, np.maximum(values, _MIN + back) - back, values)
