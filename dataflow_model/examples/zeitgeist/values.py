"""What travels on the streams, and how time is cut into buckets and slots."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import dataflow_model as dm

__all__ = ["SECOND", "Anomaly", "Bucket", "Calendar", "Expectation", "Kind", "Late", "bucket_of", "end_of"]

SECOND: Final = 1_000_000
"""A bucket: one second of event time, in microseconds."""


class Kind(StrEnum):
    """What may be wrong with a query's traffic."""

    SPIKE = "spike"
    DIP = "dip"


class Bucket(NamedTuple):
    """How many times a query was asked in one second: on the stream `counts` so far, on `buckets` in all."""

    query: str
    second: int
    times: int


class Late(NamedTuple):
    """A record whose bucket was complete when it came."""

    query: str
    second: int


class Expectation(NamedTuple):
    """How often a second a query is expected to be asked in one slot of time."""

    query: str
    slot: int
    rate: float


class Anomaly(NamedTuple):
    """What the detector tells.

    Attributes:
        query, kind: what is wrong with what.
        since: the second in which the evidence began to gather.
        second: the one that settled it.
        confidence: that this is no chance: 1 / (1 + exp(−evidence)).
        seen, expected: queries from `since` to `second`, both included.
    """

    query: str
    kind: Kind
    since: int
    second: int
    confidence: float
    seen: int
    expected: float


class Calendar(NamedTuple):
    """How a day is cut.

    Attributes:
        slot_seconds: the length of a slot, for which one rate is learned.
        slots: how many a day has.

    Example:
        >>> day = Calendar(slot_seconds=15, slots=20)
        >>> day.day_seconds, day.slot_of(301), day.slot_of(301) % day.slots
        (300, 20, 0)
    """

    slot_seconds: int
    slots: int

    @property
    def day_seconds(self) -> int:
        """The length of a day."""
        return self.slot_seconds * self.slots

    def slot_of(self, second: int) -> int:
        """Return the number of the slot that a second lies in, counted from the epoch."""
        return second // self.slot_seconds

    def ends_slot(self, second: int) -> bool:
        """Tell whether a second is the last one of its slot."""
        return (second + 1) % self.slot_seconds == 0


def bucket_of(timestamp: dm.EventTime) -> int:
    """Return the number of the second that an instant lies in.

    Example:
        >>> bucket_of(dm.EventTime(2_999_999))
        2
    """
    return int(timestamp) // SECOND


def end_of(second: int) -> dm.EventTime:
    """Return the end of a second, which is no longer in it.

    Example:
        >>> bucket_of(end_of(2))
        3
    """
    return dm.EventTime((second + 1) * SECOND)
