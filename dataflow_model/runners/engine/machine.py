"""What runs a keyed node on one shard: the protocol that hosts call, and the loop of those that go by instants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from dataflow_model.metrics.collecting import enter, took
from dataflow_model.runners.engine.chunk import Produced
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.chunk import Bucket, Chunk
    from dataflow_model.runners.engine.resharding import Share

__all__ = ["KeyedMachine", "ObjectMachine"]


class KeyedMachine(Protocol):
    """One keyed node on one shard.

    What it keeps between chunks is durable in three parts: its clocks (`position`), what it keeps by key or in other
    named entries (`settle` says which have changed), and what is small enough to be stored anew each time (`whole`).

    Attributes:
        label: the node's.
        counters: what has been counted, by name.
    """

    label: str
    counters: Counter[str]

    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk in order.

        Raises:
            UserCodeError: when a function of the user's raises, with the node's label.
        """
        ...

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run all the elements that some keys have in a bounded job; afterwards nothing is left of them."""
        ...

    def output_watermarks(self) -> Watermarks:
        """Return what this shard lets the output's watermarks be now.

        They may go back, when late data are pending again. Whoever receives the output takes the minimum over the
        shards first and the running maximum of that second: a shard that did so for itself would have the number of
        shards decide what is late downstream.
        """
        ...

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return at which watermark of the input, and at which time of the clock, something next happens by itself."""
        ...

    def position(self) -> dict[str, Any]:
        """Return its clocks, for `stand_at`; empty where they are part of `whole`."""
        ...

    def stand_at(self, *, watermark: int, clock: int, percentiles: tuple[int, ...] = ()) -> None:
        """Set its clocks, as `position` gave them; a node that is new in an upgraded run is given its input's."""
        ...

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, Any]:
        """Return the entries that have changed since the last call, `None` for those that are gone.

        Args:
            freeze: turns state into bytes, from which it is decoded again when it is touched.
        """
        ...

    def stored(self, name: bytes) -> Any:
        """Return a settled entry; `None` where there is none."""
        ...

    def apply(self, changes: Mapping[bytes, Any]) -> None:
        """Take in entries that another process has made durable, `None` for those that are gone."""
        ...

    def whole(self) -> Any:
        """Return what is stored anew with every commit, for `resume`; `None` where there is nothing."""
        ...

    def resume(self, whole: Any) -> None:
        """Go on with what `whole` gave."""
        ...

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the entries that belong to one shard, when the number of shards changes.

        Args:
            parts: the entries of the old shards.
            share: which of the new shards.
        """
        ...

    def state_size(self) -> tuple[int, int] | None:
        """Return how many entries there are and the bytes of those that are settled; `None` if it keeps nothing by key.

        May be called from another thread than the one that runs it.
        """
        ...

    def tear_down(self) -> None:
        """Let the user's functions go."""
        ...


class ObjectMachine(ABC):
    """A machine that runs instant by instant, on Python objects.

    Subclasses say what happens at an instant. Unless they say otherwise, nothing is kept by key, and the output's
    watermarks are the input's.

    Args:
        label: the node's.

    Attributes:
        watermarks: the input's.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.counters: Counter[str] = Counter()
        self.watermarks = MIN_WATERMARKS

    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk in order; see `KeyedMachine`."""
        enter(self.label)
        produced = Produced()
        reached: list[Watermarks] = []
        inboxes = dict(chunk.elements.runs())
        for place in range(len(chunk.instants)):
            inbox = inboxes.get(place)
            if inbox is not None:
                took(self.label, len(inbox))
            produced.add(place, self._instant(chunk, place, inbox))
            reached.append(self.output_watermarks())
        produced.watermarks = reached
        return produced

    @abstractmethod
    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket of a bounded job; see `KeyedMachine`."""

    @abstractmethod
    def _instant(self, chunk: Chunk, place: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        """Run the events of one instant, and return the outputs by tag.

        Args:
            chunk: the chunk.
            place: of the instant in it.
            inbox: the elements of the instant, in order.
        """

    def reach(self, watermarks: Watermarks) -> bool:
        """Take the input's watermarks forward, never back; return whether any has moved."""
        reached = self.watermarks.advance(watermarks)
        if reached is self.watermarks:
            return False
        self.watermarks = reached
        return True

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks."""
        return self.watermarks

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return nothing: nothing happens by itself."""
        return None, None

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """Return its clocks, for `stand_at`."""

    def settle(self, freeze: Callable[[Any], bytes]) -> dict[bytes, Any]:
        """Return no entries."""
        del freeze
        return {}

    def stored(self, name: bytes) -> Any:
        """Return no entry."""
        del name

    def apply(self, changes: Mapping[bytes, Any]) -> None:
        """Take in no entries."""
        assert not changes, f"{self.label!r} keeps nothing by key"  # noqa: S101

    def whole(self) -> Any:  # noqa: B027 - most machines keep nothing beside their keys
        """Return nothing."""

    def resume(self, whole: Any) -> None:
        """Go on with nothing."""
        raise AssertionError(f"{self.label!r} keeps nothing but its entries, got {whole!r}")

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return no entries."""
        del parts, share
        return {}

    def state_size(self) -> tuple[int, int] | None:
        """Return `None`: nothing is kept by key."""
        return None

    def tear_down(self) -> None:  # noqa: B027 - some call no function of the user's
        """Do nothing: no function of the user's is held."""
