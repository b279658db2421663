"""The Window Counter: the number of times that a query was asked in each second."""

from __future__ import annotations

from typing import NamedTuple

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Bucket, Late, bucket_of, end_of


class _Open(NamedTuple):
    """The state of the counter for a query.

    Attributes:
        counts: the running count of each second that is not complete.
        due: the first second that is not complete, for which the timer is set.
        latest: the last second in which the query was asked.
    """

    counts: dict[int, int]
    due: int
    latest: int


class WindowCounter(dm.Computation):
    """Counts the queries of a key in buckets of a second.

    At every fourth query of a bucket, its running count is produced on `counts`. When the low watermark reaches the end
    of a bucket, all its records are believed to have arrived, and its count is produced on `buckets`. That includes the
    count 0, which only a timer can produce. A record that arrives later is sent to `late` and not counted.

    Args:
        every: the number of queries in a bucket after which its running count is produced again.
        forget: the number of seconds without the query after which its buckets are no longer produced.
    """

    coder = dm.PickleCoder()

    def __init__(self, *, forget: int, every: int = 4) -> None:
        self.forget = forget
        self.every = every

    def process_record(self, record: dm.StreamRecord) -> None:
        """Count a query."""
        second = bucket_of(record.timestamp)
        if end_of(second) <= self.low_watermark():
            self.produce(dm.StreamRecord(self.key, Late(self.key, second), record.timestamp), "late")
            return
        pending = self.state.read()
        counts, due, latest = pending or _Open({}, second, second)
        count = counts[second] = counts.get(second, 0) + 1
        if pending is None or second < due:
            due = second
            self.set_timer("complete", end_of(due))
        self.state.write(_Open(counts, due, max(latest, second)))
        if count % self.every == 0:
            self.produce(dm.StreamRecord(self.key, Bucket(self.key, second, count), record.timestamp), "counts")

    def process_timer(self, timer: dm.FiredTimer) -> None:
        """Produce a complete bucket, and set the timer for the next one."""
        counts, second, latest = self.state.read()
        if second > latest and self.low_watermark() == dm.MAX_TIMESTAMP:
            self.state.clear()  # the input has ended: further empty seconds mean nothing
            return
        self.produce(
            dm.StreamRecord(self.key, Bucket(self.key, second, counts.pop(second, 0)), timer.timestamp), "buckets"
        )
        if second - latest >= self.forget:
            self.state.clear()
            return
        self.set_timer("complete", end_of(second + 1))
        self.state.write(_Open(counts, second + 1, latest))
