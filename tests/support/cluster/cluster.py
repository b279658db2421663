"""A cluster that runs on this machine, and the programs that tests start on it."""

from __future__ import annotations

import contextlib
import marshal
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyspark

from tests.support.cluster.processes import end, free_ports, processes_in, said, started
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["JARS", "JOB", "JVM", "SETTINGS", "Cluster", "environment", "spark_home", "variables_of"]

JOB = REPOSITORY / "tests/support/cluster/flights_job.py"
_PYSPARK = Path(pyspark.__file__).parent
JARS = _PYSPARK / "jars"
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for JVMs that live for a minute or two: the thorough compiler costs them more than it gives."""
BACKENDS = {
    f"org.apache.spark.executor.{name}" for name in ("CoarseGrainedExecutorBackend", "YarnCoarseGrainedExecutorBackend")
}
"""The main classes of executors."""
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": JVM,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": JVM,
    "spark.executor.memory": "480m",  # Spark takes no less
    "spark.executor.cores": "1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def environment(folder: Path, *, has_package: bool) -> str:
    """Make a Python environment for executors with the libraries of this one; return its Python.

    Args:
        folder: where to make it.
        has_package: whether it has a copy of the package, with the compiled core; PySpark comes with the cluster.
    """
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    # The files that link to the checkout are not read in a folder that another such file adds.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    if has_package:
        shutil.copytree(REPOSITORY / "dataflow_model", packages / "dataflow_model")
    return str(folder / "bin/python")


def spark_home(folder: Path) -> Path:
    """Make an installation of Spark for a cluster: this PySpark, with bytecode in its zip; return its folder.

    Spark puts that zip first on the path of each Python process, which would otherwise compile PySpark anew: two
    seconds of processor time, while Spark waits ten seconds for a process.
    """
    home = folder / "spark"
    (home / "python/lib").mkdir(parents=True)
    for place in (*_PYSPARK.iterdir(), *(_PYSPARK / "python/lib").glob("py4j-*")):
        if place.name in {"bin", "conf", "jars", "sbin"} or place.suffix == ".zip":
            (home / place.relative_to(_PYSPARK)).symlink_to(place)
    with (
        zipfile.ZipFile(_PYSPARK / "python/lib/pyspark.zip") as plain,
        zipfile.ZipFile(home / "python/lib/pyspark.zip", "w", zipfile.ZIP_DEFLATED) as compiled,
    ):
        for name in (name for name in plain.namelist() if "/tests/" not in name):
            content = plain.read(name)
            compiled.writestr(name, content)
            if name.endswith(".py"):
                code = compile(content, name, "exec", dont_inherit=True)
                # The header of PEP 552 for a file that is not compared with its source.
                compiled.writestr(f"{name}c", MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + marshal.dumps(code))
    return home


def variables_of(java_home: str, home: Path) -> dict[str, str]:
    """Return the environment variables of the programs and daemons of a cluster, without those of this process."""
    others = ("HADOOP", "PYTHON", "PYSPARK", "SPARK", "YARN")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, "JAVA_HOME": java_home, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}


@attrs.define
class Cluster:
    """A cluster that runs.

    Attributes:
        master: its URL, or `yarn`.
        folder: where its processes write.
        work: the folder below which executors work.
        environment: the environment variables of its programs.
        settings: those of Spark's sessions.
        workers: the processes of its workers.
        jobs: the programs that were started, which end with the cluster.
    """

    master: str
    folder: Path
    work: Path
    environment: Mapping[str, str]
    settings: Mapping[str, str] = attrs.field(factory=lambda: SETTINGS)
    workers: list[subprocess.Popen[bytes]] = attrs.field(factory=list)
    jobs: list[subprocess.Popen[str]] = attrs.field(factory=list)

    @property
    def _spark_submit(self) -> str:
        return f"{self.environment['SPARK_HOME']}/bin/spark-submit"

    def executors(self) -> list[int]:
        """Return the process ids of the executors."""
        return [
            process
            for process, command in processes_in(self.work)
            if command[0].endswith("/java") and any(part in BACKENDS for part in command)  # on YARN, a shell starts it
        ]

    def kill_executor(self) -> None:
        """Kill one of the executors, which is a container on YARN."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill one of the workers, whose executors end then."""
        worker = self.workers.pop()
        worker.kill()
        worker.wait()

    def start(
        self, *arguments: str | Path, settings: Mapping[str, str] | None = None, how: str = "program", **more: str
    ) -> subprocess.Popen[str]:
        """Start the job of the tests as a program of its own.

        Args:
            arguments: of the program after where it runs; see `flights_job.py`.
            settings: more settings of Spark.
            how: `program`, whose session is on the cluster; `submit`, by `spark-submit`; or a Connect server's URL.
            more: more environment variables, of which `PYSPARK_PYTHON` names the Python of the executors.
        """
        settings = {**self.settings, **(settings or {})}
        command: list[str | Path] = [sys.executable, JOB]
        if how == "submit":
            python = more.pop("PYSPARK_PYTHON")
            settings |= {"spark.pyspark.driver.python": sys.executable, "spark.pyspark.python": python}
            command = [self._spark_submit, "--master", self.master, *_options(settings), JOB, "submit"]
        elif how == "program":
            command = [*command, self.master]
            arguments = (*arguments, *(f"{name}={value}" for name, value in settings.items()))
        else:
            command = [*command, how]
        return self._started(*command, *arguments, **more)

    def command(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command of `dataflow-model`.

        Args:
            arguments: of the command, after its name.
            more: more environment variables.
        """
        return self._started(sys.executable, "-m", "dataflow_model", *arguments, **more)

    def _started(self, *command: str | Path, **more: str) -> subprocess.Popen[str]:
        job = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(job)
        return job

    def end_jobs(self) -> None:
        """Kill the programs that still run."""
        for job in self.jobs:
            job.kill()
            if job.stdout is not None and not job.stdout.closed:  # its output was not asked for
                job.communicate()

    @contextlib.contextmanager
    def connect_server(self, python: str) -> Iterator[str]:
        """Run a server of Spark Connect on the cluster, whose executors use a Python; yield its URL."""
        (port,) = free_ports(1)
        settings = {**self.settings, "spark.connect.grpc.binding.port": str(port), "spark.log.level": "INFO"}
        log = self.folder / "connect.log"
        server = started(
            log,
            {**self.environment, "PYSPARK_PYTHON": python, "SPARK_NO_DAEMONIZE": "1"},
            *(self._spark_submit, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", self.master, "--name", "connect", *_options(settings), "spark-internal"),
        )
        try:
            said(log, r"Spark Connect server started at", server)
            yield f"sc://127.0.0.1:{port}"
        finally:
            end(server)


def _options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
