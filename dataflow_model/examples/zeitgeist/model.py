"""The Model Calculator: learns the expected traffic of a query from complete buckets."""

from __future__ import annotations

from typing import Final

import attrs

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.values import Bucket, Calendar, Expectation

_SURPRISE: Final = 1.2
"""The model learns at most this factor from a slot, so that an anomaly does not become the next day's normal."""
_LEAST: Final = 0.05
"""The rate per second of a slot without queries: a rate of 0 could neither grow nor be compared."""


@attrs.define
class Model:
    """A query's traffic: a level multiplied by a profile over the slots of the day.

    The profile is a mean over the first days, and then an exponentially weighted mean over about `memory` days. The
    level follows the newest slots.

    Attributes:
        calendar: the division of the day into slots.
        memory: the number of days over which the profile averages.
        agility: how much of a slot's deviation the level adopts, from 0 to 1.
        level, profile, learned: the level; by slot of the day, the profile in queries per second, and the number of
            days that it was learned from.
        slot, total, seconds: the current slot, its queries so far, and its seconds so far.

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
        """Return the expected number of queries per second in a slot; `None` if the slot has not been seen yet."""
        usual = self.profile.get(slot % self.calendar.slots)
        return None if usual is None else self.level * usual

    def learn(self, second: int, count: int) -> None:
        """Learn from a bucket; buckets arrive in order."""
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
    """Learns from a key's `buckets`, and produces forecasts of the same slot of the next day on `expectations`.

    A forecast is made a day ahead. The expected count of a second is therefore fixed long before any record of that
    second can arrive, and does not depend on the order of arrival.

    Args:
        calendar: the division of the day into slots.
        learning_days: the number of days that a slot must have been seen before it is forecast.
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
