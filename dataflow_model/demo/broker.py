"""A small broker from PyPI that speaks Kafka's protocol: not for limits in time, fail-over or figures."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import SourceError, UnsupportedOnRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY: Final = "press Ctrl-C"
_PATIENCE: Final = 60.0
"""Seconds to wait for the broker to start."""


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker on a free port of loopback, and give its address; it ends with the block.

    Args:
        folder: a folder for its data and its log.

    Raises:
        UnsupportedOnRunner: if the broker is not installed.
        SourceError: if it does not start.
    """
    program = Path(sysconfig.get_path("scripts"), "noida-db")
    if not program.exists():
        raise UnsupportedOnRunner(
            f"the demo with Kafka runs a small broker, and there is no {program}",
            hint="pip install 'dataflow-model[demo]', which has it for Linux",
        )
    port, log = _free_port(), folder / "broker.log"
    options = ["--data-dir", str(folder / "data"), "--only", "kafka", "--kafka-port", str(port)]
    with log.open("w") as output:
        command = [str(program), "start", *options]
        process = subprocess.Popen(  # noqa: S603 - no user's text
            command, stdout=output, stderr=output, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + _PATIENCE
        while _READY not in (said := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SourceError(
                    f"the broker does not start: {said[-1_000:]}", hint="install noida-db again, or report what it says"
                )
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)  # the program, and the broker that it has started
        process.wait()


def _free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port: int = listening.getsockname()[1]
    return port
