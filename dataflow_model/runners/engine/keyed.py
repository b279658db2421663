"""What engines that keep state by key have in common: their clocks, the output's watermarks, durable state."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.runners.engine.key_store import StoredKey

__all__ = ["KeyedEngine", "KeyedStore", "percentile_at"]


class KeyedStore(Protocol):
    """Keys in memory, and settled keys as bytes."""

    def hold(self) -> int | None:
        """Return the earliest event time of what is still to come."""
        ...

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return at which event time, and at which time of the clock, a timer or an expiry is next due."""
        ...

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        ...

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on: it is decoded again when touched."""
        ...

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        ...

    def take_touched(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        ...

    def size(self) -> tuple[int, int]:
        """Return how many entries there are, and how many bytes those that are settled have."""
        ...


def percentile_at(time: int, low: int, percentiles: Mapping[float, int]) -> float | None:
    """Return the lowest percentile whose watermark has not passed an event time; `None` behind the low watermark.

    Args:
        time: the event time.
        low: the low watermark.
        percentiles: the others, lowest percentile first.

    Example:
        >>> [percentile_at(time, 10, {50: 30, 90: 20}) for time in (35, 25, 15, 5)]
        [50, 90, 100.0, None]
    """
    if time < low:
        return None
    return next((percentile for percentile, watermark in percentiles.items() if watermark <= time), LOW_WATERMARK)


class KeyedEngine:
    """One keyed node on one shard.

    Args:
        label: the node's.
        store: its keys.
        percentiles: those below 100 that any trigger of the plan waits for, in order; downstream is told these.
        others: further ones that this node's own trigger waits for.

    Attributes:
        watermark, clock: the low watermark of the input, and the processing clock.
        percentiles: the further percentiles of the input's watermark.
        counters: what has been counted, by name.
    """

    def __init__(
        self, label: str, store: KeyedStore, percentiles: tuple[float, ...] = (), others: tuple[float, ...] = ()
    ) -> None:
        never = int(MIN_TIMESTAMP)
        self.label = label
        self.counters: Counter[str] = Counter()
        self.watermark = never
        self.clock = 0
        self.percentiles = dict.fromkeys((*percentiles, *others), never)
        self._store = store
        self._told = len(percentiles)

    def held(self, watermark: int) -> int:
        """Return a watermark of the input as far as what is still to come lets it through."""
        hold = self._store.hold()
        return watermark if hold is None else min(watermark, hold)

    def reach(self, watermark: int, percentiles: Sequence[int]) -> bool:
        """Take the input's watermarks forward, never back; return whether any has moved.

        A percentile that is not told, or told too low, is where the low watermark is.
        """
        moved: dict[float, int] = {}
        if self.percentiles:
            told = dict(zip(self.percentiles, percentiles, strict=False))
            for one, before in self.percentiles.items():
                value = max(told.get(one, watermark), watermark)
                if value > before:
                    moved[one] = value
        if watermark <= self.watermark and not moved:
            return False
        self.watermark = max(self.watermark, watermark)
        self.percentiles.update(moved)
        return True

    def output_watermark(self) -> int:
        """Return what this shard lets the output's watermark be: the input's, held by what is still to come.

        It may go back, when late data are pending again. Whoever receives the output takes the minimum over the shards
        first and the running maximum of that second: a shard that did so for itself would have the number of shards
        decide what is late downstream.
        """
        return self.held(self.watermark)

    def output_percentiles(self) -> tuple[int, ...]:
        """Return the same for the further percentiles of the watermark, in the plan's order."""
        values = itertools.islice(self.percentiles.values(), self._told)  # the plan's come first
        return tuple(self.held(value) for value in values)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return at which watermark of the input, and at which time of the clock, something next happens by itself."""
        return self._store.next_moments()

    def percentile_of(self, time: int) -> float | None:
        """Return the lowest percentile whose watermark of the input has not passed an event time."""
        return percentile_at(time, self.watermark, self.percentiles)

    # State ---------------------------------------------------------------------------------------------------------

    def stand_at(
        self,
        *,
        watermark: int,
        clock: int,
        percentiles: Sequence[int] = (),
    ) -> None:
        """Set the clocks of the shard, as `position` gave them; without percentiles these are at the low watermark."""
        self.watermark, self.clock = watermark, clock
        values = percentiles or [watermark] * len(self.percentiles)
        self.percentiles = dict(zip(self.percentiles, values, strict=True))

    def position(self) -> dict[str, Any]:
        """Return the clocks of the shard, for `stand_at`."""
        return {
            "watermark": self.watermark,
            "clock": self.clock,
            "percentiles": tuple(self.percentiles.values()),
        }

    def state_size(self) -> tuple[int, int]:
        """Return how many entries its state has, and how many bytes those that are settled have."""
        return self._store.size()

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        self._store.apply(changes)

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on: it is decoded again when touched."""
        return self._store.settle(freeze)

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self._store.stored(encoded)

    def take_touched(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        return self._store.take_touched(freeze)
