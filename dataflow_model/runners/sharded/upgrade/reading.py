"""Read the state of a stopped run, on any host, without changing its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from dataflow_model.runners.sharded.state.log import StateLog, without_removed
from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.state.log import StateStore


class StoppedRun(Protocol):
    """A host's part of a stopped run's checkpoint."""

    def who_runs(self) -> str | None:
        """Return the process in which the run is running after all; `None` if it is stopped."""
        ...

    def last_committed(self) -> int | None:
        """Return the last committed micro-batch, from 0; `None` if there is none."""
        ...

    def half_published(self) -> int | None:
        """Return the micro-batch that may have been published in part; only its own pipeline can finish it."""
        ...

    def offset(self, batch: int) -> tuple[Offset, int]:
        """Return our sources' offset after a committed micro-batch, and the number of sources that the host reads."""
        ...

    def shards(self, batch: int, record: RunRecord) -> Iterator[ShardFound]:
        """Yield every shard's state after a committed micro-batch; only one at a time is in memory.

        Raises:
            StateCorruption: if a shard's state is missing or damaged.
        """
        ...


@attrs.frozen
class ShardFound:
    """The state of one shard of one stage.

    Attributes:
        depth: the stage, from 1.
        index: the index of the shard, from 0.
        meta: the state apart from keys.
        entries: the stored entries, by transform and key.
    """

    depth: int
    index: int
    meta: ShardMeta
    entries: Mapping[str, Mapping[bytes, Any]]


def read_shard(record: RunRecord, shard_ids: Sequence[int], shard: int, store: StateStore) -> ShardFound:
    """Return the state of one shard of any stage.

    Args:
        record: the record of the run.
        shard_ids: the ids of all shards.
        shard: the id of the shard.
        store: its durable state.

    Raises:
        StateCorruption: if it is damaged.
    """
    log = StateLog(store, f"shard {shard}")
    log.open()
    entries: dict[str, dict[bytes, Any]] = {}
    meta = ShardMeta()
    for record_of_log in log.since("") or []:
        delta = log.read(record_of_log)
        meta = delta.meta
        for name, changes in delta.entries.items():
            entries.setdefault(name, {}).update(changes)
    # A host may number the stages differently; the transforms in its counters identify a shard's stage.
    depths = [depth for depth, stage in enumerate(record.stages, 1) if set(stage) <= meta.counters.keys()]
    return ShardFound(depths[0], shard_ids.index(shard), meta, without_removed(entries))


@attrs.frozen
class Snapshot:
    """A read-only state store."""

    head: bytes
    log: Mapping[tuple[int, int], bytes]

    def get_head(self) -> bytes | None:
        """Return the head."""
        return self.head

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        return self.log.get((sequence, part))

    def put_head(self, head: bytes) -> None:
        """Raise, since the store is read-only."""
        raise AssertionError(f"a snapshot is read-only, got a head of {len(head)} bytes")

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Raise, since the store is read-only."""
        raise AssertionError(f"a snapshot is read-only, got part {part} of {sequence}: {len(payload)} bytes")

    def remove(self, sequence: int, part: int) -> None:
        """Raise, since the store is read-only."""
        raise AssertionError(f"a snapshot is read-only, got the removal of part {part} of {sequence}")
