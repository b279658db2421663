"""Which files paths mean now, and which of them have to be looked at again.

A poll of a followed folder must notice files that appear and disappear, and files that are replaced or written to. To
look at each file every time would make a poll slow in a folder with many files, so three means share the work:

* A directory is listed by names, without looking at its files. That shows files that appear and disappear. If none
  does, but the directory has changed, its files are compared by the numbers of their inodes, which shows files that are
  replaced by renaming another into their place.
* A directory whose time of modification has not changed is not even listed. Since something may happen in the tick of
  the file system's clock in which the directory was listed, it is listed once more when that tick must be over: after
  `TICK` seconds, or after `SETTLED` where the time is in whole seconds (2 seconds on FAT).
* In a directory with more than `FEW` names, the kernel is asked which names change (see `folder_notices`). If it
  reports any, only these are looked at, and nothing is listed. It reports everything that this machine does; if the
  directory's time of modification changes without a notice, as when another machine writes to a network file system,
  the directory is listed.
* Writing to a file in place changes neither its directory nor its inode. So the files take turns to be looked at, all
  of them at each poll while there are at most `FEW`, else as many as take one part in `SHARE` of the time. In a folder
  with 10,000 files, each one's turn comes within some seconds.

Now and then every directory is listed with its inodes, whether it seems to have changed or not: at each poll while
there are at most `FEW` files, else whenever `SHARE` times as long has passed as that took, or `SHARE_NOTICED` times
where there are notices. This finds what happens on
network file systems that keep no time of modification for directories, and a file that is replaced just when another
appears.
"""

from __future__ import annotations

import contextlib
import enum
import fnmatch
import glob
import itertools
import operator
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from dataflow_model.errors import SourceError
from dataflow_model.io.folder_notices import FolderNotices
from dataflow_model.io.paths import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

__all__ = ["FEW", "MOST_NOTICED", "SETTLED", "SHARE", "SHARE_NOTICED", "TICK", "Listing", "Watch", "list_files"]

FEW: Final = 50
SHARE: Final = 20
SHARE_NOTICED: Final = 100
MOST_NOTICED: Final = 8
"""For how many directories the kernel is asked at most, since a user can ask for 128 in all unless configured."""
SETTLED: Final = 3.0
TICK: Final = 0.05

_HIDDEN: Final = ("_", ".")
_SECOND: Final = 1_000_000_000
_ONE_BY_ONE: Final = 50
"""So many new names at most are looked at one by one; with more, it is faster to list the directory with inodes."""
_WILD: Final = re.compile(r"[*?\[]")
_SEP: Final = os.sep

Names = dict[str, int]
"""By a file's path below the common directory, the number of its inode."""


class Listing(NamedTuple):
    """What a look at the paths has found.

    Attributes:
        names: the files that are there.
        suspects: those to look at: all after a full look, else those that are known to stand for another inode now, and
            those whose turn it is.
    """

    names: Names
    suspects: Collection[str]


class Watch:
    """What looks at the same paths remember. It does not travel with what holds it: a copy begins with a full look.

    Files found in a directory or by a glob are left out when they, or a directory between, begin with `_` or `.`.
    Links to directories are followed only where a path or a glob names them.

    Args:
        clock: returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._folders: dict[str, _Folder] = {}
        self._matching: dict[str, tuple[Names | None, Names]] = {}
        self._parts: list[Names] = []
        self._names: Names = {}
        self._replaced: list[str] = []
        self._listed = -float("inf")
        self._listing = 0.0
        self._noticed = 0
        self._turn: Iterator[str] = iter(())
        self._offered = 0
        self._looking = self._looked = -float("inf")
        self._each = 0.0

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def look(self, paths: tuple[str, ...], *, full: bool = False) -> Listing:
        """Return what the paths mean now.

        Args:
            paths: absolute paths and globs; the same ones each time.
            full: whether all files are to be looked at, even if it is not their turn.

        Raises:
            SourceError: when a directory cannot be listed.
        """
        start = self._clock()
        full = full or len(self._names) <= FEW
        share = SHARE_NOTICED if self._is_noticed() else SHARE
        lists_all = full or start - self._listed >= share * self._listing
        self._replaced.clear()
        self._names = self._list(paths, full=lists_all)
        if lists_all:
            self._listed = self._clock()
            self._listing = self._listed - start
        suspects: Collection[str] = self._names
        if not full:
            suspects = self._in_turn() + [name for name in self._replaced if name in self._names]
        self._offered, self._looking = len(suspects), self._clock()
        return Listing(self._names, suspects)

    def folders(self) -> list[str]:
        """Return the directories that have been looked at."""
        return list(self._folders)

    def looked(self) -> None:
        """Note that the suspects of the last look have been looked at, which tells how long that takes."""
        self._looked = self._clock()
        if self._offered:
            self._each = (self._looked - self._looking) / self._offered

    def _in_turn(self) -> list[str]:
        """Return the files whose turn it is: as many as can be looked at in their share of the time."""
        share = (self._clock() - self._looked) / SHARE
        if share >= self._each * len(self._names):
            return list(self._names)  # not the rest of a round and a part of the next: their order may have changed
        count = int(share / self._each)
        turn = list(itertools.islice(self._turn, count))
        if len(turn) < count:
            self._turn = iter(list(self._names))
            turn += itertools.islice(self._turn, count - len(turn))
        return [name for name in turn if name in self._names]

    def _is_noticed(self) -> bool:
        """Return whether the kernel reports what changes, but for a few names at most."""
        return sum(folder.size for folder in self._folders.values() if folder.notices is None) <= FEW

    def _list(self, paths: tuple[str, ...], *, full: bool) -> Names:
        """Return the files that are there now: the same object as before where nothing has changed."""
        cut = len(root_of(paths).rstrip(_SEP)) + 1
        before, self._parts = self._parts, []
        for path in paths:
            if os.path.isfile(path):  # noqa: PTH113 - text is enough, here and below
                self._add_file(path, cut)
            elif os.path.isdir(path):  # noqa: PTH112
                self._add_tree(path, cut, full=full)
            else:
                self._add_matches(path, cut, full=full)
        if len(before) == len(self._parts) and all(map(operator.is_, before, self._parts)):
            return self._names
        if len(self._parts) == 1:
            return self._parts[0]
        return {name: inode for part in self._parts for name, inode in part.items()}

    def _add_file(self, path: str, cut: int) -> None:
        inode = 0
        with contextlib.suppress(OSError):  # whoever looks at the file finds out
            inode = os.stat(path).st_ino  # noqa: PTH116
        if self._names.get(path[cut:], inode) != inode:
            self._replaced.append(path[cut:])
        self._parts.append({path[cut:]: inode})

    def _add_tree(self, path: str, cut: int, *, full: bool) -> None:
        """Add the files below a directory."""
        folder = self._look_at(path, cut, full=full)
        self._parts.append(folder.files)
        for name in folder.folders:
            self._add_tree(os.path.join(path, name), cut, full=full)  # noqa: PTH118

    def _add_matches(self, pattern: str, cut: int, *, full: bool) -> None:
        """Add the files that a glob matches, and those below the directories that it matches."""
        parent, _, last = pattern.rpartition(_SEP)
        if _WILD.search(parent) or last == "**" or not os.path.isdir(parent):  # noqa: PTH112
            hits = [hit for hit in glob.iglob(pattern, recursive=True) if not _is_hidden(hit[cut:])]  # noqa: PTH207
            for hit in hits:
                if os.path.isdir(hit):  # noqa: PTH112
                    self._add_tree(hit, cut, full=full)
                else:
                    self._add_file(hit, cut)
            return
        if _is_hidden(parent[cut:]):
            return
        folder = self._look_at(parent, cut, full=full)
        matches = re.compile(fnmatch.translate(last)).match
        files, matching = self._matching.get(pattern, (None, {}))
        if files is not folder.files:
            start = len(folder.prefix)
            matching = {name: inode for name, inode in folder.files.items() if matches(name, start)}
            self._matching[pattern] = folder.files, matching
        self._parts.append(matching)
        for name in (*folder.folders, *folder.links):
            if matches(name):
                self._add_tree(os.path.join(parent, name), cut, full=full)  # noqa: PTH118

    def _look_at(self, path: str, cut: int, *, full: bool) -> _Folder:
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = _Folder(path, f"{path}{_SEP}"[cut:].lstrip(_SEP))
        noticed = folder.notices is not None
        folder.look(self._clock, full=full, asks=self._noticed < MOST_NOTICED)
        self._noticed += (folder.notices is not None) - noticed
        self._replaced += folder.replaced
        return folder


class _Kind(enum.Enum):
    """What a name in a directory stands for."""

    FILE = enum.auto()
    FOLDER = enum.auto()
    LINK = enum.auto()
    """To a directory; any other link is a file."""
    HIDDEN = enum.auto()


class _Folder:
    """What is in one directory.

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
        """List the directory, unless its time of modification or a notice shows what of the last list still holds.

        Args:
            clock: returns seconds that never go back.
            full: whether to list it anyhow, with inodes.
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
            if asks and self.notices is None and len(self._inodes) > FEW:
                self._ask(stamp)
            if full or not (self._list_names() or not has_changed):
                self._list_inodes(full=full)
        except FileNotFoundError:  # it was removed meanwhile
            self.files, self.folders, self.links, self._inodes, self.notices = {}, (), (), {}, None
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error

    def _noticed(self, stamp: tuple[int, ...]) -> set[str]:
        """Return the names that the kernel has reported; none if it was not asked about the directory that is there."""
        noticed = None
        if self.notices is not None and stamp[1:] == self._stamp[1:]:
            noticed = self.notices.take()
        if noticed is None:
            self.notices = None
            return set()
        return noticed

    def _ask(self, stamp: tuple[int, ...]) -> None:
        """Ask the kernel for notices, before the directory is listed."""
        self.notices = FolderNotices.open(self.path)
        status = os.stat(self.path)  # noqa: PTH116
        if stamp[1:] != (status.st_ino, status.st_dev):  # it was asked about another directory under the same name
            self.notices = None

    def _list_some(self, names: Collection[str]) -> None:
        """Look at some names: at what they stand for now, if anything."""
        kinds = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(os.path.join(self.path, name))  # noqa: PTH118
                kinds[name] = status.st_ino, self._kind_of(name, status.st_mode)
        known = self._inodes
        self.replaced = [self.prefix + name for name in kinds if name in known]  # a new file may have the old inode
        self._change([name for name in names if name not in kinds and name in known], kinds)

    def _list_names(self) -> bool:
        """List the directory by names, and look at new ones; return whether that has shown any change."""
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
            full: whether to look again at what each name stands for that is no file, even if it has the same inode.
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
        """Return what a name stands for, by the mode of what it names without following links."""
        if name[0] in _HIDDEN:
            return _Kind.HIDDEN
        if stat.S_ISDIR(mode):
            return _Kind.FOLDER
        is_link = stat.S_ISLNK(mode) and os.path.isdir(os.path.join(self.path, name))  # noqa: PTH112, PTH118
        return _Kind.LINK if is_link else _Kind.FILE

    def _change(self, removed: Collection[str], kinds: Mapping[str, tuple[int, _Kind]]) -> None:
        """Take names out, and put others in, each with its inode and what it stands for."""
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


def list_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files that the paths mean now, sorted, each relative to `root_of(paths)`.

    Raises:
        SourceError: when a directory cannot be listed.
    """
    return sorted(Watch().look(paths).names)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in name.split(_SEP))
