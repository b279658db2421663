"""An archive of the classes that Spark loads, with which the JVM of a local session starts in half the time.

Most of what a JVM does in its first seconds with Spark is to find, parse and verify some twelve thousand classes. Java
calls the remedy class data sharing: a JVM writes the classes that it has loaded to a file, which later ones map into
memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument, UnsupportedOnRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUIET: Final = "-Xlog:cds*=off"
"""Without it, a JVM that cannot use the archive, such as after a change of a jar, prints that it goes on without."""


def archive_path() -> Path:
    """Return the path of the archive for this installation of PySpark and of Java.

    A JVM only takes an archive that was written by the same build of Java, for the same jars. So after an upgrade of
    either of them the path is another one.
    """
    java, pyspark = _java(), importlib.util.find_spec("pyspark")
    origin = None if pyspark is None else pyspark.origin
    described = [(path, path and Path(path).stat().st_mtime_ns) for path in (java, origin)]
    digest = hashlib.sha256(repr(described).encode()).hexdigest()[:12]
    return Path(sys.prefix, "share", "dataflow_model", f"spark-classes-{digest}.jsa")


def archive_options() -> str:
    """Return the JVM options that use the archive; none if there is no archive."""
    path = archive_path()
    return f'-XX:SharedArchiveFile="{path}" {_QUIET}' if path.exists() else ""


def create_archive(command: Sequence[str]) -> Path:
    """Run a program that uses a local session, and archive the classes that its JVM has loaded by its end.

    Args:
        command: the program and its arguments.

    Returns:
        the archive, about 180 MB; those before it, which may be for other installations, are deleted.

    Raises:
        InvalidArgument: if the folder of the environment cannot be written to.
        UnsupportedOnRunner: if the program fails, or if its JVM writes no archive.
    """
    path = archive_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="new-", dir=path.parent)
    except OSError as error:
        raise InvalidArgument(
            f"cannot write to {path.parent}: {error.strerror}", hint="use a Python environment of your own"
        ) from error
    written, before = Path(folder, path.name), Path(folder, "before")
    try:
        if path.exists():
            path.replace(before)  # a JVM that uses an archive writes no other one
        options = f'spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit="{written}" {_QUIET}'
        submit = {"PYSPARK_SUBMIT_ARGS": f"--conf '{options}' pyspark-shell"}
        # The JVM ends after the program does; it holds the program's standard output open until then.
        done = subprocess.run(  # noqa: S603 - the caller's program
            command, env=os.environ | submit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0 or not written.exists():
            last = done.stdout.strip().splitlines()[-5:]
            raise UnsupportedOnRunner(
                f"Java wrote no archive of Spark's classes: {' '.join(command)} ended with status {done.returncode}",
                hint="sessions work without the archive; the last lines were:\n" + "\n".join(last),
            )
        for other in path.parent.glob("spark-classes-*.jsa"):
            other.unlink()
        written.replace(path)
    finally:
        if before.exists() and not path.exists():
            before.replace(path)
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _java() -> str | None:
    """Return the Java that Spark starts: that of `JAVA_HOME`, otherwise the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return None if java is None or not Path(java).exists() else os.path.realpath(java)
