"""The content of one directory, listed again only if its time of modification, or a notice, shows a change."""

from __future__ import annotations

import contextlib
import enum
import os
import stat
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import SourceError
from dataflow_model.io.listing.folder_notices import FolderNotices

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

SETTLED: Final = 3.0
TICK: Final = 0.05
HIDDEN: Final = ("_", ".")
"""What the names of files and directories begin with that are not read."""
_SECOND: Final = 1_000_000_000
_ONE_BY_ONE: Final = 50
"""The maximum number of new names to examine one by one; beyond it, listing the directory with inodes is faster."""

Names = dict[str, int]
"""By a file's path below the common directory, the number of its inode."""


class _Kind(enum.Enum):
    """What a name in a directory stands for."""

    FILE = enum.auto()
    FOLDER = enum.auto()
    LINK = enum.auto()
    """A link to a directory. A link to a file counts as a file, and so does a broken link, until it is opened."""
    SKIPPED = enum.auto()
    """Hidden, or neither a file nor a directory but a pipe, a socket or a device."""


class ListedFolder:
    """The files, directories and links in one directory.

    Attributes:
        files: by name below the common directory, the number of the inode; another object once it changes.
        folders: the names of the directories in it.
        links: the names of links to directories.
        replaced: those of the files that the last look has found behind another inode than before.
        notices: the changes that the kernel reports, if it was asked.
    """

    def __init__(self, path: str, prefix: str) -> None:
        self.path = path
        self.prefix = prefix
        self.files: Names = {}
        self.folders: tuple[str, ...] = ()
        self.links: tuple[str, ...] = ()
        self.replaced: list[str] = []
        self.notices: FolderNotices | None = None
        self._is_told = False
        self._stamp: tuple[int, ...] = ()
        self._stamped = self._listed = 0.0
        self._inodes: Names = {}

    @property
    def size(self) -> int:
        """The number of names in the directory."""
        return len(self._inodes)

    def look(self, clock: Callable[[], float], *, full: bool, asks: bool = False) -> None:
        """Bring the list up to date, with as little listing as the time of modification and the notices allow.

        Args:
            clock: returns seconds that never go back.
            full: whether to list the directory in any case, with inodes.
            asks: whether the kernel may be asked for notices.
        """
        self.replaced = []
        try:
            status = os.stat(self.path)  # noqa: PTH116
            stamp = status.st_mtime_ns, status.st_ino, status.st_dev
            now = clock()
            has_changed = stamp != self._stamp
            noticed = self._noticed(stamp)
            if has_changed:
                self._stamp, self._stamped = stamp, now
            if noticed and not full:
                self._is_told = True
                self._list_some(noticed)
                return
            if has_changed:
                self._is_told = False
            elif not full:
                if self._is_told and self.notices is not None:
                    return
                is_fine = status.st_mtime_ns % _SECOND != 0
                settled = self._stamped + (TICK if is_fine else SETTLED)
                if self._listed >= settled or (is_fine and now < settled):
                    return
            self._listed = now
            if asks and self.notices is None:
                self._ask(stamp)
            if full or not (self._list_names() or not has_changed):
                self._list_inodes(full=full)
        except FileNotFoundError:  # it was removed meanwhile
            self.files, self.folders, self.links, self._inodes, self.notices = {}, (), (), {}, None
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error

    def _noticed(self, stamp: tuple[int, ...]) -> set[str]:
        """Return the names that the kernel has reported; none if it reports on another directory, or on none."""
        noticed = None
        if self.notices is not None and stamp[1:] == self._stamp[1:]:
            noticed = self.notices.take()
        if noticed is None:
            self.notices = None
            return set()
        return noticed

    def _ask(self, stamp: tuple[int, ...]) -> None:
        """Ask the kernel for notices; must precede the listing, so that no change is missed."""
        self.notices = FolderNotices.open(self.path)
        status = os.stat(self.path)  # noqa: PTH116
        if stamp[1:] != (status.st_ino, status.st_dev):  # it was asked about another directory under the same name
            self.notices = None

    def _list_some(self, names: Collection[str]) -> None:
        """Bring some names up to date: each may have appeared, been replaced or been removed."""
        kinds = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(os.path.join(self.path, name))  # noqa: PTH118
                kinds[name] = status.st_ino, self._kind_of(name, status.st_mode)
        known = self._inodes
        self.replaced = [self.prefix + name for name in kinds if name in known]  # a new file may have the old inode
        self._change([name for name in names if name not in kinds and name in known], kinds)

    def _list_names(self) -> bool:
        """List the directory by names, and examine new ones; return whether any name was added or removed."""
        names = set(os.listdir(self.path))  # noqa: PTH208 - only names
        new = names.difference(self._inodes)
        if len(new) > _ONE_BY_ONE:
            return False
        removed = self._inodes.keys() - names if len(names) - len(new) < len(self._inodes) else set()
        kinds = {}
        for name in new:
            with contextlib.suppress(FileNotFoundError):  # it is gone again
                status = os.lstat(os.path.join(self.path, name))  # noqa: PTH118
                kinds[name] = status.st_ino, self._kind_of(name, status.st_mode)
        self._change(removed, kinds)
        return bool(new or removed)

    def _list_inodes(self, *, full: bool) -> None:
        """List the directory with inodes.

        Args:
            full: whether to examine again each name that is not a file, even if it has the same inode.
        """
        known, files, prefix = self._inodes, self.files, self.prefix
        with os.scandir(self.path) as entries:
            entry_of = {entry.name: entry for entry in entries}
        fresh = {
            name: entry
            for name, entry in entry_of.items()
            if known.get(name) != entry.inode()
            or (full and not (entry.is_file(follow_symlinks=False) and prefix + name in files))
        }
        kinds = {}
        for name, entry in fresh.items():
            mode = stat.S_IFREG
            if not entry.is_file(follow_symlinks=False):
                mode = stat.S_IFLNK if entry.is_symlink() else stat.S_IFDIR * entry.is_dir(follow_symlinks=False)
            kinds[name] = entry.inode(), self._kind_of(name, mode)
        self.replaced = [prefix + name for name, (inode, _) in kinds.items() if known.get(name, inode) != inode]
        self._change(known.keys() - entry_of.keys(), kinds)

    def _kind_of(self, name: str, mode: int) -> _Kind:
        """Return what a name stands for, given its mode, which is that of a link itself and not of its target."""
        if name[0] in HIDDEN:
            return _Kind.SKIPPED
        if stat.S_ISLNK(mode):
            try:
                mode = os.stat(os.path.join(self.path, name)).st_mode  # noqa: PTH116, PTH118
            except OSError:
                return _Kind.FILE
            if stat.S_ISDIR(mode):
                return _Kind.LINK
        if stat.S_ISDIR(mode):
            return _Kind.FOLDER
        return _Kind.FILE if stat.S_ISREG(mode) else _Kind.SKIPPED

    def _change(self, removed: Collection[str], kinds: Mapping[str, tuple[int, _Kind]]) -> None:
        """Remove names, and add others with their inodes and what they stand for."""
        changed = {*removed, *kinds}
        if not changed:
            return
        for name in removed:
            del self._inodes[name]
        self._inodes |= {name: inode for name, (inode, _) in kinds.items()}
        now = {self.prefix + name: inode for name, (inode, kind) in kinds.items() if kind is _Kind.FILE}
        before = {name: self.files[name] for name in (self.prefix + name for name in changed) if name in self.files}
        if now != before:
            files = dict(self.files)
            for name in before:
                del files[name]
            files |= now
            self.files = files
        self.folders, self.links = (
            (
                *(name for name in had if name not in changed),
                *(name for name, (_, kind_of_name) in kinds.items() if kind_of_name is kind),
            )
            for had, kind in ((self.folders, _Kind.FOLDER), (self.links, _Kind.LINK))
        )
