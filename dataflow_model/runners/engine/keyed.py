"""What engines that keep state by key have in common: their clocks, the output's watermarks, durable state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dataflow_model.runners.engine.machine import ObjectMachine
from dataflow_model.runners.engine.resharding import keys_of_share
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dataflow_model.runners.engine.key_store import StoredKey
    from dataflow_model.runners.engine.resharding import Share

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


class KeyedEngine(ObjectMachine):
    """One keyed node that keeps state by key, on one shard.

    Args:
        label: the node's.
        store: its keys.
        percentiles: those below 100 that any trigger of the plan waits for, in order.

    Attributes:
        watermarks: those of the input.
        watermark: the low one of them.
        percentiles: the others, by percentile.
        clock: the processing clock.
    """

    def __init__(self, label: str, store: KeyedStore, percentiles: tuple[float, ...] = ()) -> None:
        super().__init__(label)
        self.clock = 0
        self._percentiles = percentiles
        self._stand(MIN_WATERMARKS)
        self._store = store

    def _stand(self, watermarks: Watermarks) -> None:
        self.watermarks = watermarks
        self.watermark = watermarks.low
        further = watermarks.further(len(self._percentiles))
        self.percentiles = dict(zip(self._percentiles, further, strict=True))

    def reach(self, watermarks: Watermarks) -> bool:
        """Take the input's watermarks forward, never back; return whether any has moved."""
        moved = super().reach(watermarks)
        if moved:
            self._stand(self.watermarks)
        return moved

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks, held by what is still to come."""
        return self._held(self.watermarks)

    def _held(self, watermarks: Watermarks) -> Watermarks:
        hold = self._store.hold()
        return watermarks if hold is None else watermarks.held(hold)

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
        self.clock = clock
        self._stand(Watermarks.of(watermark, percentiles))

    def position(self) -> dict[str, Any]:
        """Return the clocks of the shard, for `stand_at`."""
        return {
            "watermark": self.watermark,
            "clock": self.clock,
            "percentiles": tuple(self.percentiles.values()),
        }

    def state_size(self) -> tuple[int, int] | None:
        """Return how many entries its state has, and how many bytes those that are settled have."""
        return self._store.size()

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the keys of one shard."""
        return keys_of_share(parts, share)

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        self._store.apply(changes)

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on: it is decoded again when touched."""
        return self._store.settle(freeze)

    def stored(self, name: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self._store.stored(name)

    def take_touched(self, freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        return self._store.take_touched(freeze)
