"""A quick start for Python workers.

Spark puts a zip of PySpark first on the path of each Python process that it starts. Python keeps no bytecode of what it
imports from a zip, so each of these processes would compile PySpark again, which takes longer than all other imports.
Here PySpark is imported from where it is installed, which has its bytecode, and workers are forked from a process that
has imported what tasks need. What Spark's own worker for state prints about itself is kept from the terminal.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


_DAEMON: Final = str(Path(__file__).with_name("daemon.py"))
_LAUNCHER: Final = r"""#!/bin/sh
# Start Python without the archives that Spark puts on its path: PySpark and Py4J are installed. Workers of tasks are
# forked from a process that has imported what they need.
set -f
path=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
    *) path=${path:+$path:}$entry ;;
    esac
done
if [ "$1 $2 $3" = "-m pyspark.daemon pyspark.worker" ]; then
    set -- %(daemon)s pyspark.worker %(modules)s
fi
# This worker of the driver prints each function that it gets, with its schemas; errors go another way.
if [ "$1 $2" = "-m pyspark.sql.streaming.transform_with_state_driver_worker" ]; then
    exec >/dev/null
fi
PYTHONPATH=$path exec %(python)s "$@"
"""
_LAUNCHERS: Final[set[str]] = set()
"""The scripts that start the Python of this process."""
_OWN_PYTHON: Final[dict[int, tuple[str, int]]] = {}
"""The Python of each Spark context that is used in blocks of `quick_workers`, and in how many."""
_changing: Final = threading.Lock()


def quick_python(executable: str, modules: tuple[str, ...] = ()) -> str:
    """Return a program that starts a Python for workers, quickly where PySpark is installed beside this process.

    Args:
        executable: the name or path of the Python to start, or what this function has returned for it.
        modules: what workers of tasks import, besides what all of them need.

    Returns:
        The path of a script in a temporary folder, which exists until this process ends; `executable` itself if it is
        another Python than this one, if PySpark is not in its folder of packages, or if scripts cannot be run.

    Example:
        >>> quick_python("/usr/bin/another-python")
        '/usr/bin/another-python'
    """
    path = sys.executable if executable in _LAUNCHERS else shutil.which(executable)
    if os.name != "posix" or path != sys.executable or not all(map(_is_installed, ("pyspark", "py4j"))):
        return executable
    launcher = _launcher(path, modules)
    if launcher is None:
        return executable
    _LAUNCHERS.add(launcher)
    return launcher


@contextlib.contextmanager
def quick_workers(spark: SparkSession, modules: tuple[str, ...] = ()) -> Iterator[None]:
    """Start the workers of functions that are handed to a session in the `with` block quickly, if it is local.

    Where threads are in such blocks at once, the session's own Python is restored behind the last of them.

    Args:
        spark: the session.
        modules: what the workers import, besides what all of them need.
    """
    context: Any = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
    if context is None or not str(context.master).startswith("local[") or not isinstance(context.pythonExec, str):
        yield
        return
    with _changing:
        before, entered = _OWN_PYTHON.get(id(context), (context.pythonExec, 0))
        _OWN_PYTHON[id(context)] = before, entered + 1
        context.pythonExec = quick_python(before, modules)
    try:
        yield
    finally:
        with _changing:
            before, entered = _OWN_PYTHON.pop(id(context))
            if entered > 1:
                _OWN_PYTHON[id(context)] = before, entered - 1
            else:
                context.pythonExec = before


def _is_installed(package: str) -> bool:
    """Return whether a package is imported from the folder in which this Python installs packages."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).parents[1] in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}


@functools.cache
def _folder_for(python: str, modules: tuple[str, ...]) -> RunFolder:
    """Return the folder of the script that starts a Python, which exists until this process ends."""
    del python, modules  # each has a folder of its own
    return RunFolder("python")


@functools.cache
def _launcher(python: str, modules: tuple[str, ...] = ()) -> str | None:
    """Write the script that starts a Python; return its path, or `None` if the folder's files cannot be run."""
    script = _folder_for(python, modules).path / "python"
    names = {"python": shlex.quote(python), "daemon": shlex.quote(_DAEMON), "modules": shlex.join(modules)}
    script.write_text(_LAUNCHER % names, encoding="utf-8")
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else None
