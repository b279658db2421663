"""Read the state of a stopped run on Spark, through Spark's state data source."""

from __future__ import annotations

import contextlib
import functools
import itertools
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, StateCorruption
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.running import who_runs
from dataflow_model.runners.sharded.outputs.publication import half_published
from dataflow_model.runners.sharded.upgrade.reading import Snapshot, read_shard
from dataflow_model.runners.spark.deployment.session import is_local, local_session, settings_of, stream_settings
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.spark_logs import last_committed, offset_of, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.reading import ShardFound

_ENCODED: Final = re.compile(r"""[\s\x00-\x1f"#%<>?\[\\\]^`{|}\x7f]""")
"""What `java.net.URI` percent-encodes in a path."""


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
            with settings_of(spark, stream_settings(spark)), encoded_as_it_is(self.path, spark) as path:
                state = functools.partial(_state, spark, path, batch, operator)
                heads = {row[0][0]: bytes(row[1][0]) for row in state("head").collect()}
                log = state("log")
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


@contextlib.contextmanager
def encoded_as_it_is(path: str, spark: SparkSession) -> Iterator[str]:
    """Yield a path of the same folder that Spark's source of state, which percent-encodes paths, does not change.

    Raises:
        InvalidArgument: if executors of a cluster would have to see such a path.
    """
    if not _ENCODED.search(path):
        yield path
        return
    if not is_local(spark):
        raise InvalidArgument(
            f"Spark cannot read the state of a checkpoint whose path it percent-encodes, got {path!r}",
            hint="leave `spark` out, so that a session on this machine reads it",
        )
    with tempfile.TemporaryDirectory(prefix="dataflow-model-") as folder:
        link = pathlib.Path(folder, "checkpoint")
        link.symlink_to(path)
        yield str(link)


def _state(spark: SparkSession, path: str, batch: int, operator: int, variable: str) -> DataFrame:
    options = {"operatorId": str(operator), "stateVarName": variable, "batchId": str(batch)}
    return spark.read.format("statestore").options(**options).load(url_of(path))


def _shard(row: Any) -> int:
    return int(row[0])
