"""The Spark session that both sides of a comparison share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model.runners.spark.deployment.worker_python import quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session"]


def open_session(cores: int) -> SparkSession:
    """Return a local session with as many shuffle partitions as cores, state on RocksDB with a change log."""
    # Workers must find this very Python, and this folder, by which processors written here are unpickled.
    # It starts as quickly for the alternatives as for this package, whose runner would see to that for itself only.
    os.environ["PYSPARK_PYTHON"] = quick_python(sys.executable)
    root = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))

    from pyspark.sql import SparkSession

    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("benchmarks")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
