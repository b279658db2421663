"""The Model Calculator: what traffic to expect of a query, learned from complete buckets."""

from __future__ import annotations

from typing import Final

import attrs

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Bucket, Calendar, Expectation

__all__ = ["Model", "ModelCalculator"]

_SURPRISE: Final = 1.2
"""A slot that differs by more than this factor teaches as if it differed by it: an anomaly is not tomorrow's usual."""
_LEAST: Final = 0.05
"""Queries a second of a slot that had none: a rate of 0 could neither grow nor be compared with anything."""


@attrs.define
class Model:
    """A query's traffic: a level that all of it shares, times a profile over the slots of the day.

    The profile is a mean over the first days, and from then on exponentially weighted: the past counts for about
    `memory` days. The level follows the newest slots.

    Attributes:
        calendar: how the day is cut.
        memory: over how many days the profile averages.
        agility: how much of a slot's deviation the level takes up, from 0 to 1.
        level, profile, learned: what has been learned: queries a second by slot of the day, and of how many days.
        slot, total, seconds: the present slot, and what it has had so far.

    Example:
        >>> model = Model(Calendar(slot_seconds=2, slots=3))
        >>> for second, count in enumerate([4, 6, 9, 9, 2, 2]):
        ...     model.learn(second, count)
        >>> [model.rate(slot) for slot in range(3)]
        [5.0, 9.0, 2.0]
    """

    calendar: Calendar
    memory: int = 4
    agility: float = 0.05
    level: float = 1.0
    profile: dict[int, float] = attrs.field(factory=dict)
    learned: dict[int, int] = attrs.field(factory=dict)
    slot: int = -1
    total: int = 0
    seconds: int = 0

    def rate(self, slot: int) -> float | None:
        """Return how many queries a second are expected in a slot, or `None` while it has not been seen."""
        usual = self.profile.get(slot % self.calendar.slots)
        return None if usual is None else self.level * usual

    def learn(self, second: int, count: int) -> None:
        """Take a bucket in; buckets come in order."""
        slot = self.calendar.slot_of(second)
        if slot != self.slot:
            self.slot, self.total, self.seconds = slot, 0, 0
        self.total += count
        self.seconds += 1
        if self.calendar.ends_slot(second):
            self._learn_slot(slot % self.calendar.slots, self.total / self.seconds)

    def _learn_slot(self, hour: int, mean: float) -> None:
        days = self.learned[hour] = self.learned.get(hour, 0) + 1
        usual = self.profile.get(hour)
        if usual is None:
            self.profile[hour] = max(mean, _LEAST)
            return
        share = min(max(mean / (self.level * usual), 1 / _SURPRISE), _SURPRISE)
        before, self.level = self.level, self.level * share**self.agility
        self.profile[hour] = usual * (1 + (share * before / self.level - 1) / min(days, self.memory))


class ModelCalculator(dm.Computation):
    """Learns from a key's `buckets`, and tells on `expectations` what the next day's same slot should be like.

    A forecast is made a day ahead. So what the detector expects of a second stands fixed long before any record of that
    second can come, and does not depend on which records come first.

    Args:
        calendar: how the day is cut.
        learning_days: how many days of a slot must have been seen before it is forecast.
    """

    coder = dm.PickleCoder()

    def __init__(self, calendar: Calendar, learning_days: int = 2) -> None:
        self.calendar = calendar
        self.learning_days = learning_days

    def process_record(self, record: dm.StreamRecord) -> None:
        """Learn a bucket; at the end of a slot, forecast the same slot of the next day."""
        bucket: Bucket = record.value
        model: Model = self.state.read() or Model(self.calendar)
        model.learn(bucket.second, bucket.times)
        self.state.write(model)
        slot = self.calendar.slot_of(bucket.second)
        rate = model.rate(slot)
        if (
            rate is not None
            and self.calendar.ends_slot(bucket.second)
            and model.learned[slot % self.calendar.slots] >= self.learning_days
        ):
            forecast = Expectation(self.key, slot + self.calendar.slots, rate)
            self.produce(dm.StreamRecord(self.key, forecast, record.timestamp), "expectations")
