"""The skew of an origin: how far its records are behind the greatest event time of earlier ticks, as a sketch.

The sketch is a t-digest. It adds records in sorted blocks that end with a tick, and it is kept in its serialised form.
So its result depends only on the ticks and the records of each tick, not on their order within a tick or on how ticks
were divided into bundles.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from fastdigest import TDigest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

UNKNOWN: Final = -1
"""The value of a quantile for which there are too few records."""
_CENTROIDS: Final = 200
_OF_DATASKETCHES: Final = b"\x01\x14"
"""The second and third byte of a t-digest that the library datasketches has serialised."""
_WORDS_OF_ONE_VALUE: Final = 2
"""The length of its digest of one value, in words of eight bytes."""
_LONGEST_BLOCK: Final = 4_096
_SHARE: Final = 64
"""A quantile is updated when a 64th more records have arrived, and at the latest after the longest block."""


def _nothing() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@attrs.define
class SkewSketch:
    """Learns quantiles of the skew.

    Attributes:
        quantiles: the quantiles to learn, each in (0, 1).
        digest: the serialised t-digest of the records added so far.
        total: the number of these records.
        block: the skews of records that are not added yet.
        learned: the quantiles in microseconds, as last updated.

    Example:
        >>> sketch = SkewSketch((0.5,))
        >>> sketch.follow(np.array([1, 2, 30, 4, 5]), np.array([1, 2, 5]))[:, 0].tolist()
        [-1, 2, 4]
    """

    quantiles: tuple[float, ...]
    digest: bytes = b""
    total: int = 0
    block: NDArray[np.int64] = attrs.field(factory=_nothing, eq=attrs.cmp_using(eq=np.array_equal))
    learned: tuple[int, ...] = attrs.field(
        init=False, default=attrs.Factory(lambda self: (UNKNOWN,) * len(self.quantiles), takes_self=True)
    )

    def follow(self, skews: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the records of some ticks, and return the quantiles known after each tick.

        Args:
            skews: the skews of the records, tick by tick.
            ends: the number of records up to and including each tick.

        Returns:
            A row for each tick with a column for each quantile; `UNKNOWN` while there are too few records.
        """
        known = np.empty((len(ends), len(self.quantiles)), np.int64)
        row = start = 0
        while row < len(ends):
            missing = self._due() - self.total - len(self.block)
            reached = int(np.searchsorted(ends, start + missing, side="left"))
            known[row:reached] = self.learned
            stop = len(skews) if reached == len(ends) else int(ends[reached])
            self.block = np.concatenate([self.block, skews[start:stop]])
            start = stop
            if reached < len(ends):
                self._learn()
                known[reached] = self.learned
            row = reached + 1
        return known

    def _due(self) -> int:
        return self.total + min(max(self.total // _SHARE, 1), _LONGEST_BLOCK)

    def _learn(self) -> None:
        digest = _restored(self.digest) if self.digest else TDigest(_CENTROIDS)
        digest.batch_update(np.sort(self.block).tolist())
        self.total += len(self.block)
        self.block = _nothing()
        self.digest = digest.to_bytes()
        self.learned = tuple(
            math.ceil(digest.quantile(quantile)) if self.total >= _enough(quantile) else UNKNOWN
            for quantile in self.quantiles
        )


def _restored(digest: bytes) -> TDigest:
    """Return a t-digest from its bytes, which up to format 3 of checkpoints another library wrote."""
    if digest[1:3] != _OF_DATASKETCHES:
        return TDigest.from_bytes(digest)
    words = np.frombuffer(digest, np.float64)
    if len(words) == _WORDS_OF_ONE_VALUE:
        return TDigest.from_values(words[1:].tolist(), max_centroids=_CENTROIDS)
    means, weights = words[4::2], words.view(np.uint64)[5::2]
    return TDigest.from_values(means.tolist(), weights.tolist(), _CENTROIDS)


def _enough(quantile: float) -> int:
    """Return the number of records among which one is expected to exceed a quantile."""
    return round(1 / (1 - quantile))


def quantiles_of(percentiles: Sequence[float]) -> tuple[float, ...]:
    """Return percentages as quantiles."""
    return tuple(percentile / 100 for percentile in percentiles)
