"""A mark in the checkpoint of a running query, so that it is not mistaken for a stopped one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
import time
from typing import Final

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import write_file
from dataflow_model.runners.sharded.checkpoint.processes import Process

__all__ = ["RunningMark", "who_runs"]

_NAME: Final = "running"
_BEAT_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 60.0
"""The time without a beat after which a process on any machine is considered dead."""


@attrs.define
class RunningMark:
    """The mark of this process, which must call `beat` regularly.

    Args:
        folder: our part of the checkpoint.
    """

    folder: str
    _last: float = attrs.field(init=False, default=float("-inf"))

    def beat(self) -> None:
        """Record that the run is alive; a disk that is temporarily full does not stop the run."""
        now = time.monotonic()
        if now - self._last < _BEAT_SECONDS:
            return
        self._last = now
        with contextlib.suppress(OSError):
            write_file(self._path, Process().content())

    def remove(self) -> None:
        """Record that the run has ended."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> pathlib.Path:
        return pathlib.Path(self.folder, _NAME)


def who_runs(folder: str) -> str | None:
    """Return the process in which a run is running; `None` if it is stopped or its process is dead.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mark = RunningMark(folder)
        ...     mark.beat()
        ...     str(os.getpid()) in who_runs(folder)
        ...     mark.remove()
        ...     who_runs(folder)
        True
    """
    path = pathlib.Path(folder, _NAME)
    try:
        silent = time.time() - path.stat().st_mtime
        who = Process.read(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:  # a power failure has left it empty
        return None
    if silent > _SILENT_SECONDS or (who.host == platform.node() and not _lives(who.process)):
        return None
    return str(who)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True
