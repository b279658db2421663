"""The Window Counter: how often a query was asked, second by second."""

from __future__ import annotations

from typing import NamedTuple

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Bucket, Late, bucket_of, end_of

__all__ = ["WindowCounter"]


class _Open(NamedTuple):
    """What is kept for a query.

    Attributes:
        counts: by second, of those that are not complete.
        due: the first of them, for which the timer is set.
        latest: the last one in which there was a query.
    """

    counts: dict[int, int]
    due: int
    latest: int


class WindowCounter(dm.Computation):
    """Counts the queries of a key in buckets of a second.

    Each fourth query of a bucket is told at once, on `counts`. When the low watermark reaches a bucket's end, all that
    belongs to it is believed to be here, and its count goes to `buckets`: also the count 0, which nothing but a timer
    could tell. A record that comes after that goes to `late`, and is not counted.

    Args:
        every: at how many queries of a bucket its count so far is told.
        forget: after how many seconds without a query its buckets are no longer told.
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
        kept = self.state.read()
        counts, due, latest = kept or _Open({}, second, second)
        count = counts[second] = counts.get(second, 0) + 1
        if kept is None or second < due:
            due = second
            self.set_timer("complete", end_of(due))
        self.state.write(_Open(counts, due, max(latest, second)))
        if count % self.every == 0:
            self.produce(dm.StreamRecord(self.key, Bucket(self.key, second, count), record.timestamp), "counts")

    def process_timer(self, timer: dm.FiredTimer) -> None:
        """Tell a bucket that is complete, and wait for the next one."""
        counts, second, latest = self.state.read()
        if second > latest and self.low_watermark() == dm.MAX_TIMESTAMP:
            self.state.clear()  # the input has ended: silence from here on means nothing
            return
        self.produce(
            dm.StreamRecord(self.key, Bucket(self.key, second, counts.pop(second, 0)), timer.timestamp), "buckets"
        )
        if second - latest >= self.forget:
            self.state.clear()
            return
        self.set_timer("complete", end_of(second + 1))
        self.state.write(_Open(counts, second + 1, latest))
