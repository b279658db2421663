"""The lock of a run in process is that of the process that has taken it, and of no other."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.runners.local.lock import RunLock

if TYPE_CHECKING:
    from pathlib import Path

FORKING = """
import os, sys
from dataflow_model.runners.local.lock import RunLock

lock = RunLock.of(sys.argv[1], "local")
lock.take()
if not os.fork():
    print(os.getpid(), flush=True)  # what Python does after a fork is done
sys.stdin.read()
"""


def test_a_lock_can_be_held_by_one_run_at_a_time(tmp_path: Path) -> None:
    first, second = (RunLock.of(str(tmp_path), "local") for _ in range(2))
    first.take()
    with pytest.raises(dm.CheckpointInUse, match=f"is running, in process {os.getpid()}"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_forked_child_does_not_keep_the_lock_of_a_process_that_was_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", FORKING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
        lock = RunLock.of(str(tmp_path), "local")
        try:
            lock.take()
            lock.release()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_file_system_without_locks_is_not_reported_as_a_running_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(dm.SinkError, match=r"cannot be written: .*No locks available\nHint: pass another directory"):
        RunLock.of(str(tmp_path), "local").take()
