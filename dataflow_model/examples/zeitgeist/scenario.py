"""A made-up history of searches, with what went wrong in it: known, so that detection can be measured."""

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

__all__ = ["CENTRES", "History", "Outage", "Planted", "Popularity", "Scenario"]

CENTRES: Final = ("dublin", "iowa", "taipei")
_SHARES: Final = (0.65, 0.2, 0.15)
"""What part of the queries each data centre serves: without the first, little is left."""
_CALENDAR: Final = Calendar(slot_seconds=25, slots=12)
_TICK: Final = SECOND // 10
"""The replay clock's grain."""
_FACTORS: Final = {Kind.SPIKE: (2.5, 4.0), Kind.DIP: (0.0, 0.25)}
"""Between what and what times the usual traffic an anomaly's is."""
_EVEN: Final = 0.5
_SHORTEST: Final = 18
_LONGEST: Final = 26
_GAP: Final = 20
"""Seconds between two anomalies of one query, at least."""
_CATCH_UP: Final = 10
"""How many times faster than live a data centre sends what it has kept back."""
_MOST_DELAY: Final = 1.5


class Popularity(NamedTuple):
    """A query's usual traffic: queries a second on average, how much it swings over a day, and when it peaks."""

    query: str
    rate: float
    swing: float
    peak: float


class Planted(NamedTuple):
    """An anomaly that is there: seconds `[start, end)` with `factor` times the usual traffic."""

    query: str
    kind: Kind
    start: int
    end: int
    factor: float


class Outage(NamedTuple):
    """Seconds `[start, end)` in which a data centre is cut off: its records come after that, none is lost."""

    centre: str
    start: int
    end: int


class History(NamedTuple):
    """What a scenario makes.

    Attributes:
        table: records by when they were `seen`: when they were `asked`, an `id`, the `query`, the `centre`.
        planted, outages: what happened.
        redelivered: how many of the records are there a second time.
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
    """How the history is made; the same one each time, for one seed.

    A day is compressed: 300 seconds by default, so that five of them are a small run. Buckets stay one second.

    Attributes:
        seed: of all that is drawn.
        calendar: how long a day is, and how it is cut into slots.
        days, learning_days: how many there are, and how many of them are without an anomaly or outage, for the model.
        growth: how much all traffic grows from a day to the next.
        stragglers: the share of records that come 8 to 25 seconds after they were asked.
        redelivered: the share of records that come twice.
        popularity: the queries.
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
        """How long the history is."""
        return self.days * self.calendar.day_seconds

    def make(self) -> History:
        """Make the history."""
        random = np.random.default_rng(self.seed)
        planted, outages = self._plant(random), self._cut_off(random)
        counts = [random.poisson(self.rates(one, planted)) for one in self.popularity]
        query = np.concatenate([np.full(count.sum(), place) for place, count in enumerate(counts)])
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
            "query": pa.array([one.query for one in self.popularity]).take(pa.array(query[rows])),
            "centre": pa.array(CENTRES).take(pa.array(centre[rows])),
        }
        return History(pa.table(columns), planted, outages, len(again))

    def rates(self, one: Popularity, planted: tuple[Planted, ...] = ()) -> NDArray[np.float64]:
        """Return how many times a query is asked in each second, on average."""
        day = np.arange(self.seconds) / self.calendar.day_seconds
        swing = 1 + one.swing * np.cos(2 * math.pi * (day - one.peak))
        rates = one.rate * swing * (1 + self.growth) ** day
        for what in planted:
            if what.query == one.query:
                rates[what.start : what.end] *= what.factor
        return rates

    def _plant(self, random: np.random.Generator) -> tuple[Planted, ...]:
        """Plant a spike and a dip a day for each query, one in each half of the day."""
        planted = []
        half = self.calendar.day_seconds // 2
        for day in range(self.learning_days, self.days):
            for one in self.popularity:
                kinds = [Kind.SPIKE, Kind.DIP] if random.random() < _EVEN else [Kind.DIP, Kind.SPIKE]
                for place, kind in enumerate(kinds):
                    start = (2 * day + place) * half + int(random.integers(0, half - _LONGEST - _GAP))
                    end = start + int(random.integers(_SHORTEST, _LONGEST))
                    planted.append(Planted(one.query, kind, start, end, round(random.uniform(*_FACTORS[kind]), 2)))
        return tuple(sorted(planted, key=lambda what: what.start))

    def _cut_off(self, random: np.random.Generator) -> tuple[Outage, ...]:
        """Cut one of the two larger data centres off once a day, for a tenth to a sixth of it."""
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
            # What was kept back is sent in order, and what is new waits until it has been sent.
            queued = outage.end + (asked - outage.start + delay) / _CATCH_UP
            cut = (centre == CENTRES.index(outage.centre)) & (asked >= outage.start)
            seen = np.where(cut, np.maximum(seen, queued), seen)
        straggles = random.random(len(asked)) < self.stragglers
        return seen + straggles * random.uniform(8, 25, len(asked))


def _instants(micros: NDArray[np.float64]) -> pa.Array:
    return pa.array(micros.astype(np.int64), pa.timestamp("us", "UTC"))
