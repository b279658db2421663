"""Compare the detected anomalies with the planted ones."""

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
    from dataflow_model.plan.logical.runner import PipelineResult

_GOOD: Final = 0.95
_TOLERANCE: Final = 3
"""For how many seconds after its end an anomaly may still be reported: the evidence of its last seconds counts too."""


class Detection(NamedTuple):
    """An anomaly and the processing time at which it was reported.

    Attributes:
        anomaly: the anomaly.
        reported: a second of the replay clock; −∞ in a bounded job, which has no clock.
    """

    anomaly: Anomaly
    reported: float


@attrs.frozen
class Outcome:
    """The results of a run.

    Attributes:
        detections: the detected anomalies, in order of event time.
        late: the number of records that arrived after their bucket was complete.
        duplicates: the number of records dropped because they had been delivered before.
        buckets, expectations: the complete buckets, and the forecasts.
        completed: for each second, the second of the replay clock at which the low watermark reached its end.
    """

    detections: tuple[Detection, ...]
    late: int
    duplicates: int
    buckets: tuple[Bucket, ...]
    expectations: tuple[Expectation, ...]
    completed: dict[int, float]

    @classmethod
    def of(cls, result: PipelineResult) -> Outcome:
        """Collect the outcome of a run that has ended."""
        detections = [
            Detection(record.value[1], _clock(record.processing_time)) for record in result.collected("anomalies")
        ]
        counters = Counter[str]()
        for counts in result.metrics().values():
            counters.update({name: int(count) for name, count in counts.items() if name == "duplicates"})
        return cls(
            tuple(sorted(detections)),
            len(result.collected("late")),
            counters["duplicates"],
            tuple(record.value[1] for record in result.collected("buckets")),
            tuple(record.value[1] for record in result.collected("expectations")),
            {record.value[1].second: int(record.processing_time) / SECOND for record in result.collected("buckets")},
        )


@attrs.frozen
class Score:
    """How well the detections match the planted anomalies.

    Attributes:
        pairs: each planted anomaly with its detection, or `None` if it was missed.
        false: the detections of anomalies that were not planted, or had been detected before.
    """

    pairs: tuple[tuple[Planted, Detection | None], ...]
    false: tuple[Detection, ...]

    @property
    def hits(self) -> int:
        """The number of planted anomalies that were detected."""
        return sum(detection is not None for _, detection in self.pairs)

    @property
    def precision(self) -> float:
        """The share of the detections that are planted anomalies."""
        return self.hits / max(self.hits + len(self.false), 1)

    @property
    def recall(self) -> float:
        """The share of the planted anomalies that were detected."""
        return self.hits / max(len(self.pairs), 1)

    @property
    def is_good(self) -> bool:
        """Whether precision and recall are both at least 0.95."""
        return min(self.precision, self.recall) >= _GOOD

    def false_of(self, kind: Kind) -> int:
        """Return the number of false detections of a kind."""
        return sum(detection.anomaly.kind is kind for detection in self.false)


def _clock(processing_time: dm.ProcessingTime) -> float:
    """Return a processing time in seconds of the replay clock; −∞ for a bounded job, which has no clock."""
    return -math.inf if int(processing_time) == int(MIN_TIMESTAMP) else int(processing_time) / SECOND


def score(planted: Iterable[Planted], detections: Iterable[Detection]) -> Score:
    """Match detections with planted anomalies: the same query and kind, detected while the anomaly lasted.

    Example:
        >>> from dataflow_model.examples.zeitgeist.scenario import Planted
        >>> planted = [Planted("rain", Kind.SPIKE, 10, 20, 3.0), Planted("rain", Kind.DIP, 40, 60, 0.1)]
        >>> detections = [Detection(Anomaly("rain", Kind.SPIKE, 9, 12, 1.0, 80, 30.0), 13.0)]
        >>> result = score(planted, detections)
        >>> result.precision, result.recall
        (1.0, 0.5)
    """
    unmatched = sorted(detections)
    pairs: list[tuple[Planted, Detection | None]] = []
    for anomaly in planted:
        match = next((detection for detection in unmatched if _matches(anomaly, detection.anomaly)), None)
        if match is not None:
            unmatched.remove(match)
        pairs.append((anomaly, match))
    return Score(tuple(pairs), tuple(unmatched))


def _matches(planted: Planted, anomaly: Anomaly) -> bool:
    same = (planted.query, planted.kind) == (anomaly.query, anomaly.kind)
    return same and planted.start <= anomaly.second < planted.end + _TOLERANCE
