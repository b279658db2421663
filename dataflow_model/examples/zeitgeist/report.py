"""What was found against what was planted."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from dataflow_model import MIN_TIMESTAMP
from dataflow_model.examples.zeitgeist.values import SECOND, Anomaly, Bucket, Expectation, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    import dataflow_model as dm
    from dataflow_model.examples.zeitgeist.scenario import Planted

__all__ = ["Found", "Outcome", "Score", "score"]

_GOOD: Final = 0.95
_TOLERANCE: Final = 3
"""By how many seconds after its end an anomaly may be told: the evidence of its last ones is still being weighed."""


class Found(NamedTuple):
    """An anomaly, and when it was told in processing time: a second of the replay clock, −∞ in a bounded job."""

    anomaly: Anomaly
    told: float


@attrs.frozen
class Outcome:
    """What a run gave.

    Attributes:
        found: the anomalies, in order of event time.
        late: how many records came after their bucket was complete.
        duplicates: how many were dropped as delivered before.
        buckets, expectations: the complete buckets, and the forecasts.
        completed: when each second was complete, which is when the low watermark reached its end: a second of the
            replay clock.
    """

    found: tuple[Found, ...]
    late: int
    duplicates: int
    buckets: tuple[Bucket, ...]
    expectations: tuple[Expectation, ...]
    completed: dict[int, float]

    @classmethod
    def of(cls, result: dm.PipelineResult) -> Outcome:
        """Collect it from a run that has ended."""
        found = [Found(record.value[1], _clock(record.processing_time)) for record in result.collected("anomalies")]
        counters = Counter[str]()
        for counts in result.metrics().values():
            counters.update({name: int(count) for name, count in counts.items() if name == "duplicates"})
        return cls(
            tuple(sorted(found)),
            len(result.collected("late")),
            counters["duplicates"],
            tuple(record.value[1] for record in result.collected("buckets")),
            tuple(record.value[1] for record in result.collected("expectations")),
            {record.value[1].second: int(record.processing_time) / SECOND for record in result.collected("buckets")},
        )


@attrs.frozen
class Score:
    """How good that is.

    Attributes:
        pairs: each planted anomaly, with what was found of it or `None`.
        false: what was found and not planted, or found twice.
    """

    pairs: tuple[tuple[Planted, Found | None], ...]
    false: tuple[Found, ...]

    @property
    def hits(self) -> int:
        """How many of the planted were found."""
        return sum(found is not None for _, found in self.pairs)

    @property
    def precision(self) -> float:
        """The share of what was found that had been planted."""
        return self.hits / max(self.hits + len(self.false), 1)

    @property
    def recall(self) -> float:
        """The share of what was planted that was found."""
        return self.hits / max(len(self.pairs), 1)

    @property
    def is_good(self) -> bool:
        """Whether precision and recall are 0.95 at least."""
        return min(self.precision, self.recall) >= _GOOD

    def false_of(self, kind: Kind) -> int:
        """Return how many of a kind were found that are none."""
        return sum(found.anomaly.kind is kind for found in self.false)


def _clock(processing_time: dm.ProcessingTime) -> float:
    """Return a second of the replay clock; a bounded job has no clock, which stands at −∞ there."""
    return -math.inf if int(processing_time) == int(MIN_TIMESTAMP) else int(processing_time) / SECOND


def score(planted: Iterable[Planted], found: Iterable[Found]) -> Score:
    """Match what was found with what was planted: the same query and kind, settled while it lasted.

    Example:
        >>> from dataflow_model.examples.zeitgeist.scenario import Planted
        >>> planted = [Planted("rain", Kind.SPIKE, 10, 20, 3.0), Planted("rain", Kind.DIP, 40, 60, 0.1)]
        >>> found = [Found(Anomaly("rain", Kind.SPIKE, 9, 12, 1.0, 80, 30.0), 13.0)]
        >>> result = score(planted, found)
        >>> result.precision, result.recall
        (1.0, 0.5)
    """
    left = sorted(found)
    pairs: list[tuple[Planted, Found | None]] = []
    for what in planted:
        match = next((candidate for candidate in left if _fits(what, candidate.anomaly)), None)
        if match is not None:
            left.remove(match)
        pairs.append((what, match))
    return Score(tuple(pairs), tuple(left))


def _fits(planted: Planted, anomaly: Anomaly) -> bool:
    same = (planted.query, planted.kind) == (anomaly.query, anomaly.kind)
    return same and planted.start <= anomaly.second < planted.end + _TOLERANCE
