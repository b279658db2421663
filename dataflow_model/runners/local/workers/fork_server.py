"""The fork server: a process of this program that has imported the package, and forks the workers of its runs.

Importing the package takes about a second of processor time, so a worker is forked from a process that has done so. It
is not forked from this process, because forking a process with threads (of Arrow, of the user) may leave the child with
locks that nobody releases. The fork server has no threads and has computed nothing. `multiprocessing` has a fork server
as well, but it imports the main module of the program in each child, and so runs a script without
`if __name__ == "__main__"` again; here functions of the main module are pickled by value instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import UnsupportedOnRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOT: Final = (
    "import pickle, sys; sys.path[:], modules = pickle.load(sys.stdin.buffer); "
    "from dataflow_model.runners.local.workers.fork_server import serve; serve({descriptor}, modules)"
)
_REQUEST: Final = b"\0"
_END_SECONDS: Final = 5.0
_MOST_ENDED: Final = 4_096


@attrs.define(eq=False)
class ForkedWorker:
    """A worker as the process sees it that has asked for it.

    Attributes:
        connection: the connection to the worker.
    """

    connection: Connection
    _status: Connection

    def ended_with(self) -> int | None:
        """Return the exit status of a worker that has ended, or the number of the signal that ended it, negated.

        It is `None` if the fork server has ended too, and so cannot say it.
        """
        with contextlib.suppress(OSError, EOFError):
            if self._status.poll(_END_SECONDS):
                return int(self._status.recv_bytes())
        return None

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
        self._status.close()


class _ForkServer:
    """The fork server as its parent sees it; it ends with its parent.

    Args:
        modules: what it imports besides this package.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
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
            stdin.write(pickle.dumps((sys.path, modules)))

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self) -> ForkedWorker:
        """Fork a worker; if that fails, the connection to it has no other end."""
        ours, theirs = socket.socketpair()
        status, status_writer = multiprocessing.Pipe(duplex=False)
        with theirs, status_writer:
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(self._requests, [_REQUEST], [theirs.fileno(), status_writer.fileno()])
            return ForkedWorker(Connection(ours.detach()), status)

    def leave(self) -> None:
        """Close the connection to the fork server, which ends once no process has one; its workers do not."""
        self._requests.close()

    def close(self) -> None:
        """End the fork server, which has no effect on its workers."""
        self.leave()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_lock: Final = threading.Lock()
_fork_servers: dict[tuple[str, ...], _ForkServer] = {}
"""The fork servers of this process that runs have needed, by the modules that they have imported."""


def fork_worker(modules: tuple[str, ...]) -> ForkedWorker:
    """Fork a worker of this process.

    Args:
        modules: what the run needs besides this package; one that cannot be imported is the worker's to report.

    Raises:
        UnsupportedOnRunner: on a platform without `fork`.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "send_fds"):
        raise UnsupportedOnRunner(
            "LocalRunner(workers=…) forks processes, which this platform does not support",
            hint="use dm.LocalRunner() without workers",
        )
    with _lock:
        if modules in _fork_servers and not _fork_servers[modules].is_alive():
            _fork_servers.pop(modules).close()
        if modules not in _fork_servers:
            _fork_servers[modules] = _ForkServer(modules)
        return _fork_servers[modules].fork()


@atexit.register
def _close() -> None:
    with _lock:
        while _fork_servers:
            _fork_servers.popitem()[1].close()


def _leave_in_child() -> None:
    """Leave the fork server to the process that has started it; another thread of that one may have held the lock."""
    _lock._at_fork_reinit()  # type: ignore[attr-defined] # noqa: SLF001 - as the modules of Python do
    while _fork_servers:
        _fork_servers.popitem()[1].leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)


def serve(descriptor: int, modules: tuple[str, ...]) -> None:
    """Fork workers for as long as the parent asks for them; the main loop of the fork server.

    Args:
        descriptor: the file descriptor of the socket by which requests arrive, each with the socket for the worker and
            the pipe for its exit status.
        modules: what it imports before the first fork, if it can.
    """
    from dataflow_model.runners.local.workers.worker import flush_output, work

    if importlib.util.find_spec("pandas") is not None:  # where it is installed, Arrow imports it to convert columns
        importlib.import_module("pandas")
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    statuses: dict[int, Connection] = {}
    with socket.socket(fileno=descriptor) as requests, _ended_children() as ended:
        while True:
            ready = wait([requests, ended])
            if ended in ready:
                ended.recv(_MOST_ENDED)
                _send_statuses(statuses)
            if requests not in ready:
                continue
            request, descriptors, _, _ = socket.recv_fds(requests, len(_REQUEST), 2)
            if not request:
                return
            theirs, status = descriptors
            process = os.fork()
            if process:
                os.close(theirs)
                statuses[process] = Connection(status, readable=False)
                continue
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(status)
                requests.close()
                ended.close()
                for other in statuses.values():
                    other.close()
                work(Connection(theirs))
            finally:
                flush_output()
                os._exit(0)  # the parent knows from the worker's messages how it ended


@contextlib.contextmanager
def _ended_children() -> Iterator[socket.socket]:
    """Yield a socket that can be read when a child of this process has ended."""
    ended, wakeup = socket.socketpair()
    with ended, wakeup:
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            yield ended
        finally:
            signal.set_wakeup_fd(-1)  # a child may end after the socket is closed


def _send_statuses(statuses: dict[int, Connection]) -> None:
    """Send the exit status of each worker that has ended to the process that has asked for the worker."""
    for process, status in list(statuses.items()):
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            with statuses.pop(process), contextlib.suppress(BrokenPipeError):
                status.send_bytes(str(os.waitstatus_to_exitcode(code)).encode())
