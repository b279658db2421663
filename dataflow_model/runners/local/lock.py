"""The lock of a run in process: only one process at a time may use a checkpoint."""

from __future__ import annotations

import fcntl
import os
import pathlib
import weakref
from typing import Final, Self

import attrs

from dataflow_model.errors import CheckpointInUse, SinkError
from dataflow_model.runners.sharded.checkpoint.durable import make_folder
from dataflow_model.runners.sharded.checkpoint.file_systems import MOUNTS, mount_of
from dataflow_model.runners.sharded.checkpoint.processes import Process

_NAME: Final = "lock"


@attrs.define(eq=False)
class RunLock:
    """An exclusive lock that lasts until `release`, or until the process dies.

    It belongs to the process that takes it; a forked child does not hold it.

    Args:
        folder: the host's part of the checkpoint.
        path: the checkpoint, as the user has named it.
    """

    folder: pathlib.Path
    path: str
    _descriptor: int | None = attrs.field(init=False, default=None)

    @classmethod
    def of(cls, path: str, host: str) -> Self:
        """Return the lock of a checkpoint.

        Args:
            path: the checkpoint, as the user has named it.
            host: the name of the host's part of it.
        """
        return cls(pathlib.Path(path).absolute() / host, path)

    def take(self) -> None:
        """Take the lock.

        Raises:
            CheckpointInUse: if another run holds it.
            SinkError: if the folder cannot be written, or is on a network file system.
        """
        check_file_system(self.folder, self.path)
        try:
            make_folder(self.folder, sync=True)
            descriptor = os.open(self.folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, Process().content(_NAME), 0)
        except BlockingIOError as error:
            who = _who(descriptor)
            os.close(descriptor)
            raise CheckpointInUse(
                f"the run in {self.path!r} is running, in {who}",
                hint="stop that run first: result.stop(); or pass another directory as checkpoint=",
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise self._unwritable(error) from error
        self._descriptor = descriptor
        _TAKEN.add(self)

    def _unwritable(self, error: OSError) -> SinkError:
        return SinkError(
            f"the checkpoint directory {self.path!r} cannot be written: {error}",
            hint="pass another directory as checkpoint=, or free space on its disk and let this process write there",
        )

    def release(self) -> None:
        """Release the lock, so that other processes can use the checkpoint."""
        _TAKEN.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_TAKEN: Final[weakref.WeakSet[RunLock]] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close the descriptors of locks in a forked child, since a lock lasts until its last descriptor is closed."""
    for lock in list(_TAKEN):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def who_holds(folder: pathlib.Path) -> str | None:
    """Return the process on this machine that holds the lock in a folder; `None` if no process does.

    Args:
        folder: the host's part of a checkpoint.
    """
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # at once, and not only when a forked child closes its copy
    except BlockingIOError:
        return _who(descriptor)
    finally:
        os.close(descriptor)
    return None


def _who(descriptor: int) -> str:
    who = Process.read(os.pread(descriptor, 4_096, 0), _NAME)
    return "another process" if who is None else str(who)  # which may be writing it


def check_file_system(folder: pathlib.Path, path: str, mounts: pathlib.Path = MOUNTS) -> None:
    """Reject a folder on a network file system, if this machine lists its mounts.

    Args:
        folder: the folder; it need not exist.
        path: the checkpoint, as the user has named it.
        mounts: the file that lists the mounts.

    Raises:
        SinkError: if the folder is on a network file system.
    """
    mount = mount_of(folder, mounts)
    if mount.is_network:
        raise SinkError(
            f"the checkpoint directory {path!r} is on a network file system ({mount.kind}, mounted at "
            f"{str(mount.path)!r}), on which no lock keeps two machines from going on with the same run",
            hint="pass a directory on a local disk as checkpoint=",
        )
