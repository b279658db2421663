"""Read what a stopped run has kept, whatever hosted it; the checkpoint stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from dataflow_model.runners.sharded.state.log import StateLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.state.meta import ShardMeta

__all__ = ["ShardFound", "Snapshot", "StoppedRun", "read_shard"]


class StoppedRun(Protocol):
    """A host's part of a stopped run's checkpoint."""

    def last_committed(self) -> int | None:
        """Return the last committed micro-batch, from 0; `None` if there is none."""
        ...

    def half_published(self) -> int | None:
        """Return the micro-batch that was published in part, or may have been; only its own pipeline can finish it."""
        ...

    def offset(self, batch: int) -> tuple[Offset, int]:
        """Return where our sources stood after a committed micro-batch, and how many others the host reads."""
        ...

    def shards(self, batch: int, record: RunRecord) -> Iterator[ShardFound]:
        """Yield every shard's state as of a committed micro-batch; one at a time is in memory.

        Raises:
            StateCorruption: if a shard's state is missing or damaged.
        """
        ...


@attrs.frozen
class ShardFound:
    """What one shard of one stage has kept.

    Attributes:
        depth: the stage, from 1.
        index: which shard, from 0.
        meta: what it kept beside its keys.
        entries: the stored entries, by transform and key.
    """

    depth: int
    index: int
    meta: ShardMeta
    entries: Mapping[str, Mapping[bytes, Any]]


def read_shard(record: RunRecord, labels: Sequence[int], label: int, store: StateStore) -> ShardFound:
    """Return what one shard has kept, whichever stage it is of.

    Args:
        record: of the run.
        labels: of all shards.
        label: the shard's.
        store: its durable state.

    Raises:
        StateCorruption: if it is damaged.
    """
    log = StateLog(store, f"shard {label}")
    log.open()
    entries: dict[str, dict[bytes, Any]] = {}
    deltas = log.since("") or []
    for delta in deltas:
        for (name, encoded), entry in delta.entries.items():
            if entry is None:
                entries.setdefault(name, {}).pop(encoded, None)
            else:
                entries.setdefault(name, {})[encoded] = entry
    meta: ShardMeta = deltas[-1].meta
    # A host may number the stages as it likes; which one a shard is of, the transforms that it counts for tell.
    depths = [depth for depth, stage in enumerate(record.stages, 1) if set(stage) <= meta.counters.keys()]
    return ShardFound(depths[0], labels.index(label), meta, entries)


@attrs.frozen
class Snapshot:
    """A state store that is only read."""

    head: bytes
    log: Mapping[tuple[int, int], bytes]

    def get_head(self) -> bytes | None:
        """Return the head."""
        return self.head

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        return self.log.get((sequence, part))

    def put_head(self, head: bytes) -> None:
        """Refuse."""
        raise AssertionError(f"a snapshot is read-only, got a head of {len(head)} bytes")

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Refuse."""
        raise AssertionError(f"a snapshot is read-only, got part {part} of {sequence}: {len(payload)} bytes")

    def remove(self, sequence: int, part: int) -> None:
        """Refuse."""
        raise AssertionError(f"a snapshot is read-only, got the removal of part {part} of {sequence}")
