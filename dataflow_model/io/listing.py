"""Which files paths mean now, and which of them have to be looked at again.

A poll of a followed folder must notice files that appear and disappear, and files that are replaced or written to. To
look at each file every time would make a poll slow in a folder with many files, so three means share the work:

* A directory is listed by names and inode numbers, without looking at its files. That shows files that appear and
  disappear, and files that are replaced by renaming another into their place.
* A directory whose time of modification has not changed is not even listed. Since that time may be coarse (2 seconds
  on FAT), it is trusted only if it had been the same for `SETTLED` seconds when the directory was listed.
* Writing to a file in place changes neither its directory nor its inode, and some network file systems keep no time of
  modification for directories. So there is a *full* look, which lists every directory and returns every file for
  inspection: at each poll while there are at most `FEW` files, else whenever `SHARE` times as long has passed as the
  last one took. In a folder with 10,000 files, a file that is written to in place is noticed after some tenths of a
  second.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import operator
import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from dataflow_model.errors import SourceError
from dataflow_model.io.paths import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["FEW", "SETTLED", "SHARE", "Listing", "Watch", "list_files"]

FEW: Final = 1_000
SHARE: Final = 20
SETTLED: Final = 3.0

_HIDDEN: Final = ("_", ".")
_WILD: Final = re.compile(r"[*?\[]")
_SEP: Final = os.sep

Names = dict[str, int]
"""By a file's path below the common directory, the number of its inode."""


class Listing(NamedTuple):
    """What a look at the paths has found.

    Attributes:
        names: the files that are there.
        suspects: those that may have changed: all after a full look, else those that stand for another inode now.
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
        self._ended = -float("inf")
        self._took = 0.0

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def look(self, paths: tuple[str, ...], *, full: bool = False) -> Listing:
        """Return what the paths mean now.

        Args:
            paths: absolute paths and globs; the same ones each time.
            full: whether to take a full look, even if none is due.

        Raises:
            SourceError: when a directory cannot be listed.
        """
        start = self._clock()
        full = full or len(self._names) <= FEW or start - self._ended >= SHARE * self._took
        before, self._names = self._names, self._list(paths, full=full)
        if full:
            self._took = self._clock() - start
            self._ended = start + self._took
            return Listing(self._names, self._names)
        if self._names is before:
            return Listing(before, ())
        return Listing(self._names, [name for name, inode in self._names.items() if before.get(name) != inode])

    def looked(self) -> None:
        """Note that the suspects of a full look have been looked at, which is most of what it costs."""
        self._took += self._clock() - self._ended
        self._ended = self._clock()

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
        with contextlib.suppress(OSError):  # whoever looks at the file finds out
            self._parts.append({path[cut:]: os.stat(path).st_ino})  # noqa: PTH116
            return
        self._parts.append({path[cut:]: 0})

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
        folder.look(self._clock(), full=full)
        return folder


class _Folder:
    """What is in one directory.

    Attributes:
        files: by name below the common directory, the number of the inode; another object once it changes.
        folders: the names of the directories in it.
        links: the names of links to directories.
    """

    def __init__(self, path: str, prefix: str) -> None:
        self.path = path
        self.prefix = prefix
        self.files: Names = {}
        self.folders: tuple[str, ...] = ()
        self.links: tuple[str, ...] = ()
        self._stamp: tuple[int, ...] = ()
        self._stamped = self._listed = 0.0

    def look(self, now: float, *, full: bool) -> None:
        """List the directory, unless its time of modification shows that the last list still holds."""
        try:
            status = os.stat(self.path)  # noqa: PTH116
            stamp = status.st_mtime_ns, status.st_ino, status.st_dev
            if stamp != self._stamp:
                self._stamp, self._stamped = stamp, now
            elif not full and self._listed - self._stamped >= SETTLED:
                return
            self._listed = now
            self._list()
        except FileNotFoundError:  # it was removed meanwhile
            self.files, self.folders, self.links = {}, (), ()
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error

    def _list(self) -> None:
        files, folders, links, prefix = {}, [], [], self.prefix
        with os.scandir(self.path) as entries:
            for entry in entries:
                name = entry.name
                if name[0] in _HIDDEN:
                    continue
                if entry.is_file(follow_symlinks=False):
                    files[prefix + name] = entry.inode()
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and entry.is_dir():
                    links.append(name)
                else:
                    files[prefix + name] = entry.inode()
        if files != self.files:
            self.files = files
        self.folders, self.links = tuple(folders), tuple(links)


def list_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files that the paths mean now, sorted, each relative to `root_of(paths)`.

    Raises:
        SourceError: when a directory cannot be listed.
    """
    return sorted(Watch().look(paths).names)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in name.split(_SEP))
