"""A session with suitable settings; any other session works too, if it has RocksDB state for streaming."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.spark.deployment.class_archive import archive_options
from dataflow_model.runners.spark.deployment.failures import log_file
from dataflow_model.runners.spark.deployment.installation import check_pyspark
from dataflow_model.runners.spark.deployment.worker_python import quick_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting with the number of partitions of a shuffle, and so of shards."""
_STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # From version 2 on, state files have unique ids, so that an attempt believed dead cannot overwrite another's files.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
"""The settings with which a stream's state is written and read."""
_LOCAL_SETTINGS: Final = {
    # No part of a shuffle is lost without the driver, so no task repeats what another one has used.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # Hadoop keeps a checksum of each local file itself, and through `FileContext` starts three processes for each.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""What a stream does not need whose driver and executors are one process: its shuffles and checkpoint are local."""

_WORKER_PYTHON: Final = "PYSPARK_PYTHON"
"""The environment variable with the Python of workers, which PySpark reads when a session is built."""
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
_PROVIDED: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")
"""Environment variables of a program that `spark-submit` has started, or that uses Spark Connect."""
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for short jobs: thorough compilation takes more of the processor than it saves."""


_changing: Final = threading.RLock()
"""Held while settings of a session are changed, or sources registered: its threads share them."""


@contextlib.contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session in the `with` block, such as while a query starts, and restore them afterwards.

    One thread at a time is in such a block; otherwise one would restore, or run with, the settings of another. Neither
    can two threads register sources at once.
    """
    with _changing:
        before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, known in before.items():
                if known is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, known)


def shuffle_partitions(spark: SparkSession) -> int:
    """Return a session's number of shuffle partitions, as it is outside all `settings_of` blocks."""
    with _changing:
        return int(str(spark.conf.get(SHUFFLE_PARTITIONS, "2")))


@contextlib.contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread in the `with` block, and restore the previous one afterwards.

    Spark looks up the sources and sinks that were registered from Python in the active session. A thread other than the
    one that created the session has none, and a session of `newSession()` is not active. With Spark Connect, the server
    activates the session.
    """
    jvm: Any = getattr(spark, "_jvm", None)  # PySpark has no public API for this
    if jvm is None:
        yield
        return
    sessions = jvm.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def is_local(spark: SparkSession) -> bool:
    """Return whether driver and executors of a session are one process."""
    master: Any = spark.conf.get("spark.master", "")
    return str(master).startswith("local[") or str(master) == "local"


def stream_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings with which a stream of a session runs, and with which its state is read."""
    return {**_STATE_SETTINGS, **(_LOCAL_SETTINGS if is_local(spark) else {})}


def local_session(app_name: str = "dataflow_model", cores: int = 2, log: str | None = None) -> SparkSession:
    """Return a Spark session in this process, with one shuffle partition per core.

    It is set up for jobs of seconds to minutes: the JVM compiles quickly rather than thoroughly, and workers start
    quickly. Both the session and its first job start in about half the time once `dataflow-model prepare-spark` was run
    in the Python environment. For hours of work in the JVM, such as large queries of Spark's own, build a session
    yourself, or pass `-XX:TieredStopAtLevel=4` in `spark.driver.extraJavaOptions`.

    Args:
        app_name: the name of the application.
        cores: the number of threads that run tasks.
        log: a file for the output of Spark and its workers. By default they write to standard error, where an error of
            Spark takes one line; its stack is in `dataflow_model-log-…/spark.log` in the folder for temporary files.

    Raises:
        ModuleNotFoundError: if PySpark is not installed.
        UnsupportedOnRunner: for a PySpark that is too old.

    Example:
        >>> session = local_session("flights")  # doctest: +SKIP
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    python = os.environ.setdefault(_WORKER_PYTHON, sys.executable)  # otherwise workers use the python3 on the PATH
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(SHUFFLE_PARTITIONS, str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .config("spark.log.level", "ERROR")
    )
    options = [_QUICK_JVM, archive_options(), "" if log is not None else _short_errors()]
    builder = builder.config("spark.driver.defaultJavaOptions", " ".join(options))
    with _standard_error_to(log), _worker_python(quick_python(python)):
        return builder.getOrCreate()


def session_at(app_name: str, master: str | None = None) -> SparkSession:
    """Return a session on a master, such as `spark://host:7077`, or with Spark Connect, such as `sc://host`.

    Without a master, it is the session of the environment, if `spark-submit` or `SPARK_REMOTE` provides one, and
    otherwise that of `local_session`; so is that of `local` and `local[N]`, with N threads.

    Args:
        app_name: the name of the application.
        master: the master.

    Raises:
        ModuleNotFoundError: if PySpark is not installed.
        UnsupportedOnRunner: for a PySpark that is too old.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    local = _LOCAL.fullmatch(master or "")
    if local is not None or (master is None and not any(name in os.environ for name in _PROVIDED)):
        cores = "2" if local is None else local[1] or "1"
        return local_session(app_name, cores=os.cpu_count() or 1 if cores == "*" else int(cores))
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    return builder.getOrCreate()


def _short_errors() -> str:
    """Return JVM options that log an error in one line, and its stack to a file."""
    settings = pathlib.Path(__file__).with_name("log4j2.properties").as_uri()
    return f'-Dlog4j2.configurationFile="{settings}" -Ddataflow_model.log="{log_file()}"'


@contextlib.contextmanager
def _worker_python(path: str) -> Iterator[None]:
    """Set the Python of the workers of a session that is built in the `with` block, and restore it afterwards."""
    before = os.environ[_WORKER_PYTHON]
    os.environ[_WORKER_PYTHON] = path
    try:
        yield
    finally:
        os.environ[_WORKER_PYTHON] = before


@contextlib.contextmanager
def _standard_error_to(path: str | None) -> Iterator[None]:
    """Redirect the standard error of processes started in the `with` block, such as the JVM, to a file."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    standard_error, target = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(target)
