"""Brokers of Apache Kafka on this machine, each a process that is broker and controller, on free ports of loopback."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from tests.support.cluster.processes import end, free_ports, said, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["PASSWORD", "Broker", "running_broker", "running_brokers"]

PASSWORD: Final = "secret-of-ann"  # noqa: S105 - of a broker that lives for some seconds
"""The password of the user `ann`, who has no rights."""
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"

_JVM: Final = ("-Xmx320m", "-Xms96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOG_SETTINGS: Final = """
rootLogger.level = warn
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
"""
_ONE_OF_EACH: Final = (
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
)


@attrs.define
class Broker:
    """A broker; its data outlive its process.

    Attributes:
        folder: where it keeps its data and writes its log.
        java: the program that runs it.
        jars: the folder of its jars.
        servers: its address, for `bootstrap.servers`.
        secured: the address at which users need a password.
        process: the process; `None` while it is down.
    """

    folder: Path
    java: str
    jars: Path
    servers: str
    secured: str = ""
    process: subprocess.Popen[bytes] | None = None
    _log: Path | None = attrs.field(default=None, init=False)

    @classmethod
    def prepared(
        cls, folder: Path, java_home: str, jars: Path, settings: Mapping[str, Any], count: int
    ) -> list[Broker]:
        """Return brokers of a cluster with empty storage, which are not started."""
        java = os.path.join(java_home, "bin/java")  # noqa: PTH118 - a text
        ports = free_ports(3 * count)
        controllers = ports[2 * count :]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        brokers = []
        for node, (port, secured, controller) in enumerate(zip(ports, ports[count:], controllers, strict=False)):
            own = folder / str(node)
            own.mkdir()
            broker = cls(own, java, jars, f"127.0.0.1:{port}", f"127.0.0.1:{secured}")
            (own / "log4j2.properties").write_text(_LOG_SETTINGS)
            properties = {
                "process.roles": "broker,controller",
                "node.id": node,
                "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{at}" for n, at in enumerate(controllers)),
                "controller.listener.names": "CONTROLLER",
                "listeners": (
                    f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured},"
                    f"CONTROLLER://127.0.0.1:{controller}"
                ),
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
                ),
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_LOGIN} user_ann="{PASSWORD}";',
                "sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "log.dirs": own / "data",
                "auto.create.topics.enable": "false",
                "group.initial.rebalance.delay.ms": 0,
                "log.cleaner.backoff.ms": 200,
                "log.cleaner.dedupe.buffer.size": 8_000_000,
                "num.io.threads": 2,
                "num.network.threads": 2,
                "default.replication.factor": count,
                "min.insync.replicas": min(2, count),
                "offsets.topic.num.partitions": 4,
                "offsets.topic.replication.factor": count,
                "transaction.state.log.num.partitions": 4,
                "transaction.state.log.replication.factor": count,
                "transaction.state.log.min.isr": min(2, count),
                **dict.fromkeys(_ONE_OF_EACH, 1),
                **settings,
            }
            (own / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            arguments = ["format", f"--cluster-id={cluster}", "-c", str(own / "server.properties")]
            tool = broker._command("kafka.tools.StorageTool", *arguments)
            subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
            brokers.append(broker)
        return brokers

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it."""
        self._log = self.folder / f"{uuid.uuid4().hex[:8]}.log"
        command = self._command("kafka.Kafka", str(self.folder / "server.properties"))
        self.process = started(self._log, os.environ, *command)

    def wait(self) -> None:
        """Wait until it serves."""
        assert self._log is not None
        assert self.process is not None
        said(self._log, "Kafka Server started", self.process)

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            end(self.process)
            self.process = None

    def _command(self, *arguments: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return [self.java, *_JVM, log, "-cp", f"{self.jars}/*", *arguments]


@contextlib.contextmanager
def running_broker(
    folder: Path, java_home: str, jars: Path, settings: Mapping[str, Any] | None = None
) -> Iterator[Broker]:
    """Run a broker, which ends with the block.

    Args:
        folder: an empty folder for its data.
        java_home: the home of a Java.
        jars: the folder of its jars.
        settings: more properties of the broker.
    """
    with running_brokers(folder, java_home, jars, 1, settings) as [broker]:
        yield broker


@contextlib.contextmanager
def running_brokers(
    folder: Path, java_home: str, jars: Path, count: int, settings: Mapping[str, Any] | None = None
) -> Iterator[list[Broker]]:
    """Run a cluster of brokers, which keep each partition on all of them; they end with the block.

    Args:
        folder: an empty folder for their data.
        java_home: the home of a Java.
        jars: the folder of their jars.
        count: how many there are.
        settings: more properties of each.
    """
    brokers = Broker.prepared(folder, java_home, jars, settings or {}, count)
    try:
        for broker in brokers:
            broker.launch()  # none serves until most are there
        for broker in brokers:
            broker.wait()
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()
