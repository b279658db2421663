"""A small broker from PyPI for quick tests: never for limits in time, retention, fail-over or figures."""

from __future__ import annotations

import contextlib
import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.cluster.processes import end, free_ports, said, started

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["running_small_broker"]


@contextlib.contextmanager
def running_small_broker(folder: Path) -> Iterator[str]:
    """Run a broker on a free port of loopback, and give its address; it ends with the block.

    Args:
        folder: an empty folder for its data.
    """
    [port] = free_ports(1)
    program, log = Path(sysconfig.get_path("scripts"), "noida-db"), folder / "broker.log"
    options = ["--data-dir", str(folder / "data"), "--only", "kafka", "--kafka-port", str(port)]
    process = started(log, os.environ, program, "start", *options)
    try:
        said(log, "press Ctrl-C", process)
        yield f"127.0.0.1:{port}"
    finally:
        end(process)
