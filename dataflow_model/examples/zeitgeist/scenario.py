"""A generated history of searches with known anomalies, so that detection can be measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow_model.examples.zeitgeist.values import SECOND, Calendar, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CENTRES: Final = ("dublin", "iowa", "taipei")
_SHARES: Final = (0.65, 0.2, 0.15)
"""The share of the queries that each data centre serves: without the first, few remain."""
_CALENDAR: Final = Calendar(slot_seconds=25, slots=12)
_TICK: Final = SECOND // 10
"""The resolution of the replay clock."""
_FACTORS: Final = {Kind.SPIKE: (2.5, 4.0), Kind.DIP: (0.0, 0.25)}
"""The range of an anomaly's traffic, as a multiple of the usual traffic."""
_EVEN: Final = 0.5
_SHORTEST: Final = 18
_LONGEST: Final = 26
_GAP: Final = 20
"""The least number of seconds between two anomalies of a query."""
_CATCH_UP: Final = 10
"""How many times faster than live a data centre sends the records that it has held back."""
_MOST_DELAY: Final = 1.5


class Popularity(NamedTuple):
    """A query's usual traffic: queries a second on average, how much it swings over a day, and when it peaks."""

    query: str
    rate: float
    swing: float
    peak: float


class Planted(NamedTuple):
    """An anomaly of the history: seconds `[start, end)` with `factor` times the usual traffic."""

    query: str
    kind: Kind
    start: int
    end: int
    factor: float


class Outage(NamedTuple):
    """Seconds `[start, end)` in which a data centre is cut off: its records arrive afterwards, and none is lost."""

    centre: str
    start: int
    end: int


class History(NamedTuple):
    """A generated history.

    Attributes:
        table: the records in order of `seen`, with `asked`, `id`, `query` and `centre`.
        planted, outages: the anomalies and the outages.
        redelivered: the number of records that are repeated deliveries.
    """

    table: pa.Table
    planted: tuple[Planted, ...]
    outages: tuple[Outage, ...]
    redelivered: int

    def write(self, path: Path) -> Path:
        """Write the records to a Parquet file."""
        pq.write_table(self.table, path)
        return path


@attrs.frozen
class Scenario:
    """The parameters of a history; the same seed always generates the same history.

    A day is compressed to 300 seconds by default, so that a run of five days is small. Buckets are real seconds.

    Attributes:
        seed: the seed of all random numbers.
        calendar: the length of a day, and its slots.
        days, learning_days: the number of days, and of those at the beginning that have no anomaly or outage, so that
            the model can learn.
        growth: how much all traffic grows from one day to the next.
        stragglers: the share of records that arrive 8 to 25 seconds after the query was asked.
        redelivered: the share of records that are delivered twice.
        popularity: the queries and their usual traffic.
    """

    seed: int = 7
    calendar: Calendar = _CALENDAR
    days: int = 5
    learning_days: int = 2
    growth: float = 0.03
    stragglers: float = 0.003
    redelivered: float = 0.02
    popularity: tuple[Popularity, ...] = (
        Popularity("carpe diem", 7.0, 0.4, 0.1),
        Popularity("eclipse", 9.0, 0.5, 0.5),
        Popularity("lasagne", 6.0, 0.4, 0.75),
        Popularity("weather", 11.0, 0.5, 0.3),
    )

    @property
    def seconds(self) -> int:
        """The length of the history."""
        return self.days * self.calendar.day_seconds

    def make(self) -> History:
        """Generate the history."""
        random = np.random.default_rng(self.seed)
        planted, outages = self._plant(random), self._cut_off(random)
        counts = [random.poisson(self.rates(popularity, planted)) for popularity in self.popularity]
        query = np.concatenate([np.full(count.sum(), index) for index, count in enumerate(counts)])
        second = np.concatenate([np.repeat(np.arange(self.seconds), count) for count in counts])
        asked = second + random.random(len(second))
        centre = random.choice(len(CENTRES), len(second), p=_SHARES)
        seen = self._seen(random, asked, centre, outages)
        again = np.flatnonzero(random.random(len(asked)) < self.redelivered)
        rows = np.concatenate([np.arange(len(asked)), again])
        seen = np.concatenate([seen, seen[again] + random.uniform(0.2, 15, len(again))])
        order = np.lexsort((rows, np.ceil(seen * SECOND / _TICK)))
        rows = rows[order]
        columns = {
            "asked": _instants(asked[rows] * SECOND),
            "seen": _instants(np.ceil(seen[order] * SECOND / _TICK) * _TICK),
            "id": pa.array(rows),
            "query": pa.array([popularity.query for popularity in self.popularity]).take(pa.array(query[rows])),
            "centre": pa.array(CENTRES).take(pa.array(centre[rows])),
        }
        return History(pa.table(columns), planted, outages, len(again))

    def rates(self, popularity: Popularity, planted: tuple[Planted, ...] = ()) -> NDArray[np.float64]:
        """Return the average number of times that a query is asked, for each second."""
        day = np.arange(self.seconds) / self.calendar.day_seconds
        swing = 1 + popularity.swing * np.cos(2 * math.pi * (day - popularity.peak))
        rates = popularity.rate * swing * (1 + self.growth) ** day
        for anomaly in planted:
            if anomaly.query == popularity.query:
                rates[anomaly.start : anomaly.end] *= anomaly.factor
        return rates

    def _plant(self, random: np.random.Generator) -> tuple[Planted, ...]:
        """Plant a spike and a dip per day for each query, one in each half of the day."""
        planted = []
        half = self.calendar.day_seconds // 2
        for day in range(self.learning_days, self.days):
            for popularity in self.popularity:
                kinds = [Kind.SPIKE, Kind.DIP] if random.random() < _EVEN else [Kind.DIP, Kind.SPIKE]
                for index, kind in enumerate(kinds):
                    start = (2 * day + index) * half + int(random.integers(0, half - _LONGEST - _GAP))
                    end = start + int(random.integers(_SHORTEST, _LONGEST))
                    factor = round(random.uniform(*_FACTORS[kind]), 2)
                    planted.append(Planted(popularity.query, kind, start, end, factor))
        return tuple(sorted(planted, key=lambda anomaly: anomaly.start))

    def _cut_off(self, random: np.random.Generator) -> tuple[Outage, ...]:
        """Cut off one of the two larger data centres once a day, for a tenth to a sixth of the day."""
        outages = []
        day_seconds = self.calendar.day_seconds
        for day in range(self.learning_days, self.days):
            length = int(random.integers(day_seconds // 10, day_seconds // 6))
            start = day * day_seconds + int(random.integers(day_seconds // 6, day_seconds // 2))
            outages.append(Outage(CENTRES[day % 2], start, start + length))
        return tuple(outages)

    def _seen(
        self,
        random: np.random.Generator,
        asked: NDArray[np.float64],
        centre: NDArray[np.int64],
        outages: tuple[Outage, ...],
    ) -> NDArray[np.float64]:
        delay = np.minimum(random.exponential(0.25, len(asked)), _MOST_DELAY)
        seen = asked + delay
        for outage in outages:
            # Records that were held back are sent in order, and new ones wait until all of them have been sent.
            queued = outage.end + (asked - outage.start + delay) / _CATCH_UP
            cut = (centre == CENTRES.index(outage.centre)) & (asked >= outage.start)
            seen = np.where(cut, np.maximum(seen, queued), seen)
        straggles = random.random(len(asked)) < self.stragglers
        return seen + straggles * random.uniform(8, 25, len(asked))


def _instants(micros: NDArray[np.float64]) -> pa.Array:
    return pa.array(micros.astype(np.int64), pa.timestamp("us", "UTC"))
