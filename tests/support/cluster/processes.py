"""Processes of a cluster on this machine: start them, wait for what they write, and end them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["end", "free_ports", "processes_in", "said", "started"]

PATIENCE = 240
"""Seconds to wait for a process to write what is expected of it."""


def started(log: Path, variables: Mapping[str, str], *command: str | Path) -> subprocess.Popen[bytes]:
    """Start a process that writes a log, in the folder of the log."""
    with log.open("w") as output:
        return subprocess.Popen(command, env=dict(variables), stdout=output, stderr=output, cwd=log.parent)


def said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until a process has written something; return the last group of the pattern."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[found.lastindex or 0]
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
    raise AssertionError(f"{log} has no {pattern!r}: {log.read_text(errors='replace')[-3000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, with patience at first."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def processes_in(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the id and the command of each process that works below a folder."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if os.readlink(place / "cwd").startswith(f"{folder}/"):  # noqa: PTH115 - text is enough
                yield int(place.name), (place / "cmdline").read_bytes().decode(errors="replace").split("\0")


def free_ports(count: int) -> list[int]:
    """Return ports of this machine on which nothing listens."""
    with contextlib.ExitStack() as held:
        listening = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in listening]
