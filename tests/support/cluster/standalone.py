"""A standalone cluster of Spark's on this machine, from the installed PySpark: a master and workers, a JVM each."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.support.cluster.cluster import JVM, Cluster, spark_home, variables_of
from tests.support.cluster.processes import end, said, started

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["standalone"]


@contextlib.contextmanager
def standalone(folder: Path, java_home: str, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers of one core each; what they have started ends with them."""
    variables = variables_of(java_home, spark_home(folder))
    own = {"SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JVM}
    spark_class = f"{variables['SPARK_HOME']}/bin/spark-class"
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    running: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as ending:

        def start(name: str, kind: str, *arguments: str) -> None:
            command = (spark_class, f"org.apache.spark.deploy.{kind}", *place, *arguments)
            running[name] = started(folder / f"{name}.log", {**variables, **own}, *command)
            ending.callback(end, running[name])

        start("master", "master.Master")
        url = said(folder / "master.log", r"Starting Spark master at (spark://\S+)", running["master"])
        names = [f"worker{number}" for number in range(workers)]
        for name in names:
            start(
                name, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work" / name), url
            )
        for name in names:
            said(folder / f"{name}.log", "Successfully registered", running[name])
        cluster = Cluster(url, folder, folder / "work", variables, workers=[running[name] for name in names])
        ending.callback(cluster.end_jobs)
        yield cluster
