"""Temporary folders of runs, which are locked: those of a killed process are removed by the same user's next run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import uuid
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "dataflow_model-"
_LOGS: Final = f"{_PREFIX}log-"
"""How the names of folders begin that are only removed if they are empty, since errors name the log in them."""
_NEW: Final = "new-"
"""How the name of a folder begins until it is locked."""


class RunFolder:
    """A folder that exists as long as this object, and at most as long as the process.

    It is in the folder for temporary files, under a name that nobody can predict, and only its owner can read it.
    Before it is made, those of dead processes of the same user are removed.

    Args:
        kind: what is in it, as a part of its name. A folder of a `"log"` is only removed if it is empty.

    Example:
        >>> folder = RunFolder()
        >>> path = folder.path
        >>> path.exists()
        True
        >>> del folder
        >>> path.exists()
        False
    """

    def __init__(self, kind: str = "run") -> None:
        parent = tempfile.gettempdir()
        remove_abandoned(pathlib.Path(parent), _PREFIX)
        made = pathlib.Path(tempfile.mkdtemp(prefix=f"{_NEW}{_PREFIX}{kind}-", dir=parent))
        # Locked before it gets the name by which others look for abandoned ones.
        lock = _locked(made)
        self.path = made.rename(made.with_name(made.name.removeprefix(_NEW)))
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()


@contextlib.contextmanager
def working_folder(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the path of a new folder beside another path; what the `with` block leaves there is removed.

    What a killed process has left is removed by the next one that works on the same path.

    Args:
        target: the path under whose name the folder may appear when it is complete.
    """
    remove_abandoned(target.parent, f".{target.name}.")
    fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    lock = None
    try:
        fresh.mkdir(mode=0o700)
        lock = _locked(fresh)
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        _unlock(lock)


def remove_abandoned(parent: pathlib.Path, prefix: str) -> None:
    """Remove the folders of this user whose name has a prefix and whose lock no process holds.

    Args:
        parent: where to look; only there, and following no links.
        prefix: how their names begin.
    """
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):  # it is gone, or a process holds its lock
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _clear(path)
        finally:
            os.close(descriptor)


_LOCKS: Final[set[int]] = set()
"""The descriptors that hold the locks of this process."""


def _locked(folder: pathlib.Path) -> int:
    """Lock a folder; the lock lasts until the descriptor is closed, or until the process dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):  # a file system without locks: then no other process gets it either
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _LOCKS.add(descriptor)
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor in _LOCKS:
        _LOCKS.discard(descriptor)
        os.close(descriptor)


def _unlock_in_child() -> None:
    """Close the descriptors in a forked child, since a lock lasts until its last descriptor is closed."""
    for descriptor in tuple(_LOCKS):
        _unlock(descriptor)


os.register_at_fork(after_in_child=_unlock_in_child)


def _remove(path: pathlib.Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child also runs its parent's finalizers
        _clear(str(path))
        _unlock(lock)


def _clear(path: str) -> None:
    if os.path.basename(path).startswith(_LOGS):  # noqa: PTH119 - text is enough
        with contextlib.suppress(OSError):  # there is a log in it
            os.rmdir(path)  # noqa: PTH106
    else:
        shutil.rmtree(path, ignore_errors=True)
