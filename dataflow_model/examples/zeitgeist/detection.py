"""The Spike/Dip Detector: evidence that gathers over consecutive buckets."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import attrs

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Anomaly, Bucket, Calendar, Expectation, Kind

__all__ = ["DIPPED", "ENOUGH", "SPIKED", "Run", "SpikeDipDetector", "evidence", "expected_in"]

SPIKED: Final = 2.0
"""A spike is at least so many times the expected traffic; what is less is fluctuation."""
DIPPED: Final = 0.4
"""A dip is at most this part of it."""
ENOUGH: Final = 16.0
"""The evidence at which an anomaly is told: e^16, nine million, times likelier than chance."""
_MOST: Final = 2 * ENOUGH
"""More is not gathered, so that a long anomaly is over soon after it ends."""


def evidence(count: int, expected: float, factor: float) -> float:
    """Return how much more likely a bucket's count is with `factor` times the expected traffic than with just it.

    It is the logarithm of the ratio of the two Poisson likelihoods: positive where the count speaks for the factor.
    With a factor above 1 it grows with the count, so the evidence of half a bucket is less than that of the whole.

    Example:
        >>> evidence(30, 10, 3) > 0, evidence(10, 10, 3) < 0, evidence(0, 10, 0.1) > 0
        (True, True, True)
    """
    return count * math.log(factor) - expected * (factor - 1)


class Run(NamedTuple):
    """Consecutive buckets that speak for an anomaly: Page's cumulative sum, which starts anew at 0.

    Attributes:
        score: the sum of their evidence, never negative.
        since: the first of them, or `None` while there is none.
        seen, expected: how many queries they have had, and should have had.

    Example:
        >>> run = Run().after(7, 30, 10, 3)
        >>> run.since, run.after(8, 0, 20, 3).since
        (7, None)
    """

    score: float = 0.0
    since: int | None = None
    seen: int = 0
    expected: float = 0.0

    def after(self, second: int, count: int, expected: float, factor: float) -> Run:
        """Return the run with one more bucket."""
        score = min(self.score + evidence(count, expected, factor), _MOST)
        if score <= 0:
            return _NONE
        since = second if self.since is None else self.since
        return Run(score, since, self.seen + count, self.expected + expected)

    def anomaly(self, query: str, kind: Kind, second: int) -> Anomaly:
        """Return what is to be told of it."""
        since = second if self.since is None else self.since
        return Anomaly(query, kind, since, second, 1 / (1 + math.exp(-self.score)), self.seen, round(self.expected, 1))


_NONE: Final = Run()


def expected_in(second: int, rates: dict[int, float], calendar: Calendar) -> float | None:
    """Return the expected count of a bucket: a straight line between the middles of the slots, where both are known.

    Example:
        >>> day = Calendar(slot_seconds=10, slots=6)
        >>> [expected_in(second, {0: 4.0, 1: 8.0}, day) for second in (2, 5, 10, 15, 25)]
        [4.0, 4.2, 6.2, 8.0, None]
    """
    slot = calendar.slot_of(second)
    rate = rates.get(slot)
    if rate is None:
        return None
    from_middle = (second + 0.5 - slot * calendar.slot_seconds) / calendar.slot_seconds - 0.5
    beside = rates.get(slot + (1 if from_middle > 0 else -1), rate)
    return rate + abs(from_middle) * (beside - rate)


def _no_evidence() -> dict[Kind, Run]:
    return dict.fromkeys(Kind, _NONE)


@attrs.define
class _Watched:
    """What the detector keeps for a query.

    Attributes:
        rates: what is expected, by slot.
        counts: of the buckets that are not complete, what has come so far.
        complete: the last complete bucket.
        runs: the evidence up to it.
        told: the bucket with which the present spike, or dip, was told.
    """

    rates: dict[int, float] = attrs.field(factory=dict)
    counts: dict[int, int] = attrs.field(factory=dict)
    complete: int | None = None
    runs: dict[Kind, Run] = attrs.field(factory=_no_evidence)
    told: dict[Kind, int] = attrs.field(factory=dict)


class SpikeDipDetector(dm.Computation):
    """Tells on `anomalies` when a key's traffic is far from what is expected, once each time.

    More records can only strengthen a spike, so that one is told as soon as what has come is enough: by `counts`, with
    no timer. A dip is the opposite: more records could undo it. It is judged by `buckets` alone, which the Window
    Counter's low-watermark timers release: when nothing is on its way any more, what is not there is missing.

    Args:
        calendar: how the day is cut.
    """

    coder = dm.PickleCoder()

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar

    def process_record(self, record: dm.StreamRecord) -> None:
        """Take in a forecast, a count so far, or a complete bucket."""
        kept: _Watched = self.state.read() or _Watched()
        match record.value:
            case Expectation(slot=slot, rate=rate):
                kept.rates[slot] = rate
            case Bucket() as bucket if record.stream == "counts":
                self._so_far(kept, bucket, record.timestamp)
            case Bucket() as bucket:
                self._complete(kept, bucket, record.timestamp)
        self.state.write(kept)

    def _so_far(self, kept: _Watched, bucket: Bucket, timestamp: dm.EventTime) -> None:
        """Look whether the buckets that are still open make a spike already, each with what it has at least."""
        kept.counts[bucket.second] = max(bucket.times, kept.counts.get(bucket.second, 0))
        if Kind.SPIKE in kept.told:
            return
        run, before = kept.runs[Kind.SPIKE], kept.complete
        for second in sorted(kept.counts):
            expected = expected_in(second, kept.rates, self.calendar)
            follows = before is None or second == before + 1
            run, before = run if follows else _NONE, second
            run = _NONE if expected is None else run.after(second, kept.counts[second], expected, SPIKED)
            if run.score >= ENOUGH:
                self._tell(kept, run, Kind.SPIKE, second, timestamp)
                return

    def _complete(self, kept: _Watched, bucket: Bucket, timestamp: dm.EventTime) -> None:
        second = bucket.second
        if kept.complete is not None and second > kept.complete + 1:  # the query had been forgotten
            kept.runs, kept.told = _no_evidence(), {}
        kept.complete = second
        kept.counts.pop(second, None)
        expected = expected_in(second, kept.rates, self.calendar)
        for kind, factor in ((Kind.SPIKE, SPIKED), (Kind.DIP, DIPPED)):
            run = _NONE if expected is None else kept.runs[kind].after(second, bucket.times, expected, factor)
            kept.runs[kind] = run
            if run.score >= ENOUGH and kind not in kept.told:
                self._tell(kept, run, kind, second, timestamp)
            elif run.since is None and kept.told.get(kind, second) <= second:
                kept.told.pop(kind, None)
        if self.calendar.ends_slot(second):
            kept.rates.pop(self.calendar.slot_of(second) - 1, None)  # the line to the next middle has used it

    def _tell(self, kept: _Watched, run: Run, kind: Kind, second: int, timestamp: dm.EventTime) -> None:
        kept.told[kind] = second
        self.produce(dm.StreamRecord(self.key, run.anomaly(self.key, kind, second), timestamp), "anomalies")
