"""The file system on which a folder is, as this machine lists its mounts."""

from __future__ import annotations

import pathlib
from typing import Final, NamedTuple

MOUNTS: Final = pathlib.Path("/proc/self/mounts")
"""The file that lists the mounts."""
_NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb", "smb2", "smb3", "smbfs"}
)
"""File systems on which locks and SQLite's shared memory do not work across machines."""
_WITHOUT_MODES: Final = frozenset({"exfat", "fuseblk", "msdos", "ntfs", "ntfs3", "vfat"})
"""Local file systems whose modes are options of the mount: they say nothing about a file."""


class Mount(NamedTuple):
    """A mounted file system.

    Attributes:
        path: where it is mounted.
        kind: its kind, such as `"ext4"`; empty if the machine does not list its mounts.
    """

    path: pathlib.Path
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether other machines may use it too."""
        return self.kind in _NETWORK

    @property
    def has_modes(self) -> bool:
        """Whether the owner and the mode of a file say who may write to it."""
        return not (self.is_network or self.kind in _WITHOUT_MODES or self.kind.startswith("fuse."))


def mount_of(folder: pathlib.Path, mounts: pathlib.Path = MOUNTS) -> Mount:
    """Return the mount of a folder, which need not exist.

    Args:
        folder: the folder.
        mounts: the file that lists the mounts.
    """
    nearest = Mount(pathlib.Path("/"), "")
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # this system has no such file
        return nearest
    folder = folder.resolve()
    for line in lines:
        _, mounted, kind, *_ = line.split(" ")
        path = pathlib.Path(_unescaped(mounted))
        # A later mount hides an earlier one.
        if folder.is_relative_to(path) and len(path.parts) >= len(nearest.path.parts):
            nearest = Mount(path, kind)
    return nearest


def _unescaped(text: str) -> str:
    r"""Return the path of a mount point, in which blanks and some other characters are written in octal.

    Example:
        >>> _unescaped(r"/mnt/my\040disk")
        '/mnt/my disk'
    """
    head, *tail = text.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] for part in tail)
