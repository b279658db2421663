"""The base class of machines with keyed state: their clocks, output watermarks and durable state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.runners.engine.protocol.machine import ObjectMachine
from dataflow_model.runners.engine.state.resharding import keys_of_share
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dataflow_model.runners.engine.state.resharding import Share


class KeyedStore(Protocol):
    """A store of keys in memory and of settled keys as bytes."""

    def hold(self) -> int | None:
        """Return the earliest event time of pending output."""
        ...

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the event time and the processing time at which the next timer or expiry is due."""
        ...

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply changes that another worker has made durable; `None` for a key without state."""
        ...

    def settle(self) -> dict[bytes, bytes | None]:
        """Return the changes, and keep all state as bytes from now on; it is decoded again when it is used."""
        ...

    def stored(self, encoded: bytes) -> bytes | None:
        """Return a settled key's state; `None` if there is none."""
        ...

    def bound(self, most: int) -> None:
        """Keep settled state in memory up to about this many bytes, and the rest on disk, if the store can do that."""
        ...

    def size(self) -> tuple[int, int]:
        """Return the number of entries, and the number of bytes of the settled ones."""
        ...


def percentile_at(time: int, low: int, percentiles: Mapping[float, int]) -> float | None:
    """Return the lowest percentile whose watermark has not passed an event time; `None` behind the low watermark.

    Args:
        time: the event time.
        low: the low watermark.
        percentiles: the watermarks of the other percentiles, lowest percentile first.

    Example:
        >>> [percentile_at(time, 10, {50: 30, 90: 20}) for time in (35, 25, 15, 5)]
        [50, 90, 100.0, None]
    """
    if time < low:
        return None
    return next((percentile for percentile, watermark in percentiles.items() if watermark <= time), LOW_WATERMARK)


class StoreMachine(ObjectMachine):
    """A machine whose state is in a `KeyedStore`.

    Args:
        label: the label of the node.
        store: the store of its keys.
        percentiles: the percentiles below 100 that the plan uses, in order.

    Attributes:
        watermarks: the watermarks of the input.
        watermark: the low watermark of the input.
        percentiles: the other watermarks, by percentile.
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
        """Advance the input's watermarks, never backward; return whether any has advanced."""
        moved = super().reach(watermarks)
        if moved:
            self._stand(self.watermarks)
        return moved

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks, held back by pending output."""
        return self._held(self.watermarks)

    def _held(self, watermarks: Watermarks) -> Watermarks:
        hold = self._store.hold()
        return watermarks if hold is None else watermarks.held(hold)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the input watermark and the processing time at which something next happens without new elements."""
        return self._store.next_moments()

    def percentile_of(self, time: int) -> float | None:
        """Return the lowest percentile whose input watermark has not passed an event time."""
        return percentile_at(time, self.watermark, self.percentiles)

    # State ---------------------------------------------------------------------------------------------------------

    def set_clocks(
        self,
        *,
        watermark: int,
        clock: int,
        percentiles: Sequence[int] = (),
    ) -> None:
        """Set the shard's clocks to what `clocks` returned; missing percentiles are at the low watermark."""
        self.clock = clock
        self._stand(Watermarks.of(watermark, percentiles))

    def clocks(self) -> dict[str, Any]:
        """Return the clocks of the shard, for `set_clocks`."""
        return {
            "watermark": self.watermark,
            "clock": self.clock,
            "percentiles": tuple(self.percentiles.values()),
        }

    def bound_memory(self, most: int) -> None:
        """Keep settled state in memory up to about this many bytes, and the rest on disk; see `KeyedMachine`."""
        self._store.bound(most)

    def state_size(self) -> tuple[int, int] | None:
        """Return the number of entries of its state, and the number of bytes of the settled ones."""
        return self._store.size()

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the keys of one shard."""
        return keys_of_share(parts, share)

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply changes that another worker has made durable; `None` for a key without state."""
        self._store.apply(changes)

    def settle(self) -> dict[bytes, bytes | None]:
        """Return the changes, and keep all state as bytes from now on; it is decoded again when it is used."""
        return self._store.settle()

    def stored(self, name: bytes) -> bytes | None:
        """Return a settled key's state; `None` if there is none."""
        return self._store.stored(name)
