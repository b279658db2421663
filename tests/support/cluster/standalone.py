"""A standalone cluster of Spark's on this machine, from the installed PySpark: a master and workers, a JVM each."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyspark

from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JOB", "SETTINGS", "Cluster", "environment", "standalone"]

JOB = REPOSITORY / "tests/support/cluster/flights_job.py"
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE = 240
"""Seconds to wait for a process to say what is expected of it."""
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
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


@attrs.define
class Cluster:
    """A cluster that runs.

    Attributes:
        master: its URL.
        folder: where its processes write.
        workers: the processes of its workers.
        environment: the environment variables of its programs.
        jobs: the programs that were started, which end with the cluster.
    """

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]]
    environment: dict[str, str]
    jobs: list[subprocess.Popen[str]] = attrs.field(factory=list)

    def executors(self) -> list[int]:
        """Return the process ids of the executors."""
        work = str(self.folder / "worker")
        found = []
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                is_executor = b"CoarseGrainedExecutorBackend" in (place / "cmdline").read_bytes()
                if is_executor and os.readlink(place / "cwd").startswith(work):  # noqa: PTH115 - text is enough
                    found.append(int(place.name))
        return found

    def kill_executor(self) -> None:
        """Kill one of the executors."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill one of the workers, whose executors end then."""
        worker = self.workers.pop()
        worker.kill()
        worker.wait()

    def start(self, *arguments: str | Path, submit: bool = False, **more: str) -> subprocess.Popen[str]:
        """Start the job of the tests as a program of its own.

        Args:
            arguments: of the program; see `flights_job.py`.
            submit: whether to start it with `spark-submit`.
            more: more environment variables.
        """
        command: list[str | Path] = [sys.executable, JOB]
        if submit:
            python = more.pop("PYSPARK_PYTHON")
            settings = {**SETTINGS, "spark.pyspark.driver.python": sys.executable, "spark.pyspark.python": python}
            options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
            command = [SPARK_HOME / "bin/spark-submit", "--master", self.master, *options, JOB]
        job = subprocess.Popen(
            [*command, *arguments],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(job)
        return job

    @contextlib.contextmanager
    def connect_server(self, python: str) -> Iterator[str]:
        """Run a server of Spark Connect on the cluster, whose executors use a Python; yield its URL."""
        port = 15002 + os.getpid() % 10_000
        settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port), "spark.log.level": "INFO"}
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        server = _started(
            self.folder / "connect.log",
            self.environment | {"PYSPARK_PYTHON": python, "SPARK_NO_DAEMONIZE": "1"},
            "bin/spark-submit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", self.master),
            *("--name", "connect", *options, "spark-internal"),
        )
        try:
            _said(self.folder / "connect.log", r"Spark Connect server started at", server)
            yield f"sc://127.0.0.1:{port}"
        finally:
            _end(server)


@contextlib.contextmanager
def standalone(folder: Path, java_home: str, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers of one core each; what they have started ends with them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    own = {"JAVA_HOME": java_home, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    variables = {**kept, **own, "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m"}
    with contextlib.ExitStack() as ending:
        log = folder / "master.log"
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _started(log, variables, "bin/spark-class", "org.apache.spark.deploy.master.Master", *place)
        ending.callback(_end, master)
        url = _said(log, r"Starting Spark master at (spark://\S+)", master)
        processes = []
        for number in range(workers):
            resources = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker{number}"))
            process = _started(
                folder / f"worker{number}.log",
                variables,
                *("bin/spark-class", "org.apache.spark.deploy.worker.Worker", *place, *resources, url),
            )
            ending.callback(_end, process)
            processes.append(process)
        for number, process in enumerate(processes):
            _said(folder / f"worker{number}.log", "Successfully registered", process)
        cluster = Cluster(url, folder, processes, {**kept, **own})
        try:
            yield cluster
        finally:
            for job in cluster.jobs:
                job.kill()


def _started(log: Path, variables: dict[str, str], script: str, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("w") as output:
        return subprocess.Popen(
            [SPARK_HOME / script, *arguments], env=variables, stdout=output, stderr=output, cwd=log.parent
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until a process has written something; return the last group of the pattern."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[found.lastindex or 0]
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
    raise AssertionError(f"{log} has no {pattern!r}")
