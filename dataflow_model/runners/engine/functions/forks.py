"""Processes that users' functions fork: none of them may go on with the run, which belongs to the process of its start.

A fork has the frames of the run below those of the function. An exception that leaves the function there would remove
the output that the run is writing, and roll back a transaction in a database that both processes have open.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from contextvars import ContextVar
from typing import Final

_HOME: Final[ContextVar[int | None]] = ContextVar("dataflow_model_process", default=None)


def run_here() -> None:
    """Note that users' functions in this context are called by this process."""
    _HOME.set(os.getpid())


def end_fork(error: BaseException) -> None:
    """End this process if a user's function has forked it, as Python ends one with an exception that nothing catches.

    Args:
        error: the exception that has left the function.
    """
    if _HOME.get() in {None, os.getpid()}:
        return
    status = 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status and status is not error.code:
            print(error.code, file=sys.stderr)  # noqa: T201 - as Python does
    else:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # such as a closed pipe
            stream.flush()
    os._exit(status & 0xFF)
