"""A folder for one bounded job, on the machine that starts it, which is deleted with the job's result."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import weakref

__all__ = ["RunFolder"]


class RunFolder:
    """A temporary folder that exists as long as this object, and at most as long as the process.

    Example:
        >>> folder = RunFolder()
        >>> path = folder.path
        >>> path.exists()
        True
        >>> del folder
        >>> path.exists()
        False
    """

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="dataflow_model-run-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: pathlib.Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child also runs its parent's finalizers
        shutil.rmtree(path, ignore_errors=True)
