"""The values on the streams, and the division of time into buckets and slots."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import dataflow_model as dm

SECOND: Final = 1_000_000
"""A bucket: one second of event time, in microseconds."""


class Kind(StrEnum):
    """The kinds of anomaly."""

    SPIKE = "spike"
    DIP = "dip"


class Bucket(NamedTuple):
    """How many times a query was asked in one second: a running count on `counts`, the final count on `buckets`."""

    query: str
    second: int
    times: int


class Late(NamedTuple):
    """A record whose bucket was complete when it arrived."""

    query: str
    second: int


class Expectation(NamedTuple):
    """The expected rate of a query in a slot of time, per second."""

    query: str
    slot: int
    rate: float


class Anomaly(NamedTuple):
    """An anomaly that the detector reports.

    Attributes:
        query, kind: the query, and the kind of anomaly.
        since: the second in which the evidence begins.
        second: the second whose count was decisive.
        confidence: the confidence that it is not chance: 1 / (1 + exp(−evidence)).
        seen, expected: the number of queries from `since` to `second`, both included, and the expected number.
    """

    query: str
    kind: Kind
    since: int
    second: int
    confidence: float
    seen: int
    expected: float


class Calendar(NamedTuple):
    """The division of a day into slots.

    Attributes:
        slot_seconds: the length of a slot, for which one rate is learned.
        slots: the number of slots in a day.

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
        """Return the number of the slot that contains a second, counted from the epoch."""
        return second // self.slot_seconds

    def ends_slot(self, second: int) -> bool:
        """Return whether a second is the last one of its slot."""
        return (second + 1) % self.slot_seconds == 0


def bucket_of(timestamp: dm.EventTime) -> int:
    """Return the number of the second that contains an instant.

    Example:
        >>> bucket_of(dm.EventTime(2_999_999))
        2
    """
    return int(timestamp) // SECOND


def end_of(second: int) -> dm.EventTime:
    """Return the end of a second, which is exclusive.

    Example:
        >>> bucket_of(end_of(2))
        3
    """
    return dm.EventTime((second + 1) * SECOND)
