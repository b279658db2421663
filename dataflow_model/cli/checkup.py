"""What is installed here, and whether it is what pipelines need."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from dataflow_model import __version__
from dataflow_model.errors import DataflowError
from dataflow_model.runners.engine.core.build import CoreBuild, build_of_core
from dataflow_model.runners.spark.deployment.installation import OLDEST_PYSPARK, java_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARIES: Final = ("attrs", "cloudpickle", "fastdigest", "numpy", "pandas", "pendulum", "pyarrow", "rich")
_EXTRAS: Final = (
    ("prometheus-client", "prometheus", "metrics and health"),
    ("sqlalchemy", "sql", "SQLite and PostgreSQL tables"),
    ("psycopg", "sql", "PostgreSQL tables"),
    ("confluent-kafka", "kafka", "Kafka"),
    ("matplotlib", "plot", "pictures"),
    ("hypothesis", "testing", "prove and the check_… functions"),
    ("grpcio", "connect", "Spark Connect"),
)
"""Optional packages: the extra that installs each, and what it is for."""
_CONNECT: Final = "sc://"
_OLDEST_JAVA: Final = 17
_JAVA_SECONDS: Final = 30
_VERSION: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_NO_SOURCE: Final = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "Failed to find the data source")


@attrs.frozen
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        status: `"ok"`; `"warning"`, if everything works, but not as well as it could; `"absent"`, if it is optional;
            or `"error"`.
        value: what was found, such as a version.
        hint: what to do; `None` if there is nothing.
    """

    name: str
    status: Literal["ok", "warning", "absent", "error"]
    value: str
    hint: str | None = None


def findings(master: str | None = None) -> Iterator[Finding]:
    """Yield what is found in this Python environment and on this machine.

    Args:
        master: the master of a session that will be started; then it is an error if what that needs is missing.

    Example:
        >>> [finding.name for finding in findings()][:3]
        ['Python', 'dataflow_model', 'core']
    """
    yield Finding("Python", "ok", f"{platform.python_version()} in {sys.prefix}, {platform.platform(terse=True)}")
    yield Finding("dataflow_model", "ok", __version__)
    build = build_of_core()
    yield Finding("core", "ok" if build is CoreBuild.COMPILED else "warning", build.value)
    for name in _LIBRARIES:
        yield _package(name, "run pip install dataflow-model again", "error")
    for name, extra, purpose in _EXTRAS:
        yield _package(name, f"for {purpose}: pip install 'dataflow-model[{extra}]'", "absent")
    missing: Literal["error", "absent"] = "absent" if master is None else "error"
    yield _pyspark(missing)
    yield _package("protobuf", "for streams on Spark: pip install 'dataflow-model[spark]'", missing)
    yield _java("absent" if (master or "").startswith(_CONNECT) else missing)  # its server has the Java


def findings_on_spark(master: str) -> Iterator[Finding]:
    """Start a session on a master, and yield what is found there: Spark, its executors, and connectors.

    Args:
        master: the master; see `session_at`.
    """
    from dataflow_model.runners.spark.deployment.executors import list_executors
    from dataflow_model.runners.spark.deployment.package import ship_package
    from dataflow_model.runners.spark.deployment.session import session_at

    try:
        spark = session_at("dataflow-model doctor", master)
    except Exception as error:  # noqa: BLE001 - Spark's errors have no common class, and any is a finding
        yield Finding("Spark", "error", f"no session on {master}: {_first_line(error)}", "check that the master is up")
        return
    try:
        yield Finding("Spark", "ok", f"{spark.version} on {master}")
        executors, notes = list_executors(spark, ship_package(spark))
        yield from (Finding("executor", "ok", executor) for executor in executors)
        yield from (Finding("executor", "warning", note) for note in notes)
        yield _kafka(spark)
    except DataflowError as error:
        problem, _, hint = str(error).partition("\nHint: ")
        yield Finding("executor", "error", problem, hint or None)
    except Exception as error:  # noqa: BLE001 - as above
        yield Finding("executor", "error", f"no task has run on {master}: {_first_line(error)}", "see Spark's log")
    finally:
        spark.stop()


def _package(name: str, hint: str, missing: Literal["error", "absent"]) -> Finding:
    version = _version(name)
    return Finding(name, missing, "not installed", hint) if version is None else Finding(name, "ok", version)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pyspark(missing: Literal["error", "absent"]) -> Finding:
    version = _version("pyspark")
    hint = "run pip install 'dataflow-model[spark]'"
    if version is None:
        return Finding("pyspark", missing, "not installed", hint)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    for kind, oldest in OLDEST_PYSPARK.items():
        if numbers < oldest:
            wanted = ".".join(map(str, oldest))
            return Finding("pyspark", "warning", f"{version}, and a {kind} run needs {wanted} or newer", hint)
    return Finding("pyspark", "ok", version)


def _java(missing: Literal["error", "absent"]) -> Finding:
    path = java_path()
    hint = "for Spark: set JAVA_HOME, or install Java 17 or newer"
    if path is None:
        return Finding("Java", missing, "not found", hint)
    try:
        command = [path, "-version"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", missing, f"{path} does not start: {_first_line(error)}", hint)
    version = _VERSION.search(said.stderr + said.stdout)
    if version is None or int(version[2]) < _OLDEST_JAVA:
        number = "of no version" if version is None else version[1]
        return Finding("Java", missing, f"{number} at {path}, which is not new enough", hint)
    return Finding("Java", "ok", f"{version[1]} at {path}")


def _kafka(spark: object) -> Finding:
    """Return whether Spark can read Kafka, which needs a package of its own."""
    session: Any = spark
    try:
        session.readStream.format("kafka").load().schema  # noqa: B018 - it is looked up when the schema is
    except Exception as error:  # noqa: BLE001 - with the package, options are missing; that is an error too
        if any(words in str(error) for words in _NO_SOURCE):
            package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}"
            return Finding("Kafka", "absent", "Spark does not have its connector", f"spark.jars.packages={package}")
    return Finding("Kafka", "ok", "Spark has its connector")


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
