"""Read the state of a stopped run on Spark, through Spark's state data source."""

from __future__ import annotations

import itertools
import pathlib
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import StateCorruption
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.running import who_runs
from dataflow_model.runners.sharded.outputs.publication import half_published
from dataflow_model.runners.sharded.upgrade.reading import Snapshot, read_shard
from dataflow_model.runners.spark.deployment.session import local_session, settings_of, stream_settings
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.spark_logs import last_committed, offset_of, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.reading import ShardFound


@attrs.frozen
class StoppedSparkRun:
    """Spark's part of a stopped run's checkpoint; see `StoppedRun`.

    Args:
        path: the path of that part.
        spark: any session that can reach the checkpoint; by default one on this machine.
    """

    path: str
    spark: SparkSession | None = None

    def who_runs(self) -> str | None:
        """Return the driver that has marked the run as running."""
        return who_runs(self._common_part)

    def last_committed(self) -> int | None:
        """Return the last committed micro-batch."""
        return last_committed(self.path)

    def half_published(self) -> int | None:
        """Return the micro-batch whose publishing has started but whose commit Spark has not logged."""
        return half_published(self._common_part, self.last_committed())

    def offset(self, batch: int) -> tuple[Offset, int]:
        """Return our sources' offset, and the number of streaming DataFrames."""
        return offset_of(self.path, batch)

    def shards(self, batch: int, record: RunRecord) -> Iterator[ShardFound]:
        """Yield every shard's state."""
        spark = self.spark or local_session("dataflow-model upgrade")
        ids = shard_ids(record.shards)
        for operator in range(len(record.stages)):
            with settings_of(spark, stream_settings(spark)):
                heads = {row[0][0]: bytes(row[1][0]) for row in self._state(spark, batch, operator, "head").collect()}
                log = self._state(spark, batch, operator, "log")
                parts = log.select("key.shard", "user_map_key", "user_map_value")
                missing = set(ids) - heads.keys()
                if missing:
                    raise StateCorruption(
                        f"the state in {self.path!r} lacks the shards {sorted(missing)} after micro-batch {batch}",
                        hint="run the old pipeline for one more micro-batch, or restore the checkpoint from a copy",
                    )
                # A partition contains one shard.
                for shard, rows in itertools.groupby(parts.toLocalIterator(), key=_shard):
                    records = {(row[1][0], row[1][1]): bytes(row[2][0]) for row in rows}
                    yield read_shard(record, ids, shard, Snapshot(heads[shard], records))

    @property
    def _common_part(self) -> str:
        return str(common_part(pathlib.Path(self.path).parent))

    def _state(self, spark: SparkSession, batch: int, operator: int, variable: str) -> DataFrame:
        options = {"operatorId": str(operator), "stateVarName": variable, "batchId": str(batch)}
        return spark.read.format("statestore").options(**options).load(url_of(self.path))


def _shard(row: Any) -> int:
    return int(row[0])
