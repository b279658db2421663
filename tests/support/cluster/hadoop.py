"""HDFS and YARN on this machine: a NameNode, a DataNode, a ResourceManager and a NodeManager, a small JVM each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.support.cluster.cluster import JARS, SETTINGS, Cluster, spark_home, variables_of
from tests.support.cluster.processes import end, free_ports, processes_in, said, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["hadoop"]

DAEMON = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOG_SETTINGS = """
rootLogger.level = info
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
DAEMONS = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
ON_YARN = {
    **SETTINGS,
    "spark.executor.instances": "2",
    "spark.executor.memoryOverhead": "384m",
    "spark.yarn.am.memory": "400m",
    "spark.yarn.jars": f"local:{JARS}/*",  # not *.jar
}


@contextlib.contextmanager
def hadoop(folder: Path, java_home: str, jars: Path) -> Iterator[Cluster]:
    """Run YARN on HDFS, which is the default file system; what they have started ends with them.

    Args:
        folder: where the daemons and the containers write.
        java_home: the home of a Java.
        jars: the jars of the daemons; those of the client and of logging are PySpark's.
    """
    conf = folder / "conf"
    name_node = _write_settings(folder, conf)
    variables = {
        **variables_of(java_home, spark_home(folder)),
        "HADOOP_CONF_DIR": str(conf),
        "HADOOP_USER_NAME": "tests",
    }
    variables["FLIGHTS_COPY"] = f"{name_node}/flights"
    path = os.pathsep.join([str(conf), f"{JARS}/*", *map(str, sorted(jars.glob("*.jar")))])
    java = (f"{java_home}/bin/java", *DAEMON, "-cp", path)
    formatting = [*java, DAEMONS["namenode"], "-format", "-force", "-nonInteractive"]
    subprocess.run(formatting, env=variables, cwd=folder, capture_output=True, timeout=240, check=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as ending:
        ending.callback(_kill_containers, folder / "containers")

        def start(name: str) -> None:
            running[name] = started(folder / f"{name}.log", variables, *java, DAEMONS[name])
            ending.callback(end, running[name])

        def wait(name: str, pattern: str) -> None:
            said(folder / f"{name}.log", pattern, running[name])

        for name in ("namenode", "datanode", "resourcemanager"):
            start(name)
        wait("resourcemanager", "Transitioned to active state")
        start("nodemanager")  # it gives up if nobody answers
        wait("namenode", "Adding a new node")
        wait("nodemanager", "Registered with ResourceManager")
        cluster = Cluster("yarn", folder, folder / "containers", variables, ON_YARN)
        ending.callback(cluster.end_jobs)
        yield cluster


def _kill_containers(folder: Path) -> None:
    for process, _ in processes_in(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _write_settings(folder: Path, conf: Path) -> str:
    """Write the settings of the daemons; return the URL of the file system."""
    conf.mkdir()
    name_node, *ports = free_ports(7)
    url = f"hdfs://127.0.0.1:{name_node}"
    core = {"fs.defaultFS": url, "hadoop.tmp.dir": str(folder / "temporary")}
    _write(conf / "core-site.xml", "", core)
    _write(conf / "hdfs-site.xml", "dfs.", _of_hdfs(folder))
    _write(conf / "yarn-site.xml", "yarn.", _of_yarn(folder, ports))
    (conf / "log4j2.properties").write_text(LOG_SETTINGS)
    return url


def _of_hdfs(folder: Path) -> dict[str, str]:
    any_port = "127.0.0.1:0"
    return {
        "datanode.address": any_port,
        "datanode.data.dir": f"file://{folder}/data",
        "datanode.http.address": any_port,
        "datanode.ipc.address": any_port,
        "namenode.datanode.registration.ip-hostname-check": "false",
        "namenode.http-address": any_port,
        "namenode.name.dir": f"file://{folder}/names",
        "permissions.enabled": "false",
        "replication": "1",
    }


def _of_yarn(folder: Path, ports: Sequence[int]) -> dict[str, str]:
    services = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
    addresses = {f"resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in zip(services, ports, strict=False)}
    return {
        **addresses,
        "nodemanager.address": "127.0.0.1:0",
        "nodemanager.bind-host": "127.0.0.1",
        "nodemanager.disk-health-checker.enable": "false",
        "nodemanager.hostname": "127.0.0.1",
        "nodemanager.local-dirs": f"{folder}/containers",
        "nodemanager.localizer.address": f"127.0.0.1:{ports[-1]}",
        "nodemanager.log-dirs": f"{folder}/container-logs",
        "nodemanager.pmem-check-enabled": "false",
        "nodemanager.resource.cpu-vcores": "4",
        "nodemanager.resource.memory-mb": "4096",
        "nodemanager.vmem-check-enabled": "false",
        "nodemanager.webapp.address": "127.0.0.1:0",
        "resourcemanager.hostname": "127.0.0.1",
        "resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
        ),
        "scheduler.minimum-allocation-mb": "256",
    }


def _write(path: Path, prefix: str, settings: Mapping[str, str]) -> None:
    properties = "\n".join(
        f"<property><name>{prefix}{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{properties}\n</configuration>\n")
