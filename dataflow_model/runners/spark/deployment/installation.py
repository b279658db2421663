"""The requirements of Spark on this machine: PySpark, an extra of the package, and Java."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
from pathlib import Path
from typing import Final

import attrs

from dataflow_model.errors import UnsupportedOnRunner, explain

OLDEST_PYSPARK: Final = {"batch": (4, 0), "streaming": (4, 2)}
"""The oldest PySpark on which each kind of run was tested; before 4.2, sources do not get their start offset."""
_INSTALL_PYSPARK: Final = "run pip install 'dataflow-model[spark]'"


@attrs.frozen
class Missing:
    """A missing requirement of Spark, and how to install it."""

    problem: str
    hint: str


def check_pyspark(kind: str = "batch") -> None:
    """Check that PySpark is installed and supports a kind of run, `"batch"` or `"streaming"`.

    Raises:
        ModuleNotFoundError: if PySpark is not installed, or protobuf, which it needs for the state of a stream.
        UnsupportedOnRunner: if it is older than `OLDEST_PYSPARK`.
    """
    if not _pyspark_is_there():
        raise ModuleNotFoundError(
            explain("SparkRunner needs PySpark, which is not installed", hint=_INSTALL_PYSPARK), name="pyspark"
        )
    version: str = importlib.import_module("pyspark").__version__
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST_PYSPARK[kind]:
        oldest = ".".join(map(str, OLDEST_PYSPARK[kind]))
        raise UnsupportedOnRunner(
            f"a {kind} run on Spark needs PySpark {oldest} or newer, got {version}",
            hint=f"{_INSTALL_PYSPARK}, or on a cluster choose a release with Spark {oldest} or newer",
        )
    if kind == "streaming" and not _protobuf_is_there():
        raise ModuleNotFoundError(
            explain("a streaming run on Spark needs protobuf, which is not installed", hint=_INSTALL_PYSPARK),
            name="google.protobuf",
        )


def missing_for_spark() -> Missing | None:
    """Return a missing requirement of Spark: PySpark, protobuf or Java; `None` if nothing is missing.

    Spark itself checks the version of Java.
    """
    if not _pyspark_is_there():
        return Missing("PySpark is not installed", _INSTALL_PYSPARK)
    if not _protobuf_is_there():
        return Missing("protobuf, which streams on Spark need, is not installed", _INSTALL_PYSPARK)
    if not _java_is_there():
        return Missing(
            "Spark needs Java 17 or newer, and no Java was found",
            "set JAVA_HOME or install Java (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)",
        )
    return None


def _pyspark_is_there() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def _protobuf_is_there() -> bool:
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # there is no package `google` at all
        return False


def java_path() -> str | None:
    """Return the Java that Spark starts: that of `JAVA_HOME`, or else the one on the `PATH`; `None` without Java."""
    home = os.environ.get("JAVA_HOME")
    if home is not None and Path(home, "bin", "java").exists():
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def _java_is_there() -> bool:
    return java_path() is not None
