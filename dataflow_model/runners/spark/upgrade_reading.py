"""Read what the shards of a stopped run have kept, through Spark's state data source; the checkpoint stays as it is."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import StateCorruption, explain
from dataflow_model.runners.spark.labels import shard_labels
from dataflow_model.runners.spark.session import STREAM_SETTINGS, settings_of
from dataflow_model.runners.spark.state_log import StateLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from dataflow_model.runners.spark.run_record import RunRecord
    from dataflow_model.runners.spark.shard_meta import ShardMeta
    from dataflow_model.runners.spark.state_log import StateStore

__all__ = ["ShardFound", "read_shard", "read_shards"]


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


def read_shards(spark: SparkSession, path: str, batch: int, record: RunRecord) -> Iterator[ShardFound]:
    """Yield every shard's state as of one committed micro-batch; one at a time is in memory.

    Args:
        spark: any session that can reach the checkpoint.
        path: Spark's part of the checkpoint.
        batch: the micro-batch.
        record: of the run.

    Raises:
        StateCorruption: if a shard's state is missing or damaged.
    """
    for operator in range(len(record.stages)):
        with settings_of(spark, STREAM_SETTINGS):
            heads = {row[0][0]: bytes(row[1][0]) for row in _state(spark, path, batch, operator, "head").collect()}
            parts = _state(spark, path, batch, operator, "log").select("key.shard", "user_map_key", "user_map_value")
            missing = set(shard_labels(record.shards)) - heads.keys()
            if missing:
                raise StateCorruption(
                    explain(
                        f"the state in {path!r} lacks the shards {sorted(missing)} after micro-batch {batch}",
                        hint="run the old pipeline for one more micro-batch, or restore the checkpoint from a copy",
                    )
                )
            # A partition holds one shard.
            for label, rows in itertools.groupby(parts.toLocalIterator(), key=_shard):
                log = {(row[1][0], row[1][1]): bytes(row[2][0]) for row in rows}
                yield read_shard(record, label, _Snapshot(heads[label], log))


def _state(spark: SparkSession, path: str, batch: int, operator: int, variable: str) -> DataFrame:
    options = {"operatorId": str(operator), "stateVarName": variable, "batchId": str(batch)}
    return spark.read.format("statestore").options(**options).load(path)


def _shard(row: Any) -> int:
    return int(row[0])


def read_shard(record: RunRecord, label: int, store: StateStore) -> ShardFound:
    """Return what one shard has kept, whichever stage it is of.

    Args:
        record: of the run.
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
    # Spark numbers its operators as it likes; which stage a shard is of, the transforms that it counts for tell.
    depths = [depth for depth, stage in enumerate(record.stages, 1) if set(stage) <= meta.counters.keys()]
    return ShardFound(depths[0], shard_labels(record.shards).index(label), meta, entries)


@attrs.frozen
class _Snapshot:
    """A state store that is only read."""

    head: bytes
    log: Mapping[tuple[int, int], bytes]

    def get_head(self) -> bytes | None:
        return self.head

    def get(self, sequence: int, part: int) -> bytes | None:
        return self.log.get((sequence, part))

    def put_head(self, head: bytes) -> None:
        raise AssertionError(f"a snapshot is read-only, got a head of {len(head)} bytes")

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        raise AssertionError(f"a snapshot is read-only, got part {part} of {sequence}: {len(payload)} bytes")

    def remove(self, sequence: int, part: int) -> None:
        raise AssertionError(f"a snapshot is read-only, got the removal of part {part} of {sequence}")
