"""The machine that runs a keyed node on one shard: its protocol, and the base class of those that run by instants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from dataflow_model.metrics.collecting import count_received, enter
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, Watermarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk
    from dataflow_model.runners.engine.state.resharding import Share


class KeyedMachine(Protocol):
    """One keyed node on one shard.

    Its state between chunks is durable in three parts: its clocks (`clocks`), its state by key or in other named
    entries (`settle` returns those that have changed), and state that is small enough to be stored anew each time
    (`whole`).

    Attributes:
        label: the label of the node.
        counters: the counters, by name.
    """

    label: str
    counters: Counter[str]

    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk in order.

        Raises:
            UserCodeError: if a user's function raises an exception; the message contains the node's label.
        """
        ...

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run all elements of some keys in a bounded job; no state of these keys remains afterwards."""
        ...

    def output_watermarks(self) -> Watermarks:
        """Return the greatest values that this shard allows for the output's watermarks now.

        They may go backward when late data are pending. The receiver of the output takes the minimum over the shards,
        and then the running maximum. If each shard took the running maximum of its own values first, the number of
        shards would decide what is late downstream.
        """
        ...

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the next watermark of the input, and the next time of the clock, at which a timer is due."""
        ...

    def clocks(self) -> dict[str, Any]:
        """Return the clocks, for `set_clocks`; empty if they are part of `whole`."""
        ...

    def set_clocks(self, *, watermark: int, clock: int, percentiles: tuple[int, ...] = ()) -> None:
        """Set the clocks to what `clocks` returned; of a node that is new in an upgraded run, to those of its input."""
        ...

    def settle(self) -> dict[bytes, Any]:
        """Return the entries that have changed since the last call, with `None` for those that were removed.

        State by key is returned as bytes, which are decoded when it is next used.
        """
        ...

    def stored(self, name: bytes) -> Any:
        """Return a settled entry; `None` if there is none."""
        ...

    def apply(self, changes: Mapping[bytes, Any]) -> None:
        """Apply entries that another process has made durable, with `None` for those that were removed."""
        ...

    def whole(self) -> Any:
        """Return the state that is stored anew with every commit, for `resume`; `None` if there is none."""
        ...

    def resume(self, whole: Any) -> None:
        """Restore the state that `whole` returned."""
        ...

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the entries that belong to one shard, when the number of shards changes.

        Args:
            parts: the entries of the old shards.
            share: which of the new shards.
        """
        ...

    def bound_memory(self, most: int) -> None:
        """Keep settled state by key in memory up to about this many bytes, and the rest on disk.

        Call this before the machine has any state. State of other kinds is not bounded.
        """
        ...

    def state_size(self) -> tuple[int, int] | None:
        """Return the number of entries, and the bytes of the settled ones; `None` without state by key.

        May be called from another thread than the one that runs the machine.
        """
        ...

    def tear_down(self) -> None:
        """Tear down the user's functions."""
        ...


class WithoutState:
    """The methods of `KeyedMachine` for durable state, of a machine that has none of it.

    Machines with some of it override the methods that concern it.
    """

    label: str

    def settle(self) -> dict[bytes, Any]:
        """Return no entries."""
        return {}

    def stored(self, name: bytes) -> Any:
        """Return no entry."""
        del name

    def apply(self, changes: Mapping[bytes, Any]) -> None:
        """Apply no entries."""
        assert not changes, f"{self.label!r} keeps nothing by key"  # noqa: S101

    def whole(self) -> Any:
        """Return `None`: there is no such state."""

    def resume(self, whole: Any) -> None:
        """Raise an error: `whole` returns nothing to resume from."""
        raise AssertionError(f"{self.label!r} keeps nothing but its entries, got {whole!r}")

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return no entries."""
        del parts, share
        return {}

    def bound_memory(self, most: int) -> None:
        """Do nothing: there is no settled state by key."""

    def state_size(self) -> tuple[int, int] | None:
        """Return `None`: there is no state by key."""
        return None


class ObjectMachine(WithoutState, ABC):
    """A machine that runs instant by instant, on Python objects.

    Subclasses define what happens at an instant. By default there is no state by key, and the watermarks of the output
    are those of the input.

    Args:
        label: the label of the node.

    Attributes:
        watermarks: the watermarks of the input.
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
        for index in range(len(chunk.instants)):
            inbox = inboxes.get(index)
            if inbox is not None:
                count_received(self.label, len(inbox))
            produced.add(index, self._instant(chunk, index, inbox))
            reached.append(self.output_watermarks())
        produced.watermarks = reached
        return produced

    @abstractmethod
    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket of a bounded job; see `KeyedMachine`."""

    @abstractmethod
    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        """Run the events of one instant, and return the outputs by tag.

        Args:
            chunk: the chunk.
            index: the index of the instant in the chunk.
            inbox: the elements of the instant, in order.
        """

    def reach(self, watermarks: Watermarks) -> bool:
        """Advance the input's watermarks, which never go backward; return whether any has advanced."""
        reached = self.watermarks.advance(watermarks)
        if reached is self.watermarks:
            return False
        self.watermarks = reached
        return True

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks."""
        return self.watermarks

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return no moments: there are no timers."""
        return None, None

    @abstractmethod
    def clocks(self) -> dict[str, Any]:
        """Return the clocks, for `set_clocks`."""

    def tear_down(self) -> None:
        """Do nothing: there are no user's functions."""
