"""The Spike/Dip Detector: evidence that is summed over consecutive buckets."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import attrs

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Anomaly, Bucket, Calendar, Expectation, Kind

SPIKED: Final = 2.0
"""A spike is at least this many times the expected traffic; anything less is fluctuation."""
DIPPED: Final = 0.4
"""A dip is at most this fraction of the expected traffic."""
ENOUGH: Final = 16.0
"""The evidence at which an anomaly is reported: e^16, that is nine million, times likelier than chance."""
_MOST: Final = 2 * ENOUGH
"""The upper bound of the evidence, so that a long anomaly is over soon after it ends."""


def evidence(count: int, expected: float, factor: float) -> float:
    """Return how much more likely a bucket's count is under `factor` times the expected traffic than under just it.

    It is the logarithm of the ratio of the two Poisson likelihoods: positive if the count supports the factor.
    With a factor above 1 it grows with the count, so the evidence of half a bucket is less than that of the whole.

    Example:
        >>> evidence(30, 10, 3) > 0, evidence(10, 10, 3) < 0, evidence(0, 10, 0.1) > 0
        (True, True, True)
    """
    return count * math.log(factor) - expected * (factor - 1)


class Run(NamedTuple):
    """Consecutive buckets that support an anomaly: Page's cumulative sum, which restarts at 0.

    Attributes:
        score: the sum of their evidence, never negative.
        since: the first bucket; `None` if there is none.
        seen, expected: the number of queries in the buckets, and the expected number.

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
        """Return the anomaly to report."""
        since = second if self.since is None else self.since
        return Anomaly(query, kind, since, second, 1 / (1 + math.exp(-self.score)), self.seen, round(self.expected, 1))


_NONE: Final = Run()


def expected_in(second: int, rates: dict[int, float], calendar: Calendar) -> float | None:
    """Return the expected count of a bucket, interpolated between the middles of two slots if both are known.

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
    """The state of the detector for a query.

    Attributes:
        rates: the expected rate, by slot.
        counts: the running counts of the buckets that are not complete.
        complete: the last complete bucket.
        runs: the evidence up to that bucket, by kind.
        reported: the bucket with which the current spike or dip was reported.
    """

    rates: dict[int, float] = attrs.field(factory=dict)
    counts: dict[int, int] = attrs.field(factory=dict)
    complete: int | None = None
    runs: dict[Kind, Run] = attrs.field(factory=_no_evidence)
    reported: dict[Kind, int] = attrs.field(factory=dict)


class SpikeDipDetector(dm.Computation):
    """Produces an anomaly on `anomalies` when a key's traffic is far from the expected traffic, once for each anomaly.

    More records can only strengthen a spike, so a spike is reported as soon as enough records have arrived: by
    `counts`, without a timer. A dip could be cancelled by records that are still on their way, so it is judged by
    `buckets` alone, which the low-watermark timers of the Window Counter produce.

    Args:
        calendar: how the day is cut.
    """

    coder = dm.PickleCoder()

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar

    def process_record(self, record: dm.StreamRecord) -> None:
        """Process a forecast, a running count, or a complete bucket."""
        watched: _Watched = self.state.read() or _Watched()
        match record.value:
            case Expectation(slot=slot, rate=rate):
                watched.rates[slot] = rate
            case Bucket() as bucket if record.stream == "counts":
                self._so_far(watched, bucket, record.timestamp)
            case Bucket() as bucket:
                self._complete(watched, bucket, record.timestamp)
        self.state.write(watched)

    def _so_far(self, watched: _Watched, bucket: Bucket, timestamp: dm.EventTime) -> None:
        """Check whether the running counts of the open buckets, which can only grow, are already a spike."""
        watched.counts[bucket.second] = max(bucket.times, watched.counts.get(bucket.second, 0))
        if Kind.SPIKE in watched.reported:
            return
        run, before = watched.runs[Kind.SPIKE], watched.complete
        for second in sorted(watched.counts):
            expected = expected_in(second, watched.rates, self.calendar)
            follows = before is None or second == before + 1
            run, before = run if follows else _NONE, second
            run = _NONE if expected is None else run.after(second, watched.counts[second], expected, SPIKED)
            if run.score >= ENOUGH:
                self._report(watched, run, Kind.SPIKE, second, timestamp)
                return

    def _complete(self, watched: _Watched, bucket: Bucket, timestamp: dm.EventTime) -> None:
        second = bucket.second
        if watched.complete is not None and second > watched.complete + 1:  # the counter had forgotten the query
            watched.runs, watched.reported = _no_evidence(), {}
        watched.complete = second
        watched.counts.pop(second, None)
        expected = expected_in(second, watched.rates, self.calendar)
        for kind, factor in ((Kind.SPIKE, SPIKED), (Kind.DIP, DIPPED)):
            run = _NONE if expected is None else watched.runs[kind].after(second, bucket.times, expected, factor)
            watched.runs[kind] = run
            if run.score >= ENOUGH and kind not in watched.reported:
                self._report(watched, run, kind, second, timestamp)
            elif run.since is None and watched.reported.get(kind, second) <= second:
                watched.reported.pop(kind, None)
        if self.calendar.ends_slot(second):
            watched.rates.pop(self.calendar.slot_of(second) - 1, None)  # no later bucket interpolates from it

    def _report(self, watched: _Watched, run: Run, kind: Kind, second: int, timestamp: dm.EventTime) -> None:
        watched.reported[kind] = second
        self.produce(dm.StreamRecord(self.key, run.anomaly(self.key, kind, second), timestamp), "anomalies")
