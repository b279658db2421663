"""The nursery: a process of this program that has imported the package, and forks the workers of its runs.

Importing the package takes about a second of processor time, so a worker is forked from a process that has done so. It
is not forked from this process, because forking a process with threads (of Arrow, of the user) may leave the child with
locks that nobody releases. The nursery has no threads and has computed nothing. `multiprocessing` has a fork server as
well, but it imports the main module of the program in each child, and so runs a script without
`if __name__ == "__main__"` again; here functions of the main module are pickled by value instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Final

from dataflow_model.errors import UnsupportedOnRunner

__all__ = ["fork_worker", "serve"]

_BOOT: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from dataflow_model.runners.local.workers.nursery import serve; serve({descriptor})"
)
_REQUEST: Final = b"\0"
_END_SECONDS: Final = 5.0


class _Nursery:
    """The nursery as its parent sees it; it ends with its parent."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            # A session of its own: Ctrl-C in a terminal reaches this process only, which then ends the workers.
            # The options of this interpreter, such as -O and -X utf8, change what users' functions do.
            options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # noqa: SLF001 - as multiprocessing does
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, *options, "-c", _BOOT.format(descriptor=theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with self._process.stdin as stdin, contextlib.suppress(BrokenPipeError):
            stdin.write(pickle.dumps(sys.path))

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self) -> Connection:
        """Fork a worker, and return the connection to it; if that fails, the connection has no other end."""
        ours, theirs = socket.socketpair()
        with theirs:
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(self._requests, [_REQUEST], [theirs.fileno()])
            return Connection(ours.detach())

    def leave(self) -> None:
        """Close the connection to the nursery, which ends once no process has one; its workers do not."""
        self._requests.close()

    def close(self) -> None:
        """End the nursery, which has no effect on its workers."""
        self.leave()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_lock: Final = threading.Lock()
_nursery: list[_Nursery] = []
"""The nursery of this process, once a run has needed it."""


def fork_worker() -> Connection:
    """Fork a worker of this process, and return the connection to it.

    Raises:
        UnsupportedOnRunner: on a platform without `fork`.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "send_fds"):
        raise UnsupportedOnRunner(
            "LocalRunner(workers=…) forks processes, which this platform does not support",
            hint="use dm.LocalRunner() without workers",
        )
    with _lock:
        if _nursery and not _nursery[0].is_alive():
            _nursery.pop().close()
        if not _nursery:
            _nursery.append(_Nursery())
        return _nursery[0].fork()


@atexit.register
def _close() -> None:
    with _lock:
        while _nursery:
            _nursery.pop().close()


def _leave_in_child() -> None:
    """Leave the nursery to the process that has started it; another thread of that one may have held the lock."""
    _lock._at_fork_reinit()  # type: ignore[attr-defined] # noqa: SLF001 - as the modules of Python do
    while _nursery:
        _nursery.pop().leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)


def serve(descriptor: int) -> None:
    """Fork workers for as long as the parent asks for them; the main loop of the nursery.

    Args:
        descriptor: the file descriptor of the socket by which requests arrive, each with the socket for the worker.
    """
    from dataflow_model.runners.local.workers.worker import flush_output, work

    if importlib.util.find_spec("pandas") is not None:  # where it is installed, Arrow imports it to convert columns
        importlib.import_module("pandas")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers, so they leave no zombies
    with socket.socket(fileno=descriptor) as requests:
        while True:
            request, descriptors, _, _ = socket.recv_fds(requests, len(_REQUEST), 1)
            if not request:
                return
            [theirs] = descriptors
            if os.fork():
                os.close(theirs)
                continue
            try:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                work(Connection(theirs))
            finally:
                flush_output()
                os._exit(0)  # the parent knows from the worker's messages how it ended
