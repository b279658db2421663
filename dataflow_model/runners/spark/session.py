"""A session that suits the runner; any other works too, where the streaming mode finds RocksDB state."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ROCKSDB", "local_session"]

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def local_session(app_name: str = "dataflow_model", cores: int = 2) -> SparkSession:
    """Return a Spark session in this process, with one shuffle partition a core.

    Example:
        >>> session = local_session("flights")  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - importing the package must not import Spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever python3 is on the PATH
    return (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
