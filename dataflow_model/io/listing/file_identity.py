"""The identity of files: under one name, a file may grow, be replaced, or be removed and created again."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import attrs

from dataflow_model.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCK: Final = 1 << 14


@attrs.frozen
class FileVersion:
    """The state of a file at one moment; what is cached about a file (footer, index of rows) is valid for one version.

    Attributes:
        path: where the file is.
        size: in bytes.
        modified: nanoseconds since the epoch.
        inode: as the file system numbers it.
        changed: when the file was last changed in any way, in nanoseconds since the epoch. Programs that copy files can
            set the time of modification, but not this one.
    """

    path: str
    size: int
    modified: int
    inode: int
    changed: int

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the current version of a file.

        Raises:
            SourceError: when it is not there or may not be read.
        """
        try:
            status = os.stat(path)  # noqa: PTH116 - called for each file of a folder
        except OSError as error:
            raise unreadable(path, error) from error
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


class FileIdentity(NamedTuple):
    """What distinguishes a file from another one of the same name.

    A file is the same as long as its size and its time of modification are. The inode alone is not enough, since a file
    system gives the inode of a removed file to the next one; it only matters where the times of modification are too
    coarse to differ. Some file systems number their inodes anew when they are mounted, so where only the inode differs,
    the digest decides.

    Attributes:
        size: in bytes.
        modified: nanoseconds since the epoch.
        inode: as the file system numbers it.
        digest: of the first and the last 16 KiB.
        since: if the file ends with a line that is not finished and was not read, when it was first seen in this state,
            by the clock of the stream; else 0.
    """

    size: int
    modified: int
    inode: int
    digest: str
    since: int = 0

    @classmethod
    def of(cls, version: FileVersion) -> Self:
        """Return the identity of a file, which reads its first and last 16 KiB.

        Raises:
            OSError: when it is not there or may not be read.
        """
        return cls(version.size, version.modified, version.inode, digest_of(version.path, version.size))

    @classmethod
    def from_version(cls, version: Sequence[int | str]) -> Self:
        """Return what was written into an offset as numbers and text."""
        size, modified, inode, digest, *since = version
        return cls(int(size), int(modified), int(inode), str(digest), *map(int, since))

    def is_same_file(self, other: Self) -> bool:
        """Return whether `other` is a later identity of the same file, to which nothing has been appended."""
        return (self.size, self.modified, self.digest) == (other.size, other.modified, other.digest)

    def is_beginning_of(self, path: str, other: Self) -> bool:
        """Return whether `other`, the identity of the file at `path`, is that of this file after rows were appended.

        Raises:
            OSError: when the file cannot be read.
        """
        return other.size > self.size and digest_of(path, self.size) == self.digest


def unfinished_since(version: Sequence[int | str] | None) -> int:
    """Return the `since` of an identity that was written into an offset; 0 if there is none."""
    return 0 if version is None else FileIdentity.from_version(version).since


def has_status(version: Sequence[int | str], status: os.stat_result) -> bool:
    """Return whether a file has not been touched since it had this identity; called for each file at each poll."""
    return version[0] == status.st_size and version[1] == status.st_mtime_ns and version[2] == status.st_ino


def digest_of(path: str, size: int) -> str:
    """Return a digest of the first and the last 16 KiB of a file's first `size` bytes.

    Raises:
        OSError: when the file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=8)
    with Path(path).open("rb") as file:
        digest.update(file.read(min(_BLOCK, size)))
        if size > _BLOCK:
            file.seek(max(_BLOCK, size - _BLOCK))
            digest.update(file.read(size - file.tell()))
    return digest.hexdigest()


def is_missing(path: str) -> bool:
    """Return whether there is nothing under a path.

    Unlike `os.path.lexists`, does not take a path for missing just because the system does not let this process look:
    a stream would forget a file that is still there, and read it again later.

    Raises:
        SourceError: when that cannot be told.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no name has a null byte, say
        return True
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a glob can be longer than any name that it matches
            return True
        raise unreadable(path, error) from error
    return False


def missing(path: str, why: str, rows: int) -> SourceError:
    """Return the error for a file that has disappeared since it was listed.

    Args:
        path: where it was.
        why: what else is missing, to follow the name of the machine.
        rows: how many of its rows have been read.
    """
    read = f"; {rows} of its rows have been read" if rows else ""
    return SourceError(
        f"{path} cannot be read: No such file or directory on {socket.gethostname()}{why}{read}",
        hint="restore it, or mount its file system there; on_missing='skip' skips the unread rows of files that are "
        "missing, and counts them as rows_lost",
    )


def unreadable(path: str, error: OSError) -> SourceError:
    """Return the error for a file that the system does not let this process read."""
    return SourceError(f"{path} cannot be read: {error.strerror}", hint="restore the file, or check its permissions")
