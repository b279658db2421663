"""A mark in the checkpoint of a running query, so that it is not mistaken for a stopped one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
import threading
import time
from typing import Final

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import write_file
from dataflow_model.runners.sharded.checkpoint.processes import Process

_NAME: Final = "running"
_BEAT_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 60.0
"""The time without a beat after which a process on any machine is considered dead."""


@attrs.define
class RunningMark:
    """The mark of this process; a thread renews it, however long a micro-batch takes.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
    """

    common_part: str
    _ended: threading.Event = attrs.field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)

    def start(self) -> None:
        """Record that the run is alive, now and regularly until `end`."""
        self._write()
        self._thread = threading.Thread(target=self._renew, name="dataflow_model: mark of a run", daemon=True)
        self._thread.start()

    def end(self, *, superseded: bool = False) -> None:
        """Record that the run has ended, unless a newer start of it has taken over, to which the mark belongs now.

        A mark that has not started, which may be another run's, is left alone.
        """
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join()
        if not superseded:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._ended.wait(_BEAT_SECONDS):
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # a disk that is temporarily full does not stop the run
            write_file(self._path, Process().content(_NAME))

    @property
    def _path(self) -> pathlib.Path:
        return pathlib.Path(self.common_part, _NAME)


def who_runs(common_part: str) -> str | None:
    """Return the process in which a run is running; `None` if it is stopped or its process is dead.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mark = RunningMark(folder)
        ...     mark.start()
        ...     str(os.getpid()) in who_runs(folder)
        ...     mark.end()
        ...     who_runs(folder)
        True
    """
    path = pathlib.Path(common_part, _NAME)
    try:
        silent = time.time() - path.stat().st_mtime
        who = Process.read(path.read_bytes(), _NAME)
    except FileNotFoundError:
        return None
    if who is None:  # a power failure has left it empty
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
