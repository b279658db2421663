"""Apicurio, a schema registry: one process with empty storage in memory, on a free port of loopback."""

from __future__ import annotations

import contextlib
import json
import os
import tarfile
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from tests.support.cluster.processes import end, free_ports, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["register", "running_apicurio"]

_PATIENCE: Final = 120
"""Seconds to wait until it answers."""


@contextlib.contextmanager
def running_apicurio(folder: Path, java_home: str, fetched: Path) -> Iterator[str]:
    """Run a registry, which ends with the block; give the address of its interface like Confluent's.

    Args:
        folder: an empty folder for its programs and its log.
        java_home: the home of a Java.
        fetched: the folder with its archive.
    """
    [archive] = fetched.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    [program] = folder.glob("*-runner.jar")
    [port] = free_ports(1)
    settings = {
        "QUARKUS_HTTP_PORT": str(port),
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "APICURIO_STORAGE_KIND": "sql",
        "APICURIO_STORAGE_SQL_KIND": "h2",
    }
    command = [f"{java_home}/bin/java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-jar", str(program)]
    process = started(folder / "registry.log", {**os.environ, **settings}, *command)
    registry = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(registry):
            assert process.poll() is None, (folder / "registry.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (folder / "registry.log").read_text()[-3000:]
            time.sleep(0.1)
        yield registry
    finally:
        end(process)


def _answers(registry: str) -> bool:
    try:
        with urllib.request.urlopen(f"{registry}/schemas/types", timeout=5):  # noqa: S310 - of this machine
            return True
    except OSError:
        return False


def register(registry: str, subject: str, schema: Any, **more: Any) -> int:
    """Register a schema of Avro; return its id."""
    body = json.dumps({"schema": json.dumps(schema), "schemaType": "AVRO", **more}).encode()
    headers = {"Content-Type": "application/json"}
    place = f"{registry}/subjects/{subject}/versions"
    request = urllib.request.Request(place, body, headers)  # noqa: S310 - of this machine
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return int(json.load(answer)["id"])
