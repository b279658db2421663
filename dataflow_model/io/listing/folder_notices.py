"""Changes in a directory as the kernel reports them, so that a new file among many is found without listing them.

Linux's inotify reports what processes of this machine do. What other machines do on a network file system is not
reported, so notices only supplement a look at the directory's time of modification.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import sys
import weakref
from typing import Any, Final, Self

_CREATE: Final = 0x100
_DELETE: Final = 0x200
_MOVED_FROM: Final = 0x40
_MOVED_TO: Final = 0x80
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_UNMOUNT: Final = 0x2000
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLY_FOLDERS: Final = 0x0100_0000
_WANTED: Final = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_ENDS: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_HEAD: Final = struct.Struct("iIII")
_BYTES: Final = 1 << 16


class FolderNotices:
    """The names in a directory that have changed since they were last taken. Make one with `open`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     notices = FolderNotices.open(folder)
        ...     pathlib.Path(folder, "new").touch()
        ...     names = {"new"} if notices is None else notices.take()  # there are none on macOS
        >>> names
        {'new'}
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        self.close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: str) -> Self | None:
        """Return the notices of a directory from now on; `None` if the system does not support them or has no more."""
        descriptor = open_queue()
        if descriptor is None:
            return None
        notices = cls(descriptor)
        if not add_folder(descriptor, path):
            notices.close()
            return None
        return notices

    def take(self) -> set[str] | None:
        """Return the names that were added, removed or replaced since the last call.

        `None` means that some may be missing, and that there will be no more: there were too many, the directory
        itself was moved or removed, or this process is a fork of the one that has asked.
        """
        if os.getpid() != self._process or not self.close.alive:
            return None
        names, has_ended = take_names(self._descriptor)
        if has_ended:
            self.close()
            return None
        return names


def open_queue() -> int | None:
    """Return a descriptor to read notices of directories from; `None` if the system does not support it."""
    libc = _libc()
    descriptor = -1 if libc is None else int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    return None if descriptor < 0 else descriptor


def add_folder(descriptor: int, path: str) -> bool:
    """Ask for notices of a directory from now on; return whether there will be any."""
    return bool(_libc().inotify_add_watch(descriptor, os.fsencode(path), _WANTED) >= 0)


def take_names(descriptor: int) -> tuple[set[str], bool]:
    """Return the names of all notices so far, and whether some are missing or the notices of a directory have ended."""
    names: set[str] = set()
    has_ended = False
    with contextlib.suppress(BlockingIOError):
        while True:
            events = os.read(descriptor, _BYTES)
            offset = 0
            while offset < len(events):
                _, mask, _, length = _HEAD.unpack_from(events, offset)
                offset += _HEAD.size + length
                has_ended = has_ended or bool(mask & _ENDS)
                names.add(os.fsdecode(events[offset - length : offset].rstrip(b"\0")))
    return names, has_ended


@functools.cache
def _libc() -> Any:
    """Return the C library, if it has inotify."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "inotify_init1") else None
